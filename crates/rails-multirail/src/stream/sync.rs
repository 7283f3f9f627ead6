//! The atomics of the standard library. The models have loom's in their place.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
