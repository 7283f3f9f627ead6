//! The scheduling of a thread: class, priority or nice value, and whether its children are scheduled likewise.

use super::{Tid, cpu_binding::FOR_OTHERS, identity::Subject};
use crate::{
    BindError,
    sys::sched::{self, Attributes},
};
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
    /// As the usual class, for work without a deadline (`SCHED_BATCH`).
    Batch,
    /// For a thread that runs when no other wants the CPU (`SCHED_IDLE`).
    Idle,
    /// Real-time, until it waits or yields; priority 1 (low) to 99 (`SCHED_FIFO`).
    Fifo(u8),
    /// Real-time, in turn with threads of its priority, 1 (low) to 99 (`SCHED_RR`).
    RoundRobin(u8),
    /// Real-time, by deadline (`SCHED_DEADLINE`); it can be read and put back, but not asked for here.
    Deadline,
    /// A class that has no name here, by the kernel's number; it can be read and put back, but not asked for.
    Unnamed(u32),
}

/// The scheduling of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// The thread's class.
    pub class: SchedulingClass,
    /// The thread's nice value, -20 (first) to 19 (last). Real-time classes make no use of it.
    pub nice: i32,
    /// Whether the threads and processes that the thread starts begin in the usual class, with nice value 0 if its own
    /// is lower (`SCHED_RESET_ON_FORK`).
    pub reset_on_fork: bool,
}

/// The scheduling of a thread of any process.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`BindError::NoSuchThread`] if the thread has ended; [`BindError::Denied`] under a seccomp filter.
///
/// # References
/// [sched_getattr(2)](https://man7.org/linux/man-pages/man2/sched_setattr.2.html)
#[doc(alias = "sched_getattr")]
#[doc(alias = "getpriority")]
pub fn scheduling_of(tid: Tid) -> Result<Scheduling, BindError> {
    Ok(read(Subject::of(tid)?)?.scheduling())
}

/// All attributes that the kernel states and takes, so that they can be put back whole, with those that have no name
/// here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Former {
    attributes: Attributes,
    nice: i32,
}

pub(super) fn read(thread: Subject) -> Result<Former, BindError> {
    let failed =
        |call| move |source| thread.error(call, "its scheduling", "a seccomp filter that lets it pass", source);
    let attributes = sched::get(thread.raw()).map_err(failed("sched_getattr"))?;
    let nice = sched::nice(thread.raw()).map_err(failed("getpriority"))?;
    Ok(Former { attributes, nice })
}

/// Sets class, nice value and reset-on-fork by one call, which does all or nothing.
pub(super) fn write(thread: Subject, wanted: Scheduling, former: &Former) -> Result<(), BindError> {
    let mut attributes = Attributes::new();
    let raw = &mut attributes.0;
    (raw.sched_policy, raw.sched_priority) = wanted.class.to_raw();
    raw.sched_flags = if wanted.reset_on_fork { RESET_ON_FORK } else { 0 };
    if !wanted.class.is_real_time() {
        raw.sched_nice = wanted.nice;
        // The length of the thread's slices (Linux 6.12), which zero would set back to the default.
        if !former.scheduling().class.is_real_time() {
            raw.sched_runtime = former.attributes.0.sched_runtime;
        }
    }
    set(thread, wanted, &attributes)
}

/// Puts the attributes back. A real-time thread's nice value can only be set outside its class, so that is done first.
pub(super) fn put_back(thread: Subject, former: &Former) -> Result<(), BindError> {
    let was = former.scheduling();
    if was.class.is_real_time() && read(thread)?.nice != was.nice {
        write(thread, Scheduling { class: SchedulingClass::Other, ..was }, former)?;
    }
    set(thread, was, &former.attributes)?;
    match read(thread)?.scheduling() {
        now if now == was => Ok(()),
        now => Err(BindError::NotRestored { what: "scheduling", former: was.to_string(), now: now.to_string() }),
    }
}

fn set(thread: Subject, wanted: Scheduling, attributes: &Attributes) -> Result<(), BindError> {
    sched::set(thread.raw(), attributes)
        .map_err(|source| thread.error("sched_setattr", wanted, &needs(thread, wanted), source))
}

/// Measured on Linux 6.1 and 6.18, by threads without the capability: the limits alone are enough for classes and nice
/// values, and only the capability clears reset-on-fork. `RLIMIT_NICE` counts from 20 down (setrlimit(2)).
fn needs(thread: Subject, wanted: Scheduling) -> String {
    let limit = match wanted.class {
        SchedulingClass::Fifo(priority) | SchedulingClass::RoundRobin(priority) => {
            format!("RLIMIT_RTPRIO of at least {priority}")
        }
        SchedulingClass::Deadline | SchedulingClass::Unnamed(_) => return "CAP_SYS_NICE".to_owned(),
        _ => format!("RLIMIT_NICE of at least {}", 20 - wanted.nice),
    };
    let others =
        if thread == Subject::Calling { String::new() } else { format!("; for another's thread {FOR_OTHERS}") };
    format!("CAP_SYS_NICE or {limit}, and CAP_SYS_NICE to clear reset-on-fork{others}")
}

impl Former {
    pub(super) fn scheduling(&self) -> Scheduling {
        let raw = &self.attributes.0;
        Scheduling {
            class: SchedulingClass::from_raw(raw.sched_policy, raw.sched_priority),
            nice: self.nice,
            reset_on_fork: raw.sched_flags & RESET_ON_FORK != 0,
        }
    }
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

    fn to_raw(self) -> (u32, u32) {
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

    /// Whether the class can be asked for: its priority is one that it has, and it is not one that is only read.
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

pub(super) fn check_nice(nice: i32) -> Result<(), BindError> {
    if (-20..=19).contains(&nice) {
        return Ok(());
    }
    Err(BindError::OutOfRange { what: "nice value", value: nice.into(), lowest: -20, highest: 19 })
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

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, nice {}", self.class, self.nice)?;
        if self.reset_on_fork { f.write_str(", reset on fork") } else { Ok(()) }
    }
}

const RESET_ON_FORK: u64 = libc::SCHED_FLAG_RESET_ON_FORK as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_of_priorities_and_nice_values() {
        for priority in [1, 99] {
            SchedulingClass::Fifo(priority).check().expect("within");
            SchedulingClass::RoundRobin(priority).check().expect("within");
        }
        for priority in [0, 100, 255] {
            let error = SchedulingClass::Fifo(priority).check().expect_err("outside");
            assert!(matches!(error, BindError::OutOfRange { value, .. } if value == i64::from(priority)), "{error}");
        }
        [-20, 19].into_iter().for_each(|nice| check_nice(nice).expect("within"));
        [-21, 20, i32::MAX].into_iter().for_each(|nice| assert!(check_nice(nice).is_err()));
        assert!(SchedulingClass::Deadline.check().is_err());
    }

    #[test]
    fn privileges_named_with_their_limits() {
        let scheduling = |class, nice| Scheduling { class, nice, reset_on_fork: false };
        let needed = needs(Subject::Calling, scheduling(SchedulingClass::Fifo(10), 0));
        assert!(needed.contains("CAP_SYS_NICE or RLIMIT_RTPRIO of at least 10"), "{needed}");
        let needed = needs(Subject::Calling, scheduling(SchedulingClass::Other, -5));
        assert!(needed.contains("CAP_SYS_NICE or RLIMIT_NICE of at least 25"), "{needed}");
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
