//! The result of a replay.

use rails_cache::BudgetStats;
use std::time::Duration;

/// How the reads of a trace went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// How long each read waited, in the order in which they began in the recording; without those
    /// that failed or were given up there.
    pub waits: Vec<Duration>,
    /// From the beginning of the first read to the end of the last.
    pub elapsed: Duration,
    /// The size of the selected elements.
    pub wanted_bytes: u64,
    /// The size of the blocks that came over the path.
    pub path_bytes: u64,
    /// The number of these blocks.
    pub path_blocks: u64,
    /// The counters of all blocks of the memory.
    pub stats: BudgetStats,
    /// The number of regions that got blocks of their own.
    pub views: u64,
}

impl Outcome {
    /// The [sum] of the waits.
    pub fn waited(&self) -> Duration {
        sum(&self.waits)
    }

    /// The blocks that came ahead of time, and were not used until the end.
    pub fn unused(&self) -> u64 {
        self.stats.ahead_fetched.saturating_sub(self.stats.used)
    }

    pub(super) fn add(&mut self, budget: &BudgetStats) {
        let sum = &mut self.stats;
        sum.hits += budget.hits;
        sum.ahead_hits += budget.ahead_hits;
        sum.late_ahead += budget.late_ahead;
        sum.joined += budget.joined;
        sum.misses += budget.misses;
        sum.ahead_fetched += budget.ahead_fetched;
        sum.used += budget.used;
        sum.unused += budget.unused;
        sum.reclaimed += budget.reclaimed;
    }
}

/// The sum of waits, [`Duration::MAX`] at most: over a path of a byte in a second a million reads
/// wait longer.
pub fn sum(waits: &[Duration]) -> Duration {
    waits.iter().fold(Duration::ZERO, |sum, wait| sum.saturating_add(*wait))
}

/// The mean of waits. Zero without any.
pub fn mean(waits: &[Duration]) -> Duration {
    u32::try_from(waits.len()).ok().and_then(|count| sum(waits).checked_div(count)).unwrap_or_default()
}

/// The wait that 99 of 100 reads do not exceed. Zero without any.
pub fn p99(waits: &[Duration]) -> Duration {
    let mut sorted = waits.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_few_reads() {
        let waits = |count: u64| (1..=count).rev().map(Duration::from_millis).collect::<Vec<_>>();
        assert_eq!((mean(&[]), p99(&[])), (Duration::ZERO, Duration::ZERO));
        assert_eq!((mean(&waits(3)), p99(&waits(3))), (Duration::from_millis(2), Duration::from_millis(3)));
        assert_eq!(p99(&waits(100)), Duration::from_millis(99));
        assert_eq!(p99(&waits(101)), Duration::from_millis(100));
        let long = [Duration::MAX; 2];
        assert_eq!((sum(&long), mean(&long), p99(&long)), (Duration::MAX, Duration::MAX / 2, Duration::MAX));
    }
}
