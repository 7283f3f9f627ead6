//! The atomics of the standard library, and a waker. The models have loom's in their place.

pub(super) use futures_util::task::AtomicWaker;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
