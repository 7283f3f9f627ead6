//! What the application's handle and the lanes of one stream share.

use super::{
    events::{EventLog, StreamEvent},
    lane_metrics::LaneMetrics,
    pool::Pool,
    stats::{StreamStats, ThreadStats},
};
use crate::{RailId, StreamError, error::LaneError, rails::Rails};
use bytes::Bytes;
use rails_net::{Lane, LinkChange};
use rails_proto::{
    connection::{Connection, EventKind, Failure, LaneEnd, LaneFigures, LaneId, NoLane},
    handshake::{Credentials, StreamId},
    scheduler::LaneTraits,
};
use rails_topo::{NodeId, NodeSet};
use std::{
    io::{Error as IoError, ErrorKind, Result as IoResult},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    task::{Context, Poll, Waker},
    time::Instant,
};
use tokio::sync::{Notify, broadcast, watch};

/// One end of a stream, as its handle and its lanes see it. The lock is held for a decision, never for I/O.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: StreamId,
    pub(crate) opened_by: OpeningLane,
    /// What chunks and large messages are received into.
    pub(crate) buffers: Arc<Pool>,
    state: Mutex<State>,
    /// How many lanes are up.
    pub(crate) lanes_up: watch::Sender<usize>,
    /// Bytes that a receiving half had taken from the stream and not handed out when it was dropped.
    pub(crate) unread: AtomicU64,
    /// There is nothing left for which a lane would have to be brought up.
    pub(crate) over: watch::Sender<bool>,
    /// Told that there is news for the supervisor.
    pub(crate) supervise: Notify,
    start: Instant,
    /// Whether what the stream did was logged.
    summarized: Mutex<bool>,
    /// The lanes run on these: they are kept until the last lane has ended.
    rails: Rails,
}

/// What is known of a stream from the lane that has opened it.
#[derive(Debug)]
pub(crate) struct OpeningLane {
    /// What other lanes join with.
    pub(crate) joining: Credentials,
    /// The certificates that the peer has shown, DER, its own first.
    pub(crate) peer_certificates: Vec<Bytes>,
    /// The lane's address at this end, and the peer's.
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// What is under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) connection: Connection,
    /// By [`LaneId`].
    lanes: Vec<LaneSlot>,
    /// Every lane there ever was, for the statistics.
    lane_metrics: Vec<Arc<LaneMetrics>>,
    events: EventLog,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
}

/// The slot of one connection in the stream.
#[derive(Debug, Clone)]
struct LaneSlot {
    up: bool,
    /// Why its connection ended, where it should not have, until that is told.
    error: Option<String>,
    /// The interface that its connection begins on.
    link: Option<u32>,
    metrics: Arc<LaneMetrics>,
    notify: Arc<Notify>,
    stalled: Arc<Notify>,
}

/// What a lane is given when it joins.
pub(crate) struct Joined {
    pub(crate) id: LaneId,
    pub(crate) metrics: Arc<LaneMetrics>,
    /// Told that the stream has something for the lane.
    pub(crate) notify: Arc<Notify>,
    /// Told that the lane has stalled.
    pub(crate) stalled: Arc<Notify>,
}

impl State {
    /// Whether the stream has come to its end, one way or the other.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_done() || self.connection.failure().is_some()
    }

    /// What the connections of a lane did that are up: one, or two for the moment in which one takes the place of another.
    fn figures_of(&self, now: Instant, metrics: &Arc<LaneMetrics>) -> LaneFigures {
        let mut sum = LaneFigures::default();
        let places = self.lanes.iter().enumerate().filter(|(_, slot)| slot.up && Arc::ptr_eq(&slot.metrics, metrics));
        for (lane, _) in places {
            sum += self.connection.lane_figures(now, LaneId(lane));
        }
        sum
    }

    fn note_events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            let mut error = None;
            let lane = event.lane.map(|lane| {
                let slot = &mut self.lanes[lane.0];
                match event.kind {
                    EventKind::Stalled { .. } => slot.stalled.notify_one(),
                    EventKind::Ended { .. } => error = slot.error.take(),
                    _ => {}
                }
                (slot.metrics.index, slot.metrics.rail)
            });
            if let EventKind::Standstill { cause, stood_for } = event.kind {
                let lanes = self.connection.lane_progress(event.at).collect::<Vec<_>>();
                self.events.log_standstill(cause, stood_for, &lanes);
            }
            self.events.add(event, lane, error);
        }
    }
}

