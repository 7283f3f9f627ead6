//! The callers that wait for something of a connection: each is woken once there is news for it.

use super::driver::State;
use std::{collections::BTreeMap, task::Waker};

/// The callers that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Those that wait for the outcome of a message of the peer, by its number.
    pub(super) receivers: BTreeMap<u32, Waker>,
    /// The one that waits for room.
    pub(super) writer: Option<Writer>,
    /// The one that waits until all messages have arrived.
    pub(super) flush: Option<Waker>,
    /// The one that closes.
    pub(super) closer: Option<Waker>,
    /// Those whose wait is over, until nobody holds the lock.
    woken: Vec<Waker>,
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
    /// The caller that closes has an outcome.
    pub(super) fn wake_closer(&mut self) {
        self.woken.extend(self.closer.take());
    }

    /// Every caller that waits for the peer has an outcome.
    pub(super) fn wake_all(&mut self) {
        self.woken.extend(std::mem::take(&mut self.receivers).into_values());
        self.wake_closer();
    }
}

impl State {
    /// There is news of a message of the peer.
    pub(super) fn wake_receiver(&mut self, message: u32) {
        if self.protocol.has_outcome(message) {
            self.waiting.woken.extend(self.waiting.receivers.remove(&message));
        }
    }

    /// There is news of all messages that the peer may send.
    pub(super) fn wake_receivers(&mut self) {
        let Waiting { receivers, woken, .. } = &mut self.waiting;
        let ended = receivers.extract_if(.., |message, _| self.protocol.has_outcome(*message));
        woken.extend(ended.map(|(_, waker)| waker));
    }

    /// The callers whose wait is over. They are to be woken without the lock.
    pub(super) fn take_woken(&mut self) -> Vec<Waker> {
        let (has_ended, has_failed) = (self.end.is_some(), self.outgoing.has_failed());
        let is_closed = has_ended || self.protocol.is_finished();
        let (unsent, is_delivered) = (self.protocol.unsent_cost(), self.outgoing.is_empty());
        let Waiting { writer, flush, woken, .. } = &mut self.waiting;
        let writer =
            writer.take_if(|writer| is_closed || has_failed && writer.heeds_failures || unsent <= writer.unsent);
        woken.extend(writer.map(|writer| writer.waker));
        woken.extend(flush.take_if(|_| has_ended || has_failed || is_delivered));
        std::mem::take(woken)
    }
}
