//! The state that the application's handle and the lanes of one stream share.

use super::{
    active_lane::{ActiveLane, LaneSettings},
    burst::Burst,
    events::{EventLog, StreamEvent},
    lane_metrics::{JoinedConnection, LaneMetrics, figures},
    lock::{Lock, Locked, leave_to_others, run_caught},
    pool::Pool,
    stats::{StreamStats, ThreadStats},
    wakers::{among_others, wake},
};
use crate::{
    Rail, RailId, StreamError, StreamOptions,
    error::{LaneError, UndeliveredStream},
    last_work::LastWork,
    rails::{LinkReports, Rails, StreamOnRails},
};
use bytes::Bytes;
use futures_util::{future::BoxFuture, task::AtomicWaker};
use rails_net::{Lane, LinkChange};
use rails_proto::{
    connection::{
        Connection, EventKind, Failure, LaneConnectionStats, LaneEnd, LaneId, LaneTraits, LaneUpError, Wakes,
    },
    handshake::{Credentials, StreamId},
};
use rails_topo::NodeSet;
use std::{
    io::{Error as IoError, ErrorKind, Result as IoResult},
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Relaxed},
        },
    },
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};
use tokio::{
    runtime::{self, Handle},
    sync::{Notify, broadcast, watch},
    task::coop,
};

/// One end of a stream, shared by its handle and its lanes. Threads hold the lock for a decision,
/// never for I/O, and never for [foreign code](super::lock).
#[derive(Debug)]
pub(crate) struct StreamShared {
    pub(crate) id: StreamId,
    pub(crate) opened_by: OpeningLane,
    /// The buffers into which lanes receive chunks and large messages.
    pub(crate) buffers: Arc<Pool>,
    state: Lock<StreamState>,
    /// The task that waits to read, and the one that waits to write. Each looks once more after it
    /// has registered.
    reader: AtomicWaker,
    writer: AtomicWaker,
    /// The number of lanes that are up.
    pub(crate) lanes_up: watch::Sender<usize>,
    /// Bytes that a dropped receiving half had taken from the stream and not handed out.
    pub(crate) unread: AtomicU64,
    /// Whether the application's handle has taken more from the stream than it has handed out.
    at_hand: AtomicBool,
    /// The lanes whose writes [wait](Burst) for the end of the writer's turn, as a set of slots.
    waiting: AtomicU64,
    /// Whether the stream needs no lane any more.
    pub(crate) over: watch::Sender<bool>,
    /// Wakes the supervisor.
    pub(crate) supervise: Notify,
    /// Wakes tasks that wait until the stream has delivered its bytes.
    delivered: Notify,
    /// Held while a dropped stream delivers its bytes: the end of the process waits for it.
    last_work: Mutex<Option<LastWork>>,
    /// How long `close` waits without progress.
    pub(super) close_timeout: Duration,
    start: Instant,
    /// Whether the stream's summary was logged.
    summarized: Mutex<bool>,
    /// Whether the opening of the stream was logged.
    is_opening_logged: AtomicBool,
    /// The rails that the lanes run on, kept until the last lane has ended.
    pub(super) rails: Rails,
}

/// The end of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// The end has opened the stream.
    Opened,
    Accepted,
}

impl Role {
    /// The role in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Accepted => "accepted",
        }
    }
}

/// The facts of a stream that come from the lane that opened it.
#[derive(Debug)]
pub(crate) struct OpeningLane {
    pub(crate) role: Role,
    /// The credentials with which other lanes join.
    pub(crate) joining: Credentials,
    /// The peer's certificate chain in DER, its own certificate first.
    pub(crate) peer_certificates: Vec<Bytes>,
    /// The lane's address at this end, and the peer's.
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// The state under the lock.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) connection: Connection,
    /// The slots, indexed by [`LaneId`].
    lanes: Vec<LaneSlot>,
    /// The metrics of every lane, past or present.
    lane_metrics: Vec<Arc<LaneMetrics>>,
    /// Lanes that came up less those that ended, since `lanes_up` was last changed.
    lanes_came: isize,
    events: EventLog,
    is_reader_waiting: bool,
    is_writer_waiting: bool,
    burst: Burst,
    /// The lanes whose arrivals the reader receives, as a set of slots.
    arrived: u64,
}

