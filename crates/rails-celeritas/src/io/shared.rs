//! The state that the driver of a connection and its callers share.

use super::{
    ahead::HelperStats,
    error::{ConnectionError, SendError},
    lock::{Lock, Locked, wake_caught},
    outgoing::{Outgoing, Settled},
    scatter::ScatterStats,
    waiting::Waiting,
};
use crate::proto::{
    connection::{ConnectionProtocol, Event, Failure},
    receiver::Arrival,
};
use std::{
    net::SocketAddr,
    task::{Poll, Waker},
};

/// The state of a connection under its lock.
#[derive(Debug)]
pub(super) struct ConnectionShared(Lock<ConnectionState>);

#[derive(Debug)]
pub(super) struct ConnectionState {
    pub(super) protocol: ConnectionProtocol,
    pub(super) outgoing: Outgoing,
    /// The end of the connection; an error if messages are missing.
    pub(super) end: Option<Result<(), ConnectionError>>,
    /// The bytes that the peer did not have when the closing caller stopped waiting for it.
    pub(super) not_closed: Option<u64>,
    pub(super) scatter: ScatterStats,
    pub(super) helpers: HelperStats,
    pub(super) waiting: Waiting,
    pub(super) waker: Option<Waker>,
}

impl ConnectionShared {
    pub(super) fn new(protocol: ConnectionProtocol) -> Self {
        let state = ConnectionState {
            protocol,
            outgoing: Outgoing::default(),
            end: None,
            not_closed: None,
            scatter: ScatterStats::default(),
            helpers: HelperStats::default(),
            waiting: Waiting::default(),
            waker: None,
        };
        Self(Lock::new(state))
    }

    pub(super) fn lock(&self) -> Locked<'_, ConnectionState> {
        self.0.lock()
    }

    /// Wakes the callers that have news, after a change by the driver.
    pub(super) fn announce(mut state: Locked<'_, ConnectionState>) {
        let (woken, settled) = (state.take_woken(), state.outgoing.take_settled());
        let others = state.protocol.take_woken();
        drop(state);
        tell(settled, woken.into_iter().chain(others));
    }

    /// Changes the state, and has the driver look at it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut ConnectionState) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let (waker, settled) = (state.waker.take(), state.outgoing.take_settled());
        drop(state);
        tell(settled, waker);
        result
    }

    /// Waits until `look` finds something: until then the waker has its place among those of the
    /// callers that wait. Returns the one that is not needed any more, which is to be dropped
    /// under no lock.
    pub(super) fn poll<R>(
        &self,
        waker: Waker,
        look: impl FnOnce(&mut ConnectionState) -> Option<R>,
        place: impl FnOnce(&mut Waiting, Waker) -> Option<Waker>,
    ) -> (Poll<R>, Option<Waker>) {
        let mut state = self.lock();
        match look(&mut state) {
            Some(found) => (Poll::Ready(found), Some(waker)),
            None => (Poll::Pending, place(&mut state.waiting, waker)),
        }
    }
}

/// Wakes callers that have news. They may call back at once.
fn tell(settled: Vec<Settled>, woken: impl IntoIterator<Item = Waker>) {
    woken.into_iter().for_each(wake_caught);
    // Destructors of their bytes may take long.
    settled.into_iter().for_each(Settled::tell);
}

impl ConnectionState {
    pub(super) fn finish(&mut self, end: Result<(), ConnectionError>) {
        if self.end.is_none() {
            if end.is_err() {
                self.protocol.stop();
            }
            self.end = Some(end);
            self.outgoing.clear();
            self.waiting.wake_all();
        }
    }

    /// Handles an event of the protocol.
    pub(super) fn tell(&mut self, event: Event, peer: SocketAddr) {
        match event {
            Event::Delivered { message } => self.outgoing.settle(message, Ok(())),
            Event::Expired { message } => self.outgoing.settle(message, Err(SendError::Expired(message))),
            Event::Refused { message } => self.outgoing.settle(message, Err(SendError::Refused(message))),
            Event::NotClosed { bytes } => {
                self.not_closed = Some(bytes);
                self.waiting.wake_closer();
            }
            Event::Closed => self.finish(Ok(())),
            Event::Failed(Failure::Blocked) => self.finish(Err(ConnectionError::Blocked { remote: peer })),
            Event::Failed(failure) => self.finish(Err(failure.into())),
            Event::Arrival(
                Arrival::Begun { message, .. } | Arrival::Whole { message } | Arrival::GivenUp { message, .. },
            ) => self.wake_receiver(message),
            Event::Finished { .. } => self.wake_receivers(),
        }
    }

    /// Wakes the caller that waits for a message of the peer.
    fn wake_receiver(&mut self, message: u32) {
        if self.protocol.has_outcome(message) {
            self.waiting.woken.extend(self.waiting.receivers.remove(&message));
        }
    }

    /// Wakes all callers that wait for messages of the peer.
    fn wake_receivers(&mut self) {
        let Waiting { receivers, woken, .. } = &mut self.waiting;
        let ended = receivers.extract_if(.., |message, _| self.protocol.has_outcome(*message));
        woken.extend(ended.map(|(_, waker)| waker));
    }

    /// The callers whose wait is over. They are to be woken without the lock.
    fn take_woken(&mut self) -> Vec<Waker> {
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
