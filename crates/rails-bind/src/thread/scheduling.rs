//! The scheduling of a thread: class, priority or nice value, and whether its children are
//! scheduled likewise.

use super::{SchedulingClass, Tid, cpu_binding::FOR_OTHERS, identity::Subject};
use crate::{
    BindError,
    sys::sched::{self, Attributes},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The scheduling of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// The thread's class.
    pub class: SchedulingClass,
    /// The thread's nice value, -20 (first) to 19 (last). Real-time classes make no use of it.
    pub nice: i32,
    /// Whether the threads and processes that the thread starts begin in the usual class, with nice
    /// value 0 if its own is lower (`SCHED_RESET_ON_FORK`).
    pub reset_on_fork: bool,
}

/// The scheduling of a thread of any process.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`BindError::NoSuchThread`] if the thread has ended; [`BindError::Denied`] under a seccomp
/// filter.
///
/// # References
/// [sched_getattr(2)](https://man7.org/linux/man-pages/man2/sched_setattr.2.html)
#[doc(alias = "sched_getattr")]
#[doc(alias = "getpriority")]
pub fn scheduling_of(tid: Tid) -> Result<Scheduling, BindError> {
    Ok(read(Subject::of(tid)?)?.scheduling())
}

/// All attributes that the kernel states and accepts, so that they can be put back as a whole,
/// including those that this crate has no name for.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawScheduling {
    attributes: Attributes,
    nice: i32,
}

pub(super) fn read(thread: Subject) -> Result<RawScheduling, BindError> {
    let failed =
        |call| move |source| thread.error(call, "its scheduling", "a seccomp filter that lets it pass", source);
    let attributes = sched::get(thread.raw()).map_err(failed("sched_getattr"))?;
    let nice = sched::nice(thread.raw()).map_err(failed("getpriority"))?;
    Ok(RawScheduling { attributes, nice })
}

/// Sets class, nice value and reset-on-fork by one call, which does all or nothing.
pub(super) fn write(thread: Subject, wanted: Scheduling, former: &RawScheduling) -> Result<(), BindError> {
    let mut attributes = Attributes::new();
    let raw = &mut attributes.0;
    (raw.sched_policy, raw.sched_priority) = wanted.class.to_raw();
    raw.sched_flags = if wanted.reset_on_fork { RESET_ON_FORK } else { 0 };
    if !wanted.class.is_real_time() {
        raw.sched_nice = wanted.nice;
        // The length of the thread's slices (Linux 6.12), which a zero would reset to the default.
        if !former.scheduling().class.is_real_time() {
            raw.sched_runtime = former.attributes.0.sched_runtime;
        }
    }
    set(thread, wanted, &attributes)
}

/// Puts the attributes back. A real-time thread's nice value can only be set outside its class, so
/// that is done first.
pub(super) fn put_back(thread: Subject, former: &RawScheduling) -> Result<(), BindError> {
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

/// Measured on Linux 6.1 and 6.18, by threads without the capability: the limits alone are enough
/// for classes and nice values, and only the capability clears reset-on-fork. `RLIMIT_NICE` counts
/// from 20 down (setrlimit(2)).
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

impl RawScheduling {
    pub(super) fn scheduling(&self) -> Scheduling {
        let raw = &self.attributes.0;
        Scheduling {
            class: SchedulingClass::from_raw(raw.sched_policy, raw.sched_priority),
            nice: self.nice,
            reset_on_fork: raw.sched_flags & RESET_ON_FORK != 0,
        }
    }
}

pub(super) fn check_nice(nice: i32) -> Result<(), BindError> {
    if (-20..=19).contains(&nice) {
        return Ok(());
    }
    Err(BindError::OutOfRange { what: "nice value", value: nice.into(), lowest: -20, highest: 19 })
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

    #[test]
    fn limits_of_nice_values() {
        [-20, 19].into_iter().for_each(|nice| check_nice(nice).expect("within"));
        [-21, 20, i32::MAX].into_iter().for_each(|nice| assert!(check_nice(nice).is_err()));
    }

    #[test]
    fn privileges_named_with_their_limits() {
        let scheduling = |class, nice| Scheduling { class, nice, reset_on_fork: false };
        let needed = needs(Subject::Calling, scheduling(SchedulingClass::Fifo(10), 0));
        assert!(needed.contains("CAP_SYS_NICE or RLIMIT_RTPRIO of at least 10"), "{needed}");
        let needed = needs(Subject::Calling, scheduling(SchedulingClass::Other, -5));
        assert!(needed.contains("CAP_SYS_NICE or RLIMIT_NICE of at least 25"), "{needed}");
    }
}
