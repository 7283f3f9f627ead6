//! The callers that wait for news of a connection.

use std::{collections::BTreeMap, task::Waker};

/// The callers that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The callers that wait for the outcome of a message of the peer, by its number.
    pub(super) receivers: BTreeMap<u32, Waker>,
    /// The caller that waits for room.
    pub(super) writer: Option<Writer>,
    /// The caller that waits until all messages have arrived.
    pub(super) flush: Option<Waker>,
    /// The caller that closes.
    pub(super) closer: Option<Waker>,
    /// Callers whose wait is over, until the lock is free.
    pub(super) woken: Vec<Waker>,
}

/// A caller that waits for room.
#[derive(Debug)]
pub(super) struct Writer {
    /// The cost of the unsent messages at which the caller is woken, in bytes.
    pub(super) unsent: u64,
    /// Whether the failure of a message wakes the caller too.
    pub(super) heeds_failures: bool,
    pub(super) waker: Waker,
}

impl Waiting {
    /// Wakes the caller that closes: it has an outcome.
    pub(super) fn wake_closer(&mut self) {
        self.woken.extend(self.closer.take());
    }

    /// Wakes every caller that waits for the peer: each has an outcome.
    pub(super) fn wake_all(&mut self) {
        self.woken.extend(std::mem::take(&mut self.receivers).into_values());
        self.wake_closer();
    }
}
