//! The ring, the atomics and the waker of channels. The model has loom's, and a ring over loom's,
//! in their place.

pub(super) use futures_util::task::AtomicWaker;
pub(super) use rtrb::{Consumer, Producer, PushError, RingBuffer};
pub(super) use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU8, Ordering, fence},
};
