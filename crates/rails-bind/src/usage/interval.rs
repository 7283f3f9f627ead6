//! The usage of a thread over an interval.

use super::{NumaFaults, ThreadUsage, UsageError};
use std::time::Duration;

impl ThreadUsage {
    /// The usage since `earlier` was read: times and counts of the interval alone,
    /// [`NumaFaults::pages_migrated`] among them. All else, such as the CPU and the scheduling
    /// class, is as this reading has it.
    ///
    /// A figure that either reading lacks is `None`. Where the kernel's counts were read a little
    /// out of step, a difference may be zero too early, but never below it.
    ///
    /// # Errors
    /// [`UsageError::DifferentThreads`] for readings of two threads, [`UsageError::Replaced`] if
    /// the thread has ended and its number was given to another one in between.
    pub fn since(&self, earlier: &Self) -> Result<Self, UsageError> {
        if self.tid != earlier.tid {
            return Err(UsageError::DifferentThreads { earlier: earlier.tid, later: self.tid });
        }
        if self.started != earlier.started {
            return Err(UsageError::Replaced { tid: self.tid });
        }
        let times = |later: Option<Duration>, earlier: Option<Duration>| Some(later?.saturating_sub(earlier?));
        let counts = |later: Option<u64>, earlier: Option<u64>| Some(later?.saturating_sub(earlier?));
        let faults = |later: &NumaFaults, earlier: &NumaFaults| NumaFaults {
            pages_migrated: later.pages_migrated.saturating_sub(earlier.pages_migrated),
            ..later.clone()
        };
        Ok(Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            cpu_time: times(self.cpu_time, earlier.cpu_time),
            run_queue_wait: times(self.run_queue_wait, earlier.run_queue_wait),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            migrations: counts(self.migrations, earlier.migrations),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            numa: self.numa.as_ref().zip(earlier.numa.as_ref()).map(|(later, earlier)| faults(later, earlier)),
            ..*self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{NodeFaults, thread_usage::tests::usage},
        *,
    };
    use proptest::prelude::*;
    use rails_topo::{CpuId, NodeId};

    #[test]
    fn unknown_stays_unknown_and_known_is_subtracted() {
        let mut later = usage(7, 3, Some(9));
        later.voluntary_switches += 4;
        let delta = later.since(&usage(7, 4, Some(5))).expect("the same thread");
        assert_eq!((delta.voluntary_switches, delta.migrations, delta.run_queue_wait), (4, Some(4), None));
        assert_eq!((delta.last_cpu, delta.started), (CpuId(3), later.started));
        assert_eq!(later.since(&usage(7, 4, None)).expect("the same thread").migrations, None);
    }

    #[test]
    fn migrated_pages_of_the_interval_alone() {
        let faults = |pages_migrated| {
            let node = NodeId(1);
            let by_node = vec![NodeFaults { node, private: pages_migrated, shared: 0 }];
            Some(NumaFaults { preferred: None, current: node, pages_migrated, by_node })
        };
        let of = |numa| ThreadUsage { numa, ..usage(7, 3, None) };
        let during = |later, earlier| of(later).since(&of(earlier)).expect("the same thread").numa;
        let numa = during(faults(9), faults(5)).expect("both have faults");
        // The faults of a node are an average, not a count.
        assert_eq!((numa.pages_migrated, numa.by_node[0].private), (4, 9));
        assert_eq!((during(faults(9), None), during(None, faults(9))), (None, None));
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
