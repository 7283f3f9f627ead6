//! A channel, as the session's receiver and the connection's task share it.

use super::{
    flow::{Flow, Violation, Windows},
    inbound::{Arrival, Inbound},
    limits::Limits,
};
use crate::{
    socket::Socket,
    traffic::Traffic,
    wire::{ChannelNumber, Refusal},
};
use bytes::{Buf, Bytes};
use futures_util::task::AtomicWaker;
use std::{
    io::{
        self,
        ErrorKind::{BrokenPipe, WouldBlock},
    },
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A channel, as the session's receiver and the connection's task share it.
#[derive(Debug)]
pub(super) struct ChannelShared {
    pub(super) number: ChannelNumber,
    state: Mutex<State>,
    /// The task that waits for credit, or for the peer's answer.
    pub(super) sender: AtomicWaker,
    /// The task that waits for bytes.
    pub(super) receiver: AtomicWaker,
}

/// How far a channel has come.
#[derive(Debug)]
pub(super) struct State {
    pub(super) flow: Flow,
    pub(super) phase: Phase,
    pub(super) inbound: Inbound,
    /// The connection, once there is one.
    pub(super) connection: Option<Connection>,
    /// This end's direction has ended.
    pub(super) finished: bool,
    /// The peer has opened the channel, even if it has ended since.
    pub(super) was_opened: bool,
    pub(super) at_once: AtOnce,
}

/// The writes of the session's receiver to a connection, beside which the connection's task reads.
///
/// The kernel tells of a reset once. If it tells a write, a read finds an end.
#[derive(Debug, Default)]
pub(super) struct AtOnce {
    pub(super) is_writing: bool,
    /// A write was told of a reset.
    pub(super) found_reset: bool,
    /// The connection's task has read an end, and waits for the write to tell whether it was a
    /// reset.
    pub(super) is_awaited: bool,
}

/// A socket of this host, and the count of its bytes.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) socket: Arc<Socket>,
    pub(super) traffic: Arc<Traffic>,
}

/// The life of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// This end has asked for a connection.
    Asked,
    /// The peer has asked for one.
    Asking,
    Open,
    Refused(Refusal),
    Reset,
}

impl ChannelShared {
    /// A channel that this end opens.
    pub(super) fn asked(number: ChannelNumber) -> Self {
        Self::new(number, Phase::Asked, 0)
    }

    /// A channel that the peer opens, and that takes bytes up to `limit`.
    pub(super) fn asking(number: ChannelNumber, limit: u64) -> Self {
        Self::new(number, Phase::Asking, limit)
    }

    fn new(number: ChannelNumber, phase: Phase, limit: u64) -> Self {
        let state = State {
            flow: Flow::new(limit),
            phase,
            inbound: Inbound::default(),
            connection: None,
            finished: false,
            was_opened: false,
            at_once: AtOnce::default(),
        };
        Self { number, state: Mutex::new(state), sender: AtomicWaker::new(), receiver: AtomicWaker::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.sender.wake();
        self.receiver.wake();
    }

    /// The peer has connected.
    pub(super) fn opened(&self, limit: u64) -> Result<(), Violation> {
        let mut state = self.lock();
        match state.phase {
            Phase::Asked => {
                state.phase = Phase::Open;
                state.was_opened = true;
                state.flow.raise(limit);
            }
            Phase::Reset => {}
            _ => return Err(Violation::Answer),
        }
        drop(state);
        self.sender.wake();
        Ok(())
    }

    /// The peer has not connected.
    pub(super) fn refused(&self, refusal: Refusal) -> Result<(), Violation> {
        let mut state = self.lock();
        match state.phase {
            Phase::Asked => state.phase = Phase::Refused(refusal),
            Phase::Reset => {}
            _ => return Err(Violation::Answer),
        }
        drop(state);
        self.sender.wake();
        Ok(())
    }

    /// Both directions have ended at once. What has arrived is thrown away, as TCP does.
    pub(super) fn reset(&self) {
        let mut state = self.lock();
        state.phase = Phase::Reset;
        let thrown_away = state.inbound.throw_away();
        drop(state);
        drop(thrown_away);
        self.wake();
    }

    /// The peer takes bytes up to there.
    pub(super) fn raise(&self, limit: u64) {
        if self.lock().flow.raise(limit) {
            self.sender.wake();
        }
    }

    /// The peer's direction has ended.
    pub(super) fn peer_finished(&self) -> Result<(), Violation> {
        let mut state = self.lock();
        if state.phase.is_before_open() {
            return Err(Violation::BeforeOpen);
        }
        state.inbound.end()?;
        drop(state);
        self.receiver.wake();
        Ok(())
    }

    /// The peer has no credit. The new limit, if it gets more.
    pub(super) fn peer_blocked(&self, windows: &Windows) -> Option<u64> {
        let mut state = self.lock();
        if state.phase == Phase::Open { state.flow.widen(windows) } else { None }
    }

    /// Takes bytes that arrived, and writes them to the socket at once if it has room, so that the
    /// connection's task need not wake. The new limit, if the peer is to be told one.
    pub(super) fn arrive(&self, bytes: Bytes) -> Result<Option<u64>, Violation> {
        let mut state = self.lock();
        if state.phase.is_before_open() {
            return Err(Violation::BeforeOpen);
        }
        if state.inbound.has_ended() {
            return Err(Violation::BehindTheEnd);
        }
        state.flow.arrive(bytes.len() as u64)?;
        if state.phase == Phase::Reset {
            return Ok(None);
        }
        let connection = state.connection.clone();
        let (mut bytes, connection) = match (state.inbound.arrive(bytes, connection.is_some()), connection) {
            (Arrival::Write(bytes), Some(connection)) => (bytes, connection),
            (arrival, unused) => {
                drop(state);
                drop(unused);
                if arrival == Arrival::Wake {
                    self.receiver.wake();
                }
                return Ok(None);
            }
        };
        state.at_once.is_writing = true;
        drop(state);
        let result = connection.socket.try_write(&bytes);
        // Bytes that were not written are written by the connection's task, to which an error shows too.
        let written = *result.as_ref().unwrap_or(&0);
        bytes.advance(written);
        connection.traffic.received(written);
        drop(connection);
        let mut state = self.lock();
        let is_awaited = state.at_once.wrote(result);
        let limit = state.flow.consume(written as u64);
        let wakes = state.inbound.leave(bytes);
        let thrown_away = (state.phase == Phase::Reset).then(|| state.inbound.throw_away());
        drop(state);
        drop(thrown_away);
        if wakes {
            self.receiver.wake();
        }
        if is_awaited {
            self.sender.wake();
        }
        Ok(limit)
    }

    /// Ends the channel for good, and gives its room back.
    pub(super) fn give_back(&self, limits: &Limits) {
        let mut state = self.lock();
        state.phase = Phase::Reset;
        limits.give_back(&state.flow);
    }
}

impl AtOnce {
    /// Notes what a write came to. Whether it was waited for.
    fn wrote(&mut self, result: io::Result<usize>) -> bool {
        self.is_writing = false;
        // A broken pipe is one whose end had come before.
        self.found_reset |= result.is_err_and(|error| !matches!(error.kind(), WouldBlock | BrokenPipe));
        std::mem::take(&mut self.is_awaited)
    }
}

impl Phase {
    pub(super) fn is_before_open(self) -> bool {
        matches!(self, Self::Asked | Self::Asking)
    }
}