/// The slot of one connection in the stream.
#[derive(Debug)]
struct LaneSlot {
    /// `None` once the lane has ended.
    active: Option<Arc<ActiveLane>>,
    /// The error with which the connection ended, until the event of the end takes it.
    error: Option<String>,
    /// The index of the connection's local interface.
    link: Option<u32>,
    metrics: Arc<LaneMetrics>,
}

impl LaneSlot {
    fn is_up(&self) -> bool {
        self.active.is_some()
    }
}

impl StreamState {
    /// Whether the stream is done or has failed.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_done() || self.connection.failure().is_some()
    }

    /// The figures of a lane's connections that are up: one, or two while one replaces another.
    fn figures_of(&self, now: Instant, metrics: &Arc<LaneMetrics>) -> LaneConnectionStats {
        let mut sum = LaneConnectionStats::default();
        let places =
            self.lanes.iter().enumerate().filter(|(_, slot)| slot.is_up() && Arc::ptr_eq(&slot.metrics, metrics));
        for (lane, _) in places {
            sum += self.connection.lane_stats(now, LaneId(lane));
        }
        sum
    }

    /// A lane whose arrivals the reader receives.
    pub(super) fn take_arrived(&mut self) -> Option<Arc<ActiveLane>> {
        while self.arrived != 0 {
            let lane = self.arrived.trailing_zeros() as usize;
            self.arrived &= self.arrived - 1;
            if let Some(active) = &self.lanes[lane].active {
                return Some(active.clone());
            }
        }
        None
    }

    /// Has the connection prefer a lane that the calling runtime drives.
    pub(super) fn prefer_lane_here(&mut self) {
        let lane_here = || {
            let here = Handle::try_current().ok()?.id();
            self.lanes
                .iter()
                .filter_map(|slot| slot.active.as_ref())
                .find(|lane| lane.home() == here)
                .map(|lane| lane.id)
        };
        self.connection.prefer(lane_here);
    }

    /// Notes a small write. Returns whether it waits for the next one. `has_more` says whether the
    /// application has more arrivals at hand.
    pub(super) fn note_write(&mut self, length: usize, has_more: bool) -> bool {
        self.burst.write(Instant::now(), length, has_more)
    }

    /// The reader has found nothing. It waits once its waker is registered.
    pub(super) fn note_reader(&mut self, is_registered: bool) {
        self.is_reader_waiting |= is_registered;
        self.burst.end(Instant::now());
    }

    fn note_events(&mut self) {
        let loses_nothing = self.connection.loses_nothing();
        while let Some(event) = self.connection.poll_event() {
            let mut error = None;
            let lane = event.lane.map(|lane| {
                let slot = &mut self.lanes[lane.0];
                match event.kind {
                    EventKind::Stalled { .. } => slot.active.iter().for_each(|lane| lane.stalled.notify_one()),
                    EventKind::Ended { .. } => error = slot.error.take(),
                    _ => {}
                }
                (slot.metrics.index, slot.metrics.rail)
            });
            let lanes = match event.kind {
                EventKind::Standstill { .. } => self.connection.lane_progress(event.at).collect(),
                _ => Vec::new(),
            };
            self.events.add(event, lane, error, lanes, loses_nothing);
        }
    }
}

impl StreamShared {
    /// One end of a stream. The caller starts its [supervisor](super::supervisor::supervise).
    pub(crate) fn new(
        id: StreamId,
        connection: Connection,
        rails: Rails,
        opened_by: OpeningLane,
        options: &StreamOptions,
    ) -> Arc<Self> {
        let buffers = Pool::new(connection.window());
        let state = StreamState {
            connection,
            lanes: Vec::new(),
            lane_metrics: Vec::new(),
            lanes_came: 0,
            events: EventLog::new(),
            is_reader_waiting: false,
            is_writer_waiting: false,
            burst: Burst::new(),
            arrived: 0,
        };
        let shared = Arc::new(Self {
            id,
            opened_by,
            buffers,
            state: Lock::new(state),
            reader: AtomicWaker::new(),
            writer: AtomicWaker::new(),
            lanes_up: watch::Sender::new(0),
            unread: AtomicU64::new(0),
            at_hand: AtomicBool::new(false),
            waiting: AtomicU64::new(0),
            over: watch::Sender::new(false),
            supervise: Notify::new(),
            delivered: Notify::new(),
            last_work: Mutex::new(None),
            close_timeout: options.close_timeout,
            start: Instant::now(),
            summarized: Mutex::new(false),
            is_opening_logged: AtomicBool::new(false),
            rails,
        });
        let weak = Arc::downgrade(&shared);
        shared.rails.streams().add(weak);
        shared
    }

