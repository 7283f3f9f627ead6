//! What a stream and its lanes have done.

use crate::{RailId, error::LaneError};
use rails_bind::thread::{self, Tid};
use rails_net::{TcpLane, TcpStats};
use serde::Serialize;
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// What a stream has done up to now.
#[derive(Debug, Clone, Serialize)]
pub struct StreamStats {
    /// Bytes that this end wrote.
    pub bytes_written: u64,
    /// Bytes that the other end's application is known to have read of them.
    pub bytes_consumed_by_peer: u64,
    /// Bytes that this end sent more than once: those of lost lanes, and those that a fast lane took over from a slow one.
    pub bytes_sent_again: u64,
    /// Bytes that this end read.
    pub bytes_read: u64,
    /// Bytes that arrived more than once.
    pub bytes_duplicated: u64,
    /// Each lane that the stream has or had, by number.
    pub lanes: Vec<LaneStats>,
}

/// What a lane has done up to now.
#[derive(Debug, Clone, Serialize)]
pub struct LaneStats {
    /// The number that the initiator gave it.
    pub lane: u16,
    /// The rail that it runs on at this end.
    pub rail: RailId,
    /// The thread that drives it at this end: its rail's, or the first rail's ([`Driver`](super::Driver)).
    pub thread: Tid,
    /// Its address at this end, that of its newest connection.
    pub local: SocketAddr,
    /// Its address at the other end.
    pub remote: SocketAddr,
    /// Bytes of the stream that were sent on it.
    pub bytes_sent: u64,
    /// Chunks that were sent on it.
    pub chunks_sent: u64,
    /// Bytes of the stream that arrived on it.
    pub bytes_received: u64,
    /// Chunks that arrived on it.
    pub chunks_received: u64,
    /// What the kernel knows of its connection, or knew at its end; `None` where it did not say.
    pub tcp: Option<TcpStats>,
    /// How often it came up: once, and once more for every time that it was dialled again.
    pub joined: u64,
    /// How often it was lost.
    pub losses: u64,
    /// How it was lost, where it is down now for that reason.
    pub lost: Option<String>,
}

/// A lane's counters, through all the connections that it had; written by its driver and read by anyone.
#[derive(Debug)]
pub(crate) struct LaneRecord {
    pub(crate) index: u16,
    pub(crate) rail: RailId,
    remote: SocketAddr,
    joined: AtomicU64,
    losses: AtomicU64,
    pub(crate) sent: Traffic,
    pub(crate) received: Traffic,
    state: Mutex<LaneState>,
}

/// Bytes and chunks of one direction.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    bytes: AtomicU64,
    chunks: AtomicU64,
}

#[derive(Debug)]
enum LaneState {
    Up { lane: Arc<TcpLane>, thread: Tid },
    Ended { thread: Tid, local: SocketAddr, tcp: Option<Box<TcpStats>>, lost: Option<LaneError> },
}

impl LaneRecord {
    pub(crate) fn new(index: u16, rail: RailId, lane: &Arc<TcpLane>) -> Arc<Self> {
        let (remote, state) = (lane.peer_addr(), Mutex::new(LaneState::up(lane)));
        let (joined, losses, sent, received) = Default::default();
        Arc::new(Self { index, rail, remote, joined, losses, sent, received, state })
    }

    /// The lane has a connection, its first or another, and is driven by the calling thread.
    pub(crate) fn begin(&self, lane: &Arc<TcpLane>) {
        self.joined.fetch_add(1, Relaxed);
        *self.lock() = LaneState::up(lane);
    }

    /// A connection has ended: its socket is let go, and what the kernel knew of it is kept, unless there is another already.
    pub(crate) fn end(&self, ended: &Arc<TcpLane>, end: Result<(), LaneError>) {
        self.losses.fetch_add(u64::from(end.is_err()), Relaxed);
        let mut state = self.lock();
        if let LaneState::Up { lane, thread } = &*state
            && Arc::ptr_eq(lane, ended)
        {
            let tcp = ended.stats().ok().map(Box::new);
            *state = LaneState::Ended { thread: *thread, local: ended.local_addr(), tcp, lost: end.err() };
        }
    }

    /// How it ended, where it is down and should not be.
    pub(crate) fn last_error(&self) -> Option<String> {
        match &*self.lock() {
            LaneState::Ended { lost, .. } => lost.as_ref().map(LaneError::to_string),
            LaneState::Up { .. } => None,
        }
    }

    /// How it was lost, with its addresses.
    pub(crate) fn lost(&self) -> Option<String> {
        match &*self.lock() {
            LaneState::Ended { local, lost: Some(error), .. } => {
                Some(format!("lane {} from {local} to {}: {error}", self.index, self.remote))
            }
            _ => None,
        }
    }

    pub(crate) fn stats(&self) -> LaneStats {
        LaneStats {
            lane: self.index,
            rail: self.rail,
            thread: self.thread(),
            local: self.local(),
            remote: self.remote,
            bytes_sent: self.sent.bytes.load(Relaxed),
            chunks_sent: self.sent.chunks.load(Relaxed),
            bytes_received: self.received.bytes.load(Relaxed),
            chunks_received: self.received.chunks.load(Relaxed),
            tcp: self.tcp(),
            joined: self.joined.load(Relaxed),
            losses: self.losses.load(Relaxed),
            lost: self.lost(),
        }
    }

    fn thread(&self) -> Tid {
        match &*self.lock() {
            LaneState::Up { thread, .. } | LaneState::Ended { thread, .. } => *thread,
        }
    }

    fn local(&self) -> SocketAddr {
        match &*self.lock() {
            LaneState::Up { lane, .. } => lane.local_addr(),
            LaneState::Ended { local, .. } => *local,
        }
    }

    fn tcp(&self) -> Option<TcpStats> {
        match &*self.lock() {
            LaneState::Up { lane, .. } => lane.stats().ok(),
            LaneState::Ended { tcp, .. } => tcp.as_deref().cloned(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaneState {
    /// Up on the calling thread, and to stay on it: the socket is registered with the runtime there.
    fn up(lane: &Arc<TcpLane>) -> Self {
        Self::Up { lane: lane.clone(), thread: thread::current_tid() }
    }
}

impl Traffic {
    /// One more chunk.
    pub(crate) fn count(&self, bytes: u32) {
        self.bytes.fetch_add(bytes.into(), Relaxed);
        self.chunks.fetch_add(1, Relaxed);
    }
}
