//! The counters of a lane over all its connections.

use super::{
    lock::{leave_to_others, run_caught},
    stats::LaneStats,
};
use crate::{
    RailId,
    error::{LaneError, LostLane},
};
use rails_bind::thread::{self, Tid};
use rails_net::{Lane, TransportStats};
use rails_proto::session::LaneConnectionStats;
use rails_topo::Bandwidth;
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The counters of a lane over all its connections. The lane's driver writes them, and any thread
/// reads them.
#[derive(Debug)]
pub(crate) struct LaneMetrics {
    pub(crate) index: u16,
    pub(crate) rail: RailId,
    remote: SocketAddr,
    joined: AtomicU64,
    losses: AtomicU64,
    pub(crate) sent: AtomicByteCount,
    pub(crate) received: AtomicByteCount,
    /// Chunks that other cores of the rail sent.
    pub(crate) helped: AtomicU64,
    state: Mutex<LaneState>,
    past: Mutex<EndedConnections>,
}

/// The sums over the connections that have ended.
#[derive(Debug, Default)]
struct EndedConnections {
    figures: LaneConnectionStats,
    /// `None` if the transport did not report the count of one of them.
    retransmitted: Option<Retransmitted>,
    /// The total time without a connection, and the time since which there is none now.
    down: Duration,
    down_since: Option<Instant>,
}

/// Bytes and packets that the transport sent again.
#[derive(Debug, Clone, Copy, Default)]
struct Retransmitted {
    bytes: u64,
    packets: u64,
}

/// Bytes and chunks of one direction.
#[derive(Debug, Default)]
pub(crate) struct AtomicByteCount {
    bytes: AtomicU64,
    chunks: AtomicU64,
}

#[derive(Debug)]
enum LaneState {
    Up(JoinedConnection),
    Ended { thread: Tid, local: SocketAddr, known: Option<Box<TransportStats>>, lost: Option<LaneError> },
}

/// A connection of a lane that has joined, with the facts that its transport states of it.
#[derive(Debug, Clone)]
pub(crate) struct JoinedConnection {
    pub(crate) lane: Arc<dyn Lane>,
    thread: Tid,
    local: SocketAddr,
    remote: SocketAddr,
}

impl JoinedConnection {
    /// The facts of a connection that the calling thread drives. Asks the transport, so the caller
    /// holds no lock.
    pub(crate) fn here(lane: &Arc<dyn Lane>) -> Self {
        leave_to_others();
        Self { lane: lane.clone(), thread: thread::current_tid(), local: lane.local_addr(), remote: lane.peer_addr() }
    }
}

/// The transport's figures of a connection, if it gives any. A panic of the transport costs its
/// figures alone. The caller holds no lock.
pub(crate) fn figures(lane: &Arc<dyn Lane>) -> Option<TransportStats> {
    let mut figures = None;
    run_caught("a transport has panicked as it was asked for figures", || figures = lane.detailed_stats().ok());
    figures
}

impl LaneMetrics {
    pub(crate) fn new(index: u16, rail: RailId, joined: &JoinedConnection) -> Arc<Self> {
        let (remote, state) = (joined.remote, Mutex::new(LaneState::Up(joined.clone())));
        let (joined, losses, sent, received, helped) = Default::default();
        let past = Mutex::new(EndedConnections {
            retransmitted: Some(Retransmitted::default()),
            ..EndedConnections::default()
        });
        Arc::new(Self { index, rail, remote, joined, losses, sent, received, helped, state, past })
    }

    /// The peer's end of the first connection.
    pub(super) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Notes that the lane has a new connection.
    pub(crate) fn begin(&self, connection: &JoinedConnection) {
        self.joined.fetch_add(1, Relaxed);
        let mut past = self.past();
        if let Some(since) = past.down_since.take() {
            past.down += since.elapsed();
        }
        drop(past);
        *self.lock() = LaneState::Up(connection.clone());
    }

