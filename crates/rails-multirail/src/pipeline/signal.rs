//! A wake-up for a task that sleeps.

use super::sync::{
    AtomicBool, AtomicWaker,
    Ordering::{AcqRel, Relaxed, Release, SeqCst},
    fence,
};
use std::task::Waker;

/// Wakes one task, from any thread; it costs no atomic change while the task is awake.
///
/// The task calls [`wait`](Self::wait) and then looks once more whether its wait is over. Other
/// threads first change the state on which the wait depends, and then [`notify`](Self::notify). A
/// fence on both sides makes one of the two see the other (Dekker).
#[derive(Debug)]
pub(super) struct Signal {
    is_waiting: AtomicBool,
    waker: AtomicWaker,
}

impl Signal {
    pub(super) fn new() -> Self {
        Self { is_waiting: AtomicBool::new(false), waker: AtomicWaker::new() }
    }

    /// Has the next news wake this task. Only one task waits.
    pub(super) fn wait(&self, waker: &Waker) {
        self.waker.register(waker);
        self.is_waiting.store(true, Release);
        fence(SeqCst);
    }

    /// Wakes the task if it waits.
    pub(super) fn notify(&self) {
        fence(SeqCst);
        if self.is_waiting.load(Relaxed) && self.is_waiting.swap(false, AcqRel) {
            self.waker.wake();
        }
    }
}
