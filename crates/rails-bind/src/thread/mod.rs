//! Threads: their CPUs, scheduling and names; set, read back, and put back by a guard.
//!
//! [`bind_current`] binds the calling thread and is cheap. [`ThreadPlacement`] sets several
//! properties at once, all or nothing, of the calling thread or of any other, also of another
//! process if the kernel allows it. [`ThreadGuard::check`] and [`PlacementGuard::check`] read
//! whether a binding still holds, for which the kernel has no event.

mod binding_status;
mod cpu_binding;
mod guard;
mod identity;
mod name;
mod placement;
mod scheduling;
mod scheduling_class;
mod tid;

use crate::BindError;
pub use binding_status::BindingStatus;
pub(crate) use cpu_binding::affinity_kept_for;
pub use cpu_binding::{ThreadGuard, affinity_of, bind_current, current_affinity};
pub use guard::{Other, Own, PlacementGuard, PlacementOutcome};
pub use name::name_of;
pub use placement::{ThreadPlacement, bind};
use rails_topo::CpuId;
pub use scheduling::{Scheduling, scheduling_of};
pub use scheduling_class::SchedulingClass;
pub use tid::{Tid, current_tid};

/// The CPU that the calling thread is running on; unless the thread is bound to one, it may be
/// elsewhere already.
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
