//! The CPUs that a thread was seen on.

use super::{ThreadUsage, UsageError};
use rails_topo::{CpuId, CpuSet};
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds};
use std::{collections::BTreeMap, time::Duration};

/// The CPUs that a thread was seen on, from readings of its usage that are fed in.
///
/// A reading states the thread's last CPU, so a history misses moves in between: a thread may go to
/// another CPU and come back unseen. The kernel may count its moves, and then the *number* of
/// missed moves is known ([`moves_unseen`](Self::moves_unseen)). A history without unseen moves is
/// complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuHistory {
    first: ThreadUsage,
    last: ThreadUsage,
    #[serde(rename = "began_at_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    began_at: Duration,
    #[serde(rename = "ended_at_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    ended_at: Duration,
    seen: BTreeMap<CpuId, u64>,
    moves_seen: u64,
}

/// The evidence of a history on whether a thread stayed within a set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whereabouts {
    /// Every reading saw the thread within the set, and it made no unseen moves.
    Within,
    /// Every reading saw the thread within the set, but it made, or may have made, unseen moves in
    /// between, to unknown CPUs. That is no evidence against a binding whose affinity reads back
    /// unchanged.
    WithinWhenSeen {
        /// The number of unseen moves; `None` if the kernel does not count moves.
        unseen: Option<u64>,
    },
    /// Readings saw the thread on these CPUs outside the set.
    Outside(CpuSet),
}

impl CpuHistory {
    /// A history that begins with a reading, taken at `at` of any monotonic clock.
    ///
    /// A thread that has not run since it was bound may still show its former CPU: begin after it
    /// has run.
    pub fn begin(at: Duration, usage: ThreadUsage) -> Self {
        let seen = BTreeMap::from([(usage.last_cpu, 1)]);
        Self { first: usage.clone(), last: usage, began_at: at, ended_at: at, seen, moves_seen: 0 }
    }

    /// Adds a reading, taken at `at`.
    ///
    /// # Errors
    /// As [`ThreadUsage::since`]: the history is of one thread. The reading is not added then.
    pub fn observe(&mut self, at: Duration, usage: ThreadUsage) -> Result<(), UsageError> {
        usage.since(&self.last)?;
        *self.seen.entry(usage.last_cpu).or_default() += 1;
        self.moves_seen += u64::from(usage.last_cpu != self.last.last_cpu);
        self.ended_at = self.ended_at.max(at);
        self.last = usage;
        Ok(())
    }

    /// The CPUs that the thread was seen on, each with the number of readings that saw it there.
    pub fn seen(&self) -> impl Iterator<Item = (CpuId, u64)> + '_ {
        self.seen.iter().map(|(cpu, times)| (*cpu, *times))
    }

    /// The CPUs that the thread was seen on.
    pub fn cpus(&self) -> CpuSet {
        self.seen.keys().copied().collect()
    }

    /// The number of readings, the first included.
    pub fn readings(&self) -> u64 {
        self.seen.values().sum()
    }

    /// The time from the first reading to the latest.
    pub fn interval(&self) -> Duration {
        self.ended_at.saturating_sub(self.began_at)
    }

    /// The number of times that two successive readings saw the thread on different CPUs.
    pub fn moves_seen(&self) -> u64 {
        self.moves_seen
    }

    /// The number of the thread's moves that no reading saw; `None` where the kernel does not count
    /// them.
    pub fn moves_unseen(&self) -> Option<u64> {
        Some(self.last.migrations?.saturating_sub(self.first.migrations?).saturating_sub(self.moves_seen))
    }

    /// The time that the thread was on a CPU from the first reading to the latest; `None` where the
    /// kernel does not account for it.
    pub fn ran(&self) -> Option<Duration> {
        Some(self.last.cpu_time?.saturating_sub(self.first.cpu_time.unwrap_or_default()))
    }

    /// Whether the thread stayed within `cpus`, as far as was seen.
    pub fn within(&self, cpus: &CpuSet) -> Whereabouts {
        let outside = self.cpus().difference(cpus);
        match self.moves_unseen() {
            _ if !outside.is_empty() => Whereabouts::Outside(outside),
            Some(0) => Whereabouts::Within,
            unseen => Whereabouts::WithinWhenSeen { unseen },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::thread_usage::tests::usage, *};
    use proptest::prelude::*;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    fn history(readings: &[(u32, Option<u64>)]) -> CpuHistory {
        let mut readings = readings.iter().map(|(cpu, migrations)| usage(7, *cpu, *migrations));
        let mut history = CpuHistory::begin(Duration::ZERO, readings.next().expect("one at least"));
        for (index, reading) in readings.enumerate() {
            history.observe(Duration::from_millis(index as u64 + 1), reading).expect("the same thread");
        }
        history
    }

    #[test]
    fn moves_between_readings_are_counted_though_not_seen() {
        // 2, then there and back, then to 3.
        let history = history(&[(2, Some(10)), (2, Some(12)), (3, Some(13))]);
        assert_eq!((history.moves_seen(), history.moves_unseen()), (1, Some(2)));
        assert_eq!(history.within(&set("2-3")), Whereabouts::WithinWhenSeen { unseen: Some(2) });
        assert_eq!(history.within(&set("3")), Whereabouts::Outside(set("2")));
        assert_eq!((history.readings(), history.interval()), (3, Duration::from_millis(2)));
    }

    #[test]
    fn complete_and_incomplete_histories() {
        assert_eq!(history(&[(2, Some(10)), (3, Some(11))]).within(&set("2-3")), Whereabouts::Within);
        let unknown = Whereabouts::WithinWhenSeen { unseen: None };
        assert_eq!(history(&[(2, None), (2, None)]).within(&set("2")), unknown);
    }

    #[test]
    fn another_thread_is_refused_and_changes_nothing() {
        let mut history = history(&[(2, Some(10))]);
        let before = history.clone();
        history.observe(Duration::from_millis(9), usage(8, 3, Some(0))).expect_err("another thread");
        assert_eq!(history, before);
    }

    proptest! {
        #[test]
        fn history_includes_every_seen_cpu(cpus in prop::collection::vec(0_u32..6, 1..20), allowed in prop::collection::btree_set(0_u32..6, 1..6)) {
            let readings: Vec<_> = cpus.iter().enumerate().map(|(index, cpu)| (*cpu, Some(index as u64))).collect();
            let history = history(&readings);
            let allowed: CpuSet = allowed.into_iter().map(CpuId).collect();
            let outside = cpus.iter().any(|cpu| !allowed.contains(CpuId(*cpu)));
            prop_assert_eq!(matches!(history.within(&allowed), Whereabouts::Outside(_)), outside);
            prop_assert_eq!(history.readings(), cpus.len() as u64);
        }
    }
}
