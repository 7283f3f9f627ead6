//! The usage of a thread over an interval.

use super::{ThreadUsage, UsageError};
use crate::thread::Tid;
use rails_topo::CpuId;
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds, DurationNanoSeconds};
use std::time::Duration;

/// The usage of a thread between two readings.
///
/// Where the kernel's counts were read a little out of step, a difference may be zero too early, but never below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ThreadUsageDelta {
    /// The thread.
    pub tid: Tid,
    /// Time in the thread's own code, to a clock tick.
    #[serde(rename = "user_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub user: Duration,
    /// Time in the kernel on the thread's behalf, to a clock tick.
    #[serde(rename = "system_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub system: Duration,
    /// Time on a CPU; `None` where either reading has none.
    #[serde(rename = "cpu_time_ns", serialize_with = "As::<Option<DurationNanoSeconds>>::serialize")]
    pub cpu_time: Option<Duration>,
    /// Time that the thread waited for a CPU; `None` where either reading has none.
    #[serde(rename = "run_queue_wait_ns", serialize_with = "As::<Option<DurationNanoSeconds>>::serialize")]
    pub run_queue_wait: Option<Duration>,
    /// The number of times that the thread gave its CPU up.
    pub voluntary_switches: u64,
    /// The number of times that the kernel took the CPU from the thread.
    pub involuntary_switches: u64,
    /// The number of the thread's moves to another CPU; `None` if the kernel does not count them.
    pub migrations: Option<u64>,
    /// Page faults that took no reading from a disk.
    pub minor_faults: u64,
    /// Page faults that took a reading from a disk.
    pub major_faults: u64,
    /// Pages that NUMA balancing moved to the thread's node; `None` without NUMA balancing.
    pub numa_pages_migrated: Option<u64>,
    /// The thread's CPU at the earlier reading.
    pub cpu_before: CpuId,
    /// The thread's CPU at the later reading.
    pub cpu_after: CpuId,
}

impl ThreadUsage {
    /// The usage since `earlier` was read.
    ///
    /// # Errors
    /// [`UsageError::DifferentThreads`] for readings of two threads, [`UsageError::Replaced`] if the thread has ended
    /// and its number was given to another one in between.
    pub fn since(&self, earlier: &Self) -> Result<ThreadUsageDelta, UsageError> {
        if self.tid != earlier.tid {
            return Err(UsageError::DifferentThreads { earlier: earlier.tid, later: self.tid });
        }
        if self.started != earlier.started {
            return Err(UsageError::Replaced { tid: self.tid });
        }
        let times = |later: Option<Duration>, earlier: Option<Duration>| Some(later?.saturating_sub(earlier?));
        let counts = |later: Option<u64>, earlier: Option<u64>| Some(later?.saturating_sub(earlier?));
        let moved = |usage: &Self| usage.numa.as_ref().map(|numa| numa.pages_migrated);
        Ok(ThreadUsageDelta {
            tid: self.tid,
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            cpu_time: times(self.cpu_time, earlier.cpu_time),
            run_queue_wait: times(self.run_queue_wait, earlier.run_queue_wait),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            migrations: counts(self.migrations, earlier.migrations),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            numa_pages_migrated: counts(moved(self), moved(earlier)),
            cpu_before: earlier.last_cpu,
            cpu_after: self.last_cpu,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::thread_usage::tests::usage;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unknown_stays_unknown_and_known_is_subtracted() {
        let mut later = usage(7, 3, Some(9));
        later.voluntary_switches += 4;
        let delta = later.since(&usage(7, 4, Some(5))).expect("the same thread");
        assert_eq!((delta.voluntary_switches, delta.migrations, delta.run_queue_wait), (4, Some(4), None));
        assert_eq!((delta.cpu_before, delta.cpu_after), (CpuId(4), CpuId(3)));
        assert_eq!(later.since(&usage(7, 4, None)).expect("the same thread").migrations, None);
    }

    #[test]
    fn no_difference_between_two_threads() {
        let error = usage(8, 0, None).since(&usage(7, 0, None)).expect_err("two threads");
        assert!(matches!(error, UsageError::DifferentThreads { .. }), "{error}");
        let mut reused = usage(7, 0, None);
        reused.started += Duration::from_millis(10);
        assert!(matches!(reused.since(&usage(7, 0, None)), Err(UsageError::Replaced { .. })));
    }

    proptest! {
        #[test]
        fn difference_is_never_below_zero(before: (u64, u64), after: (u64, u64)) {
            let of = |(switches, migrations): (u64, u64)| {
                let mut usage = usage(7, 0, Some(migrations));
                usage.voluntary_switches = switches;
                usage.user = Duration::from_nanos(switches);
                usage
            };
            let delta = of(after).since(&of(before)).expect("the same thread");
            prop_assert_eq!(delta.voluntary_switches, after.0.saturating_sub(before.0));
            prop_assert_eq!(delta.migrations, Some(after.1.saturating_sub(before.1)));
        }
    }
}
