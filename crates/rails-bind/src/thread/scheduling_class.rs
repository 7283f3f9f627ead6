//! The scheduling class of a thread.

use crate::BindError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The scheduling class of a thread, with its priority where the class has some.
///
/// # References
/// [sched(7)](https://man7.org/linux/man-pages/man7/sched.7.html)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SchedulingClass {
    /// The usual class, by nice value (`SCHED_OTHER`).
    Other,
    /// The usual class for batch work (`SCHED_BATCH`).
    Batch,
    /// For a thread that runs when no other wants the CPU (`SCHED_IDLE`).
    Idle,
    /// Real-time, until it waits or yields; priority 1 (low) to 99 (`SCHED_FIFO`).
    Fifo(u8),
    /// Real-time, in turn with threads of its priority, 1 (low) to 99 (`SCHED_RR`).
    RoundRobin(u8),
    /// Real-time, by deadline (`SCHED_DEADLINE`); it can be read and put back, but not requested
    /// here.
    Deadline,
    /// A class without a name in this crate, by the kernel's number; it can be read and put back,
    /// but not requested.
    Unnamed(u32),
}

impl SchedulingClass {
    /// The class of the kernel's policy number and real-time priority.
    pub(crate) fn from_raw(policy: u32, priority: u32) -> Self {
        let priority = u8::try_from(priority).unwrap_or(u8::MAX);
        match i32::try_from(policy) {
            Ok(libc::SCHED_OTHER) => Self::Other,
            Ok(libc::SCHED_BATCH) => Self::Batch,
            Ok(libc::SCHED_IDLE) => Self::Idle,
            Ok(libc::SCHED_FIFO) => Self::Fifo(priority),
            Ok(libc::SCHED_RR) => Self::RoundRobin(priority),
            Ok(libc::SCHED_DEADLINE) => Self::Deadline,
            _ => Self::Unnamed(policy),
        }
    }

    pub(super) fn to_raw(self) -> (u32, u32) {
        let (policy, priority) = match self {
            Self::Other => (libc::SCHED_OTHER, 0),
            Self::Batch => (libc::SCHED_BATCH, 0),
            Self::Idle => (libc::SCHED_IDLE, 0),
            Self::Fifo(priority) => (libc::SCHED_FIFO, priority),
            Self::RoundRobin(priority) => (libc::SCHED_RR, priority),
            Self::Deadline => (libc::SCHED_DEADLINE, 0),
            Self::Unnamed(policy) => return (policy, 0),
        };
        (policy.unsigned_abs(), priority.into())
    }

    /// Whether the thread goes before every thread that has a nice value.
    pub fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo(_) | Self::RoundRobin(_) | Self::Deadline)
    }

    /// Checks that the class can be requested: it is not read-only, and its priority is in range.
    pub(super) fn check(self) -> Result<(), BindError> {
        match self {
            Self::Fifo(priority) | Self::RoundRobin(priority) if !(1..=99).contains(&priority) => {
                let value = i64::from(priority);
                Err(BindError::OutOfRange { what: "real-time priority", value, lowest: 1, highest: 99 })
            }
            Self::Deadline | Self::Unnamed(_) => {
                Err(BindError::Contradiction { reason: "this scheduling class can be read but not asked for" })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for SchedulingClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.write_str("other"),
            Self::Batch => f.write_str("batch"),
            Self::Idle => f.write_str("idle"),
            Self::Fifo(priority) => write!(f, "fifo {priority}"),
            Self::RoundRobin(priority) => write!(f, "round-robin {priority}"),
            Self::Deadline => f.write_str("deadline"),
            Self::Unnamed(policy) => write!(f, "class {policy}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_of_priorities() {
        for priority in [1, 99] {
            SchedulingClass::Fifo(priority).check().expect("within");
            SchedulingClass::RoundRobin(priority).check().expect("within");
        }
        for priority in [0, 100, 255] {
            let error = SchedulingClass::Fifo(priority).check().expect_err("outside");
            assert!(matches!(error, BindError::OutOfRange { value, .. } if value == i64::from(priority)), "{error}");
        }
        assert!(SchedulingClass::Deadline.check().is_err());
    }

    proptest! {
        #[test]
        fn classes_come_back_from_the_kernels_numbers(policy in 0_u32..12, priority in 0_u8..100) {
            let class = SchedulingClass::from_raw(policy, priority.into());
            let (policy_again, priority_again) = class.to_raw();
            prop_assert_eq!(policy_again, policy);
            prop_assert_eq!(SchedulingClass::from_raw(policy_again, priority_again), class);
        }
    }
}
