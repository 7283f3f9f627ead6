//! The primitives of the state machines: the standard library's, for which the models put loom's and shuttle's.

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

/// Orders the [`SeqCst`] accesses before it and those behind it. They are in one order anyway, so that nothing is to be
/// done; loom takes them for [`AcqRel`], and has a fence here.
#[inline]
pub(crate) fn order_accesses() {}