impl Shared {
    /// One end of a stream. Somebody has to [keep its time](super::supervisor::supervise).
    pub(crate) fn new(id: StreamId, connection: Connection, rails: Rails, opened_by: OpeningLane) -> Arc<Self> {
        let buffers = Pool::new(connection.window());
        let state = State {
            connection,
            lanes: Vec::new(),
            lane_metrics: Vec::new(),
            events: EventLog::new(id),
            reader: None,
            writer: None,
        };
        Arc::new(Self {
            id,
            opened_by,
            buffers,
            state: Mutex::new(state),
            lanes_up: watch::Sender::new(0),
            unread: AtomicU64::new(0),
            over: watch::Sender::new(false),
            supervise: Notify::new(),
            start: Instant::now(),
            summarized: Mutex::new(false),
            rails,
        })
    }

    /// Does something under the lock, and then wakes whoever is to be woken for it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = act(&mut state);
        self.buffers.note_held(state.connection.memory_held());
        let wakes = state.connection.take_wakes();
        if wakes.supervisor {
            state.note_events();
        }
        let reader = state.reader.take_if(|_| wakes.reader);
        let writer = state.writer.take_if(|_| wakes.writer);
        // An `Arc` clone is cheap beside the wake, and the wake must not happen under the lock. Mostly it is one lane.
        let mut lanes = wakes.lanes().map(|lane| state.lanes[lane.0].notify.clone());
        let (first, others) = (lanes.next(), lanes.collect::<Vec<_>>());
        drop(state);
        // The application first: what it answers goes out with what the lane is woken for.
        [reader, writer].into_iter().flatten().for_each(Waker::wake);
        first.iter().chain(&others).for_each(|lane| lane.notify_one());
        if wakes.supervisor {
            self.supervise.notify_one();
        }
        result
    }

    /// The next thing that the application receives, by `read`: `None` at the end of the stream.
    pub(crate) fn poll_next<T>(
        &self,
        context: &mut Context<'_>,
        read: impl FnOnce(&mut Connection, Instant) -> Option<T>,
    ) -> Poll<IoResult<Option<T>>> {
        self.with(|state| {
            if let Some(next) = read(&mut state.connection, Instant::now()) {
                return Poll::Ready(Ok(Some(next)));
            }
            if state.connection.is_read() {
                return Poll::Ready(Ok(None));
            }
            if let Some(error) = self.error(state) {
                return Poll::Ready(Err(error.into()));
            }
            state.reader = Some(context.waker().clone());
            Poll::Pending
        })
    }

    /// Shuts the write side down, and waits until the peer has everything, or wants nothing more.
    pub(crate) fn poll_finish(&self, state: &mut State, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        if !state.connection.is_finished() {
            state.connection.finish(Instant::now());
        }
        if state.connection.is_sending_over() {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = self.write_error(state) {
            return Poll::Ready(Err(error.into()));
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Whether anything can be written, be there room for it now or not.
    pub(crate) fn writable(&self, state: &State) -> IoResult<()> {
        if let Some(error) = self.write_error(state) {
            return Err(error.into());
        }
        if state.connection.is_finished() {
            return Err(IoError::new(ErrorKind::BrokenPipe, "the write side of the stream was shut down"));
        }
        Ok(())
    }

    /// Waits for room to write, in bytes.
    pub(crate) fn poll_room(&self, state: &mut State, context: &mut Context<'_>) -> Poll<IoResult<usize>> {
        self.writable(state)?;
        match state.connection.room() {
            0 => {
                state.writer = Some(context.waker().clone());
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    /// A lane has joined.
    pub(crate) fn lane_up(
        &self,
        index: u16,
        rail: RailId,
        connection: &Arc<dyn Lane>,
        traits: LaneTraits,
    ) -> Result<Joined, NoLane> {
        let link = connection.link_index();
        self.with(|state| {
            let id = state.connection.lane_up(Instant::now(), traits)?;
            let metrics = match state.lane_metrics.iter().find(|metrics| metrics.index == index) {
                Some(known) => known.clone(),
                None => {
                    let metrics = LaneMetrics::new(index, rail, connection);
                    state.lane_metrics.push(metrics.clone());
                    metrics
                }
            };
            metrics.begin(connection);
            let (notify, stalled) = Default::default();
            let slot = LaneSlot { up: true, error: None, link, metrics, notify, stalled };
            let LaneSlot { metrics, notify, stalled, .. } = slot.clone();
            self.lanes_up.send_modify(|up| *up += 1);
            match state.lanes.get_mut(id.0) {
                Some(free) => *free = slot,
                None => state.lanes.push(slot),
            }
            Ok(Joined { id, metrics, notify, stalled })
        })
    }

    /// A lane has ended.
    pub(crate) fn lane_down(&self, lane: LaneId, connection: &Arc<dyn Lane>, end: Result<(), LaneError>) {
        let was_last = self.with(|state| {
            let now = Instant::now();
            let did = state.connection.lane_figures(now, lane);
            let slot = &mut state.lanes[lane.0];
            slot.up = false;
            let is_done = state.connection.is_done();
            let how = end.as_ref().map_or_else(LaneError::end, |()| LaneEnd::Closed);
            // A stream that is done loses nothing with a lane: a peer that heard of the end first may have let it go.
            let end = if is_done && how == LaneEnd::ByPeer { Ok(()) } else { end };
            slot.error = end.as_ref().err().map(LaneError::to_string);
            slot.metrics.end(connection, end, &did);
            // Whoever hears of the event finds the count right.
            self.lanes_up.send_modify(|up| *up -= 1);
            state.connection.lane_down(now, lane, how);
            state.connection.needs_no_lane() && !state.lanes.iter().any(|slot| slot.up)
        });
        if was_last {
            self.summarize();
        }
    }

    /// Logs what the stream did, once; when this returns, it is logged.
    pub(crate) fn summarize(&self) {
        let mut done = self.summarized.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *done, true) && tracing::enabled!(tracing::Level::DEBUG) {
            self.stats().log();
        }
    }

    /// What happened to the lanes, as far as it is kept.
    pub(crate) fn events(&self) -> Vec<StreamEvent> {
        self.lock().events.kept()
    }

    /// What happens to the lanes from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<StreamEvent> {
        self.lock().events.subscribe()
    }

    /// Links have gone down or come up.
    pub(crate) fn links_changed(&self, changes: &[LinkChange]) {
        self.with(|state| {
            let now = Instant::now();
            for (lane, slot) in state.lanes.iter().enumerate().filter(|(_, slot)| slot.up) {
                match changes.iter().rfind(|change| Some(change.index) == slot.link) {
                    Some(change) if change.up => state.connection.link_up(now, LaneId(lane)),
                    Some(_) => state.connection.link_down(now, LaneId(lane)),
                    None => {}
                }
            }
        });
    }

    /// The node that the thread of `rail` has its pages from, as it was read back.
    pub(crate) fn node_of(&self, rail: RailId) -> Option<NodeId> {
        self.rails[rail].runtime().placement().memory_node.as_ref().ok().copied()
    }

    /// The nodes of the rails that have a lane which is up, where there are several: what all of them write to is interleaved over these.
    pub(crate) fn nodes_in_use(&self) -> Option<NodeSet> {
        let state = self.lock();
        let rails = state.lanes.iter().filter(|slot| slot.up).map(|slot| slot.metrics.rail);
        let nodes: NodeSet = rails.filter_map(|rail| self.rails[rail].planned().node).collect();
        Some(nodes).filter(|nodes| nodes.len() > 1)
    }

    /// Takes lane number `index` out of the stream; `false` where there is none.
    pub(crate) fn remove_lane(&self, index: u16) -> bool {
        self.with(|state| {
            let lane = state.lanes.iter().position(|slot| slot.up && slot.metrics.index == index);
            if let Some(lane) = lane {
                state.connection.leave(Instant::now(), LaneId(lane));
            }
            lane.is_some()
        })
    }

    /// Why the stream is over before its time, if it is.
    pub(crate) fn error(&self, state: &State) -> Option<StreamError> {
        Some(self.told_by(state, state.connection.failure()?.clone()))
    }

    /// Why nothing can be written any more, where that is not because it was finished.
    pub(crate) fn write_error(&self, state: &State) -> Option<StreamError> {
        Some(self.told_by(state, state.connection.write_failure()?))
    }

    fn told_by(&self, state: &State, failure: Failure) -> StreamError {
        let lanes = state.lane_metrics.iter().filter_map(|metrics| metrics.lost()).collect();
        StreamError { stream: self.id, failure, lanes }
    }

    pub(crate) fn stats(&self) -> StreamStats {
        let now = Instant::now();
        let (lanes, figures) = {
            let state = self.lock();
            let lanes: Vec<_> =
                state.lane_metrics.iter().map(|metrics| (metrics.clone(), state.figures_of(now, metrics))).collect();
            (lanes, state.connection.figures(now))
        };
        // The kernel is asked outside the lock.
        let mut lanes: Vec<_> = lanes.iter().map(|(metrics, figures)| metrics.stats(now, figures)).collect();
        lanes.sort_by_key(|lane| lane.lane);
        StreamStats {
            stream: self.id,
            age: now.saturating_duration_since(self.start),
            bytes_written: figures.sent.0,
            bytes_consumed_by_peer: figures.sent.1,
            bytes_sent_again: figures.reissued.total().bytes,
            sent_again: figures.reissued,
            bytes_read: figures.read,
            bytes_duplicated: figures.duplicated.bytes,
            chunks_duplicated: figures.duplicated.chunks,
            reordered: figures.reordered,
            send_window: figures.sending,
            receive_window: figures.receiving,
            stalls: figures.stalls,
            threads: ThreadStats::of(&lanes),
            lanes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a broken invariant of the state machines, which the panic itself has reported; the lanes that
        // find it broken again will say so again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    /// A stream that failed while it had no lane has ended only now.
    fn drop(&mut self) {
        self.summarize();
    }
}