    /// Calls `act` under the lock, and then wakes the tasks that the connection names.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut StreamState) -> T) -> T {
        self.act(Connection::take_wakes, act, |lane| lane.wake_to_send())
    }

    /// As [`with`](Self::with), for a thread that lets a lane send, and calls `with` after it: idle
    /// lanes may not have to stand by then.
    pub(super) fn with_inline<T>(&self, act: impl FnOnce(&mut StreamState) -> T) -> T {
        self.act(Connection::take_urgent_wakes, act, |lane| lane.wake_to_send())
    }

    /// Has the writes of a lane wait for the end of the writer's turn.
    pub(super) fn add_waiting(&self, lane: LaneId) {
        self.waiting.fetch_or(1 << lane.0, AcqRel);
    }

    /// The lanes that are up among those whose writes wait, which are to send now; `None` if none
    /// waits.
    pub(super) fn take_waiting(&self) -> Option<Vec<Arc<ActiveLane>>> {
        // Mostly none waits, and a load costs less than a change.
        if self.waiting.load(Relaxed) == 0 {
            return None;
        }
        let waiting = self.waiting.swap(0, AcqRel);
        let mut state = self.lock();
        state.burst.end(Instant::now());
        let lanes = state.lanes.iter().enumerate().filter(|(slot, _)| waiting & 1 << slot != 0);
        Some(lanes.filter_map(|(_, slot)| slot.active.clone()).collect())
    }

    /// Whether the application's handle has taken more from the stream than it has handed out.
    pub(super) fn has_at_hand(&self) -> bool {
        self.at_hand.load(Relaxed)
    }

    /// Registers the task that waits to read.
    pub(super) fn register_reader(&self, waker: &Waker) {
        self.reader.register(waker);
    }

    /// Notes whether the application's handle has taken more from the stream than it has handed
    /// out.
    pub(super) fn note_at_hand(&self, has_more: bool) {
        if self.at_hand.load(Relaxed) != has_more {
            self.at_hand.store(has_more, Relaxed);
        }
    }

    /// Calls `act` under the lock, and then `lead` with the first lane to wake.
    pub(super) fn act<T>(
        &self,
        wakes: impl FnOnce(&mut Connection) -> Wakes,
        act: impl FnOnce(&mut StreamState) -> T,
        lead: impl FnOnce(&ActiveLane),
    ) -> T {
        let mut state = self.lock();
        let result = act(&mut state);
        self.buffers.note_held(state.connection.memory_held());
        let wakes = wakes(&mut state.connection);
        if wakes.supervisor {
            state.note_events();
        }
        let reader = wakes.reader && std::mem::take(&mut state.is_reader_waiting);
        let writer = wakes.writer && std::mem::take(&mut state.is_writer_waiting);
        let (came, has_news) = (std::mem::take(&mut state.lanes_came), state.events.has_news());
        // An `Arc` clone is cheap beside the wake, and the wake must not happen under the lock. Mostly
        // there is one lane to wake.
        let mut lanes = wakes.lanes().filter_map(|lane| state.lanes[lane.0].active.clone());
        let (first, others) = (lanes.next(), lanes.collect::<Vec<_>>());
        let given_up = state.release();
        // The application wakes first: its answer goes out with the frames for which the lane is woken.
        if reader {
            wake(&self.reader);
        }
        if writer {
            wake(&self.writer);
        }
        if let Some(lane) = first {
            lead(&lane);
        }
        others.iter().for_each(|lane| lane.wake_to_send());
        if wakes.supervisor {
            self.supervise.notify_one();
        }
        // The count is right before a subscriber hears of the event.
        if came != 0 {
            self.lanes_up.send_modify(|up| *up = up.saturating_add_signed(came));
        }
        if has_news {
            self.publish();
        }
        drop(given_up);
        result
    }

    /// Publishes events to subscribers and to the log, in their order: one thread at a time does
    /// so, and other threads leave their events to it.
    fn publish(&self) {
        loop {
            let next = self.lock().events.begin_publishing();
            let Some((news, listeners)) = next else { return };
            let _end = EndOfPublishing(self);
            leave_to_others();
            for news in news {
                news.log(self.id);
                if let Some(listeners) = &listeners {
                    run_caught("the waker of a subscriber to events has panicked", || {
                        // This fails if the subscribers are gone, which is fine.
                        let _ = listeners.send(news.event);
                    });
                }
            }
        }
    }

    /// Bytes have arrived on a lane. A reader that waits receives them if they are few, and the
    /// lane's task otherwise.
    pub(super) fn arrived(&self, lane: &Arc<ActiveLane>) {
        let mut state = self.lock();
        let active = state.lanes.get(lane.id.0).and_then(|slot| slot.active.as_ref());
        let is_up = active.is_some_and(|active| Arc::ptr_eq(active, lane));
        let is_passed_on = state.is_reader_waiting && is_up && lane.may_pass_on();
        if is_passed_on {
            state.is_reader_waiting = false;
            state.arrived |= 1 << lane.id.0;
        }
        drop(state);
        // The reader wakes first: its answer may be on its way before the task's thread is awake.
        if is_passed_on {
            wake(&self.reader);
        }
        lane.arrived(is_passed_on);
    }

    /// Calls `poll` for the task that writes or finishes.
    pub(crate) fn poll_as_writer<T>(&self, context: &mut Context<'_>, mut poll: impl FnMut() -> Poll<T>) -> Poll<T> {
        // A stream that always has room must not starve the other tasks of the caller's thread.
        let budget = ready!(coop::poll_proceed(context));
        let mut result = poll();
        if result.is_pending() {
            self.writer.register(context.waker());
            result = poll();
        }
        if result.is_ready() {
            budget.made_progress();
        }
        result
    }

    /// Waits until the peer has every byte of a write side that was shut down, or reads no more.
    pub(crate) fn poll_finished(&self, state: &mut StreamState) -> Poll<IoResult<()>> {
        if state.connection.is_sending_over() {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = self.write_error(state) {
            return Poll::Ready(Err(error.into()));
        }
        state.is_writer_waiting = true;
        Poll::Pending
    }

    /// Fails if the write side is closed, with or without room.
    pub(crate) fn writable(&self, state: &StreamState) -> IoResult<()> {
        if let Some(error) = self.write_error(state) {
            return Err(error.into());
        }
        if state.connection.is_finished() {
            return Err(IoError::new(ErrorKind::BrokenPipe, "the write side of the stream was shut down"));
        }
        Ok(())
    }

    /// Waits for room, and gives it in bytes.
    pub(crate) fn poll_room(&self, state: &mut StreamState) -> Poll<IoResult<usize>> {
        self.writable(state)?;
        match state.connection.writable_bytes() {
            0 => {
                state.is_writer_waiting = true;
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    /// Adds a lane that has joined.
    pub(crate) fn lane_up(
        &self,
        rail: RailId,
        connection: &Arc<dyn Lane>,
        traits: LaneTraits,
        settings: LaneSettings,
    ) -> Result<Arc<ActiveLane>, LaneUpError> {
        let (index, link, joined) = (traits.number, connection.link_index(), JoinedConnection::here(connection));
        self.with(|state| {
            let id = state.connection.lane_up(Instant::now(), traits)?;
            let metrics = match state.lane_metrics.iter().find(|metrics| metrics.index == index) {
                Some(known) => known.clone(),
                None => {
                    let metrics = LaneMetrics::new(index, rail, &joined);
                    state.lane_metrics.push(metrics.clone());
                    metrics
                }
            };
            metrics.begin(&joined);
            let active = ActiveLane::new(id, connection.clone(), metrics.clone(), settings);
            let slot = LaneSlot { error: None, link, metrics, active: Some(active.clone()) };
            state.lanes_came += 1;
            match state.lanes.get_mut(id.0) {
                Some(free) => *free = slot,
                None => state.lanes.push(slot),
            }
            Ok(active)
        })
    }

    /// Removes a lane that has ended.
    pub(crate) fn lane_down(&self, active: &ActiveLane, end: Result<(), LaneError>) {
        let (lane, known) = (active.id, figures(&active.lane));
        // The error may be the transport's own: it describes itself, and is dropped, outside the lock.
        let told = end.as_ref().err().and_then(|error| {
            let mut told = None;
            run_caught("the error of a lane has panicked as it was told", || told = Some(error.to_string()));
            told
        });
        let was_last = self.with(|state| {
            let now = Instant::now();
            let did = state.connection.lane_stats(now, lane);
            let slot = &mut state.lanes[lane.0];
            // Callers that wake the lane still may hold it for a moment; no other owner keeps its connection
            // open.
            slot.active = None;
            let is_done = state.connection.is_done();
            let how = end.as_ref().map_or_else(LaneError::end, |()| LaneEnd::Closed);
            // A stream that is done loses nothing with a lane: the peer may have heard of the end first, and
            // closed the lane.
            let is_lost = end.is_err() && !(is_done && how == LaneEnd::ByPeer);
            slot.error = told.filter(|_| is_lost);
            let end = if is_lost { end.clone() } else { Ok(()) };
            active.metrics.end(&active.lane, end, &did, known);
            state.lanes_came -= 1;
            state.connection.lane_down(now, lane, how);
            state.connection.needs_no_lane() && !state.lanes.iter().any(LaneSlot::is_up)
        });
        if was_last {
            self.summarize();
        }
    }

    /// The application drops the stream, with `unread` bytes that it had taken and not read. The
    /// lanes deliver its bytes.
    pub(crate) fn drop_application(&self, unread: u64) {
        let limit = self.lock().connection.linger() + CLOSE_MARGIN;
        // Before the supervisor can hear of the end.
        *self.last_work() = Some(LastWork::new(limit, Some(self.id)));
        let (has_delivered, lanes) = self.with(|state| {
            state.connection.drop_application(Instant::now(), unread);
            let lanes: Vec<_> = state.lanes.iter().filter_map(|slot| slot.active.clone()).collect();
            (state.connection.has_delivered(), lanes)
        });
        // The reader's runtime may not run any more, if the process ends.
        lanes.iter().for_each(|lane| lane.go_home());
        if has_delivered {
            self.has_delivered();
        }
    }

    /// The stream has delivered its bytes, or failed.
    pub(super) fn has_delivered(&self) {
        drop(self.last_work().take());
        self.delivered.notify_waiters();
    }

    /// The written bytes that the peer does not have.
    pub(super) fn bytes_at_risk(&self) -> u64 {
        self.lock().connection.bytes_at_risk()
    }

    fn last_work(&self) -> MutexGuard<'_, Option<LastWork>> {
        self.last_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs that the stream is open, with these lanes.
    pub(super) fn log_opened(&self, lanes: usize) {
        self.is_opening_logged.store(true, Relaxed);
        let OpeningLane { role, local, peer, .. } = &self.opened_by;
        tracing::info!(stream = %self.id, role = role.name(), %local, %peer, lanes, "a stream is open");
    }

    /// Logs the stream's end, if its opening was logged, and its summary once. When this returns,
    /// they are in the log.
    pub(crate) fn summarize(&self) {
        let mut done = self.summarized.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *done, true) {
            return;
        }
        if self.is_opening_logged.load(Relaxed) && tracing::enabled!(tracing::Level::INFO) {
            self.log_ended();
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.stats().log();
        }
    }

    fn log_ended(&self) {
        let (figures, failure, lanes) = {
            let state = self.lock();
            let failure = state.connection.failure().map(ToString::to_string);
            (state.connection.stats(Instant::now()), failure, state.lane_metrics.len())
        };
        let OpeningLane { role, local, peer, .. } = &self.opened_by;
        tracing::info!(
            stream = %self.id, role = role.name(), %local, %peer, lanes, bytes_written = figures.sent.0,
            bytes_read = figures.read, duration = ?self.start.elapsed(), failure, "a stream has ended"
        );
    }

    /// The kept events.
    pub(crate) fn events(&self) -> Vec<StreamEvent> {
        self.lock().events.kept()
    }

    /// The events from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<StreamEvent> {
        self.lock().events.subscribe()
    }

    /// The changes of links from now on.
    pub(super) fn link_reports(&self) -> LinkReports {
        self.rails.link_reports()
    }

    /// Tells the connection of links that went down or came up.
    pub(crate) fn links_changed(&self, changes: &[LinkChange]) {
        self.with(|state| {
            let now = Instant::now();
            for (lane, slot) in state.lanes.iter().enumerate().filter(|(_, slot)| slot.is_up()) {
                match changes.iter().rfind(|change| Some(change.index) == slot.link) {
                    Some(change) if change.up => state.connection.link_up(now, LaneId(lane)),
                    Some(_) => state.connection.link_down(now, LaneId(lane)),
                    None => {}
                }
            }
        });
    }

    /// The rails that the lanes run on.
    pub(super) fn rails(&self) -> &Rails {
        &self.rails
    }

    /// The rail of that runtime, if it is one of the stream's rails.
    pub(super) fn rail_of(&self, runtime: runtime::Id) -> Option<&Rail> {
        self.rails.iter().find(|rail| rail.runtime().handle().id() == runtime)
    }

    /// The nodes of the rails with a lane up, if there are several: buffers that all these rails
    /// write to are interleaved over them.
    pub(crate) fn nodes_in_use(&self) -> Option<NodeSet> {
        let state = self.lock();
        let rails = state.lanes.iter().filter(|slot| slot.is_up()).map(|slot| slot.metrics.rail);
        let nodes: NodeSet = rails.filter_map(|rail| self.rails[rail].planned().node).collect();
        Some(nodes).filter(|nodes| nodes.len() > 1)
    }

    /// Removes lane number `index` from the stream; `false` if there is none.
    pub(crate) fn remove_lane(&self, index: u16) -> bool {
        self.with(|state| state.connection.leave_by_number(Instant::now(), index))
    }

    /// The error of the stream, if it has failed.
    pub(crate) fn error(&self, state: &StreamState) -> Option<StreamError> {
        Some(self.stream_error(state, state.connection.failure()?.clone()))
    }

    /// Why nothing can be written any more, for another reason than [`Connection::finish`].
    pub(crate) fn write_error(&self, state: &StreamState) -> Option<StreamError> {
        Some(self.stream_error(state, state.connection.write_failure()?))
    }

    fn stream_error(&self, state: &StreamState, failure: Failure) -> StreamError {
        let lanes = state.lane_metrics.iter().filter_map(|metrics| metrics.lost()).collect();
        StreamError { stream: self.id, failure, lanes }
    }

    pub(crate) fn stats(&self) -> StreamStats {
        let now = Instant::now();
        let (lanes, figures) = {
            let state = self.lock();
            let lanes: Vec<_> =
                state.lane_metrics.iter().map(|metrics| (metrics.clone(), state.figures_of(now, metrics))).collect();
            (lanes, state.connection.stats(now))
        };
        // `LaneMetrics::stats` asks the kernel, outside the lock.
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

    fn lock(&self) -> Locked<'_, StreamState> {
        self.state.lock()
    }
}

impl StreamOnRails for StreamShared {
    fn is_delivering(&self) -> bool {
        let state = self.lock();
        state.connection.is_finished() && !state.connection.has_delivered()
    }

    fn delivered(&self) -> BoxFuture<'_, ()> {
        let delivered = async {
            loop {
                let mut delivered = pin!(self.delivered.notified());
                delivered.as_mut().enable();
                if self.lock().connection.has_delivered() {
                    return;
                }
                among_others(delivered).await;
            }
        };
        Box::pin(delivered)
    }

    fn undelivered(&self) -> Option<UndeliveredStream> {
        let state = self.lock();
        let (bytes, failure) = (state.connection.bytes_at_risk(), state.connection.failure().cloned());
        let is_left = bytes > 0 || !state.connection.has_delivered();
        is_left.then_some(UndeliveredStream { stream: self.id, bytes, failure })
    }
}

/// Lets another thread publish events.
struct EndOfPublishing<'a>(&'a StreamShared);

impl Drop for EndOfPublishing<'_> {
    fn drop(&mut self) {
        self.0.lock().events.end_publishing();
    }
}

impl Drop for StreamShared {
    /// A stream that failed without a lane has not logged its summary yet.
    fn drop(&mut self) {
        self.summarize();
    }
}

/// How long the end of a process waits beyond a stream's linger: a second for the lanes to close,
/// and one for a busy machine.
const CLOSE_MARGIN: Duration = Duration::from_secs(2);