    /// Adds the figures of a connection that has ended, with those that its transport knew. Unless
    /// the lane has another connection already, releases this one and keeps its transport's
    /// figures.
    pub(crate) fn end(
        &self,
        ended: &Arc<dyn Lane>,
        end: Result<(), LaneError>,
        did: &LaneConnectionStats,
        known: Option<TransportStats>,
    ) {
        self.losses.fetch_add(u64::from(end.is_err()), Relaxed);
        let mut past = self.past();
        past.figures += *did;
        past.retransmitted = Retransmitted::together(past.retransmitted, known.as_ref());
        let mut state = self.lock();
        if let LaneState::Up(JoinedConnection { lane, thread, local, .. }) = &*state
            && Arc::ptr_eq(lane, ended)
        {
            past.down_since = Some(Instant::now());
            let (thread, local, known) = (*thread, *local, known.map(Box::new));
            // The caller holds the connection: its end is not here.
            *state = LaneState::Ended { thread, local, known, lost: end.err() };
        }
    }

    /// The error of the last connection, if the lane is down because of it.
    pub(crate) fn lost(&self) -> Option<LostLane> {
        match &*self.lock() {
            LaneState::Ended { local, lost: Some(error), .. } => {
                Some(LostLane { lane: self.index, local: *local, remote: self.remote, source: error.clone() })
            }
            _ => None,
        }
    }

    /// The lane's statistics at `at`; `now` has the figures of the connections that are up.
    pub(crate) fn stats(&self, at: Instant, now: &LaneConnectionStats) -> LaneStats {
        let transport = self.known();
        let up = matches!(&*self.lock(), LaneState::Up(_));
        // An error may be the transport's own, and describe itself by foreign code.
        let lost = self.lost().map(|lane| lane.to_string());
        let past = self.past();
        let mut figures = past.figures;
        figures += *now;
        let retransmitted =
            if up { Retransmitted::together(past.retransmitted, transport.as_ref()) } else { past.retransmitted };
        LaneStats {
            lane: self.index,
            rail: self.rail,
            thread: self.thread(),
            local: self.local(),
            remote: self.remote,
            up,
            bytes_sent: self.sent.bytes.load(Relaxed),
            chunks_sent: self.sent.chunks.load(Relaxed),
            chunks_helped: self.helped.load(Relaxed),
            sent_again: figures.reissued,
            bytes_received: self.received.bytes.load(Relaxed),
            chunks_received: self.received.chunks.load(Relaxed),
            duplicated: figures.duplicated,
            bytes_in_flight: now.in_flight,
            rate: now.rate.map(|rate| Bandwidth::bits_per_second((rate * 8.0) as u64)),
            service: now.service,
            unused: now.unused,
            rtt: transport.as_ref().and_then(|transport| transport.rtt),
            min_rtt: transport.as_ref().and_then(|transport| transport.min_rtt),
            bytes_retransmitted: retransmitted.map(|it| it.bytes),
            segments_retransmitted: retransmitted.map(|it| it.packets),
            times: figures.times,
            down: past.down + past.down_since.map(|since| at.saturating_duration_since(since)).unwrap_or_default(),
            transport,
            joined: self.joined.load(Relaxed),
            losses: self.losses.load(Relaxed),
            lost,
        }
    }

    fn thread(&self) -> Tid {
        match &*self.lock() {
            LaneState::Up(JoinedConnection { thread, .. }) | LaneState::Ended { thread, .. } => *thread,
        }
    }

    /// The local end of the newest connection.
    pub(super) fn local(&self) -> SocketAddr {
        match &*self.lock() {
            LaneState::Up(JoinedConnection { local, .. }) | LaneState::Ended { local, .. } => *local,
        }
    }

    /// The transport's figures of the newest connection, now or at its end.
    fn known(&self) -> Option<TransportStats> {
        let lane = match &*self.lock() {
            LaneState::Up(joined) => joined.lane.clone(),
            LaneState::Ended { known, .. } => return known.as_deref().cloned(),
        };
        // The transport may be the application's, so the lock is free.
        figures(&lane)
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A caller that takes both locks takes this one before the state's.
    fn past(&self) -> MutexGuard<'_, EndedConnections> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Retransmitted {
    fn together(before: Option<Self>, now: Option<&TransportStats>) -> Option<Self> {
        let (before, now) = (before?, now?);
        let bytes = before.bytes + now.bytes_retransmitted?;
        Some(Self { bytes, packets: before.packets + now.packets_retransmitted? })
    }
}

impl AtomicByteCount {
    /// Adds to both counts.
    pub(crate) fn count(&self, chunks: u64, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.chunks.fetch_add(chunks, Relaxed);
    }
}
