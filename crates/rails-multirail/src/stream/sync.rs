//! The atomics of the standard library. The model of [`handoff`](super::handoff) has loom's in their place.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
