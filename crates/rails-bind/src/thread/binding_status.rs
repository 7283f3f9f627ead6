//! Whether a binding still holds.

use crate::Outcome;
use rails_topo::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The status of an earlier binding.
///
/// The kernel changes a thread's CPUs without an event. Seen on Linux 6.1, in the root cpuset:
/// * One of several CPUs goes offline: `sched_getaffinity` leaves it out
///   ([`Narrowed`](Self::Narrowed)) until it is back; then the binding holds again.
/// * All of them go offline: as soon as the thread is to run, it may run on *every* CPU
///   ([`Lost`](Self::Lost)), and that stays so when they come back. A thread that sleeps meanwhile
///   reads back without any CPU, and keeps its binding if they come back before it wakes.
///
/// In a cpuset of its own (any but the root) the kernel also gives the thread all of the cpuset's
/// CPUs when one of them goes and comes back, so there hotplug always ends a binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindingStatus {
    /// The thread may run on all of the CPUs that it was bound to, and on none that were not asked
    /// for.
    Holds(CpuSet),
    /// The thread may run on some of the CPUs, and on no others.
    Narrowed {
        /// The CPUs that the thread was bound to.
        bound: CpuSet,
        /// The CPUs that the thread may run on.
        now: CpuSet,
        /// The missing CPUs that are not online; `None` if unknown.
        offline: Option<CpuSet>,
    },
    /// The thread may run on other CPUs, or on none.
    Lost {
        /// The CPUs that the thread was bound to.
        bound: CpuSet,
        /// The CPUs that the thread may run on; none while it sleeps and all of its CPUs are
        /// offline.
        now: CpuSet,
    },
}

impl BindingStatus {
    /// Compares the outcome of a binding with the CPUs now. Requested CPUs that have come online
    /// since belong to it.
    pub(super) fn compare(outcome: &Outcome<CpuSet>, now: CpuSet, online: impl FnOnce() -> Option<CpuSet>) -> Self {
        let bound = outcome.got();
        let wanted = match outcome {
            Outcome::Applied(wanted) | Outcome::Partial { wanted, .. } => wanted,
        };
        let within = now.is_subset(wanted) || now.is_subset(bound);
        if now.is_empty() || !within {
            Self::Lost { bound: bound.clone(), now }
        } else if bound.is_subset(&now) {
            Self::Holds(now)
        } else {
            let offline = online().map(|online| bound.difference(&now).difference(&online));
            Self::Narrowed { bound: bound.clone(), now, offline }
        }
    }

    /// Whether the whole binding holds.
    pub fn holds(&self) -> bool {
        matches!(self, Self::Holds(_))
    }
}

impl fmt::Display for BindingStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds(cpus) => write!(f, "bound to CPUs {cpus}"),
            Self::Narrowed { bound, now, .. } => write!(f, "bound to CPUs {bound}, of which {now} are left"),
            Self::Lost { bound, now } if now.is_empty() => write!(f, "bound to CPUs {bound}, of which none is left"),
            Self::Lost { bound, now } => write!(f, "no longer bound to CPUs {bound}: it may run on {now}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rails_topo::CpuId;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    fn standing(outcome: &Outcome<CpuSet>, now: &str, online: &str) -> BindingStatus {
        BindingStatus::compare(outcome, set(now), || Some(set(online)))
    }

    #[test]
    fn cpu_that_goes_offline_narrows_or_loses_a_binding() {
        let two = Outcome::Applied(set("2-3"));
        assert_eq!(standing(&two, "2-3", "0-3"), BindingStatus::Holds(set("2-3")));
        let narrowed = BindingStatus::Narrowed { bound: set("2-3"), now: set("2"), offline: Some(set("3")) };
        assert_eq!(standing(&two, "2", "0-2"), narrowed);
        let one = Outcome::Applied(set("3"));
        assert_eq!(standing(&one, "0-3", "0-2"), BindingStatus::Lost { bound: set("3"), now: set("0-3") });
        assert_eq!(standing(&one, "", "0-2"), BindingStatus::Lost { bound: set("3"), now: set("") });
    }

    #[test]
    fn cpu_that_was_asked_for_may_join_later() {
        let partial = Outcome::Partial { wanted: set("2-3"), got: set("2") };
        assert_eq!(standing(&partial, "2-3", "0-3"), BindingStatus::Holds(set("2-3")));
        assert!(!standing(&partial, "1-2", "0-3").holds());
    }

    proptest! {
        #[test]
        fn binding_status_of_any_sets(
            bound in prop::collection::btree_set(0_u32..8, 1..5), now in prop::collection::btree_set(0_u32..8, 0..8),
        ) {
            let bound: CpuSet = bound.into_iter().map(CpuId).collect();
            let now: CpuSet = now.into_iter().map(CpuId).collect();
            let standing = BindingStatus::compare(&Outcome::Applied(bound.clone()), now.clone(), || None);
            prop_assert_eq!(standing.holds(), bound == now);
            prop_assert_eq!(matches!(standing, BindingStatus::Lost { .. }), now.is_empty() || !now.is_subset(&bound));
        }
    }
}
