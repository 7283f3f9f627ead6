//! Threads: their CPUs, scheduling and names; set, read back, and put back by a guard.
//!
//! [`bind_current`] binds the calling thread and is cheap. [`ThreadPlacement`] sets several properties at once, all or
//! nothing, of the calling thread or of any other, also of another process if the kernel allows it.
//! [`ThreadGuard::check`] and [`PlacementGuard::check`] read whether a binding still holds, for which the kernel has no
//! event.

mod binding_status;
mod cpu_binding;
mod guard;
mod identity;
mod name;
mod placement;
mod scheduling;

pub use binding_status::BindingStatus;
pub(crate) use cpu_binding::affinity_kept_for;
pub use cpu_binding::{ThreadGuard, affinity_of, bind_current, current_affinity};
pub use guard::{Other, Own, PlacementGuard, PlacementOutcome};
pub use name::name_of;
pub use placement::{ThreadPlacement, bind};
pub use scheduling::{Scheduling, SchedulingClass, scheduling_of};

use crate::BindError;
use rails_topo::CpuId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kernel's number of a thread (`gettid(2)`); unlike a `std::thread::ThreadId`, other programs know it too.
///
/// A process has the number of its first thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub struct Tid(i32);

/// The CPU that the calling thread is running on; unless the thread is bound to one, it may be elsewhere already.
///
/// # Errors
/// [`BindError::Unsupported`] if the kernel does not have the call.
///
/// # References
/// [getcpu(2)](https://man7.org/linux/man-pages/man2/getcpu.2.html)
#[doc(alias = "sched_getcpu")]
pub fn current_cpu() -> Result<CpuId, BindError> {
    let cpu =
        nix::sched::sched_getcpu().map_err(|errno| BindError::of_call("getcpu", "the calling thread", errno.into()))?;
    Ok(CpuId(u32::try_from(cpu).expect("the kernel numbers CPUs with an unsigned int")))
}

/// The number of the calling thread.
#[doc(alias = "gettid")]
pub fn current_tid() -> Tid {
    Tid(nix::unistd::gettid().as_raw())
}

impl Tid {
    /// The thread of that number; `None` for zero and below, which the kernel gives to no thread.
    pub fn from_raw(number: i32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// The thread's number.
    pub fn as_raw(self) -> i32 {
        self.0
    }
}

impl TryFrom<i32> for Tid {
    type Error = &'static str;

    fn try_from(number: i32) -> Result<Self, &'static str> {
        Self::from_raw(number).ok_or("a thread's number is above zero")
    }
}

impl From<Tid> for i32 {
    fn from(tid: Tid) -> Self {
        tid.0
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_has_the_number_zero() {
        assert_eq!(Tid::from_raw(0), None);
        assert_eq!(Tid::from_raw(-1), None);
        assert_eq!(Tid::from_raw(1).map(Tid::as_raw), Some(1));
        assert!(serde_json::from_str::<Tid>("0").is_err());
    }
}
