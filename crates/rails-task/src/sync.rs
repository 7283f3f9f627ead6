//! The primitives of the state machines: the standard library's, which the models replace by loom's
//! and shuttle's. And the check where a thread runs.

pub(crate) use std::{
    sync::{
        Condvar, Mutex, MutexGuard, RwLock,
        atomic::{
            AtomicBool, AtomicU8, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
            fence,
        },
    },
    thread::{self, Thread},
};

/// Orders the [`SeqCst`] accesses before it and those behind it. The language orders them anyway,
/// so that nothing is to be done; loom takes them for [`AcqRel`], and has a fence here.
#[inline]
pub(crate) fn order_accesses() {}

/// Whether the calling thread is on one of these CPUs.
#[cfg(not(test))]
#[inline]
pub(crate) fn is_on(cpus: &rails_topo::CpuSet) -> bool {
    rails_bind::thread::current_cpu().is_ok_and(|cpu| cpus.contains(cpu))
}

/// The unit tests' machines are described ones, and so is the place of a thread.
#[cfg(test)]
pub(crate) fn is_on(_: &rails_topo::CpuSet) -> bool {
    true
}
