//! The atomics and locks of pools. The model has loom's in their place.

pub(super) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{
        AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};
