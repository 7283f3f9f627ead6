//! The state that the application's handle and the lanes of one stream share.

use super::{
    active_lane::{ActiveLane, LaneSettings},
    burst::Burst,
    events::{EventLog, LaneEnds, StreamEvent},
    lane_metrics::{JoinedConnection, LaneMetrics, figures},
    lock::{Lock, Locked, leave_to_others, run_caught},
    pool::Pool,
    stats::{StreamStats, ThreadStats},
    tasks::{StreamTasks, Taker, TaskTable, Woken},
    wakers::{SessionTasks, among_others},
};
use crate::{
    Rail, RailId, StreamError, StreamOptions,
    error::{LaneError, UndeliveredStream},
    last_work::LastWork,
    rails::{LinkReports, Rails, StreamOnRails},
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use rails_net::{Lane, LinkChange};
use rails_proto::{
    handshake::{Credentials, StreamId},
    session::{EventKind, Failure, LaneConnectionStats, LaneEnd, LaneId, LaneTraits, LaneUpError, Session, Wakes},
    stream_number::StreamNumber,
};
use rails_topo::NodeSet;
use smallvec::SmallVec;
use std::{
    io::{Error as IoError, ErrorKind, Result as IoResult},
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Relaxed},
        },
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::{
    runtime::{self, Handle},
    sync::{Notify, broadcast, watch},
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
    /// Whether the session has many streams.
    has_many: bool,
    /// The tasks of the only stream of a session without many.
    pub(crate) only: Arc<StreamTasks>,
    /// The tasks that wait for a session with many streams.
    pub(crate) tasks: SessionTasks,
    /// The number of lanes that are up.
    pub(crate) lanes_up: watch::Sender<usize>,
    /// Bytes that a dropped receiving half had taken from the stream and not handed out.
    pub(crate) unread: AtomicU64,
    /// Whether the application's handle has taken more from the stream than it has handed out.
    at_hand: AtomicBool,
    /// The lanes whose writes [wait](Burst) for the end of the writer's turn, as a set of slots.
    waiting: AtomicU64,
    /// The lane of the latest arrival: an answer goes out on it.
    near: Mutex<Weak<ActiveLane>>,
    /// Whether the connection has wakes that were not urgent. Threads change it under the lock.
    has_later: AtomicBool,
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
    /// The peer's name among those whose secrets this end knows.
    pub(crate) peer_name: Option<Arc<str>>,
    /// The lane's address at this end, and the peer's.
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// The state under the lock.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) session: Session,
    /// The slots, indexed by [`LaneId`].
    lanes: Vec<LaneSlot>,
    /// The metrics of every lane, past or present.
    lane_metrics: Vec<Arc<LaneMetrics>>,
    /// Lanes that came up less those that ended, since `lanes_up` was last changed.
    lanes_came: isize,
    events: EventLog,
    pub(crate) tasks: TaskTable,
    /// Whether the application has dropped its handles.
    is_dropped: bool,
    burst: Burst,
    /// The lanes whose arrivals a task of the application receives, as a set of slots.
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
        self.session.is_done() || self.session.failure().is_some()
    }

    /// The figures of a lane's connections that are up: one, or two while one replaces another.
    fn figures_of(&self, now: Instant, metrics: &Arc<LaneMetrics>) -> LaneConnectionStats {
        let mut sum = LaneConnectionStats::default();
        let places =
            self.lanes.iter().enumerate().filter(|(_, slot)| slot.is_up() && Arc::ptr_eq(&slot.metrics, metrics));
        for (lane, _) in places {
            sum += self.session.lane_stats(now, LaneId(lane));
        }
        sum
    }

    /// Whether the connection of that lane has joined and not ended.
    pub(super) fn is_up(&self, lane: &Arc<ActiveLane>) -> bool {
        let active = self.lanes.get(lane.id.0).and_then(|slot| slot.active.as_ref());
        active.is_some_and(|active| Arc::ptr_eq(active, lane))
    }

    /// A lane whose arrivals a task of the application receives.
    pub(crate) fn take_arrived(&mut self) -> Option<Arc<ActiveLane>> {
        while self.arrived != 0 {
            let lane = self.arrived.trailing_zeros() as usize;
            self.arrived &= self.arrived - 1;
            if let Some(active) = &self.lanes[lane].active {
                return Some(active.clone());
            }
        }
        None
    }

    /// The tasks of streams that the session names, which the caller wakes.
    fn take_tasks(&mut self) -> SmallVec<[Woken; 2]> {
        let mut woken = SmallVec::new();
        for wake in self.session.take_stream_wakes() {
            woken.extend(self.tasks.take(wake.stream, wake.reader, wake.writer));
        }
        woken
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
        self.session.prefer(lane_here);
    }

    /// Notes a small write. Returns whether it waits for the next one. `has_more` says whether the
    /// application has more arrivals at hand.
    pub(super) fn note_write(&mut self, now: Instant, length: usize, has_more: bool) -> bool {
        self.burst.write(now, length, has_more)
    }

    /// The reader has found nothing: it waits, and registers its waker next.
    pub(super) fn note_reader(&mut self, tasks: &Arc<StreamTasks>) {
        self.tasks.add_reader(tasks);
        self.burst.end(Instant::now);
    }

    fn note_events(&mut self) {
        let loses_nothing = self.session.loses_nothing();
        while let Some(event) = self.session.poll_event() {
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
                EventKind::Standstill { .. } => self.session.lane_progress(event.at).collect(),
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
        session: Session,
        rails: Rails,
        opened_by: OpeningLane,
        options: &StreamOptions,
    ) -> Arc<Self> {
        let (buffers, has_many) = (Pool::new(session.window()), session.has_many());
        // The table of a session with many streams has those that are open.
        let mut tasks = TaskTable::default();
        let only = tasks.add(StreamNumber::FIRST, 1);
        if has_many {
            tasks.release(&only, true);
        }
        let state = StreamState {
            session,
            lanes: Vec::new(),
            lane_metrics: Vec::new(),
            lanes_came: 0,
            events: EventLog::new(),
            tasks,
            is_dropped: false,
            burst: Burst::new(),
            arrived: 0,
        };
        let shared = Arc::new(Self {
            id,
            opened_by,
            buffers,
            state: Lock::new(state),
            has_many,
            only,
            tasks: SessionTasks::default(),
            lanes_up: watch::Sender::new(0),
            unread: AtomicU64::new(0),
            at_hand: AtomicBool::new(false),
            waiting: AtomicU64::new(0),
            near: Mutex::default(),
            has_later: AtomicBool::new(false),
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
        let wakes = |session: &mut Session| {
            self.has_later.store(false, Relaxed);
            session.take_wakes()
        };
        self.act(wakes, act, |lane| lane.wake_to_send())
    }

    /// As [`with`](Self::with), for a thread that lets a lane send, and calls `with` after it: idle
    /// lanes may not have to stand by then.
    pub(super) fn with_inline<T>(&self, act: impl FnOnce(&mut StreamState) -> T) -> T {
        self.act(|session| self.urgent_wakes(session), act, |lane| lane.wake_to_send())
    }

    /// The wakes that a thread makes which lets a lane send. It [makes the
    /// others](Self::wake_later) after that.
    pub(super) fn urgent_wakes(&self, session: &mut Session) -> Wakes {
        let wakes = session.take_urgent_wakes();
        self.has_later.store(session.has_later_wakes(), Relaxed);
        wakes
    }

    /// Makes the wakes that were not urgent, if any are left.
    pub(super) fn wake_later(&self) {
        if self.has_later.load(Relaxed) {
            self.with(|_| ());
        }
    }

    /// Bytes have arrived on a lane.
    pub(super) fn note_near(&self, lane: &Arc<ActiveLane>) {
        let mut near = self.near.lock().unwrap_or_else(PoisonError::into_inner);
        if near.as_ptr() != Arc::as_ptr(lane) {
            *near = Arc::downgrade(lane);
        }
    }

    /// The lane of the latest arrival, if it has not ended.
    pub(super) fn near(&self) -> Option<Arc<ActiveLane>> {
        self.near.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
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
        state.burst.end(Instant::now);
        let lanes = state.lanes.iter().enumerate().filter(|(slot, _)| waiting & 1 << slot != 0);
        Some(lanes.filter_map(|(_, slot)| slot.active.clone()).collect())
    }

    /// Whether the application's handle has taken more from the stream than it has handed out.
    pub(super) fn has_at_hand(&self) -> bool {
        self.at_hand.load(Relaxed)
    }

    /// Whether the session has many streams.
    pub(super) fn has_many(&self) -> bool {
        self.has_many
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
        wakes: impl FnOnce(&mut Session) -> Wakes,
        act: impl FnOnce(&mut StreamState) -> T,
        lead: impl FnOnce(&Arc<ActiveLane>),
    ) -> T {
        let mut state = self.lock();
        let result = act(&mut state);
        self.buffers.note_held(state.session.memory_held());
        let wakes = wakes(&mut state.session);
        if wakes.are_none() && state.lanes_came == 0 && !state.events.has_news() {
            drop(state.release());
            return result;
        }
        self.wake(state, wakes, lead);
        result
    }

    /// Frees the lock, and wakes those that the connection names: `lead` the first lane.
    fn wake(&self, mut state: Locked<'_, StreamState>, wakes: Wakes, lead: impl FnOnce(&Arc<ActiveLane>)) {
        if wakes.supervisor {
            state.note_events();
        }
        let only = state.tasks.take(StreamNumber::FIRST, wakes.reader, wakes.writer);
        let of_streams = if wakes.streams { state.take_tasks() } else { SmallVec::new() };
        let (came, has_news) = (std::mem::take(&mut state.lanes_came), state.events.has_news());
        // An `Arc` clone is cheap beside the wake, and the wake must not happen under the lock. Mostly
        // there is one lane to wake.
        let mut lanes = SmallVec::<[Arc<ActiveLane>; 2]>::new();
        for lane in wakes.lanes() {
            lanes.extend(state.lanes[lane.0].active.clone());
        }
        let given_up = state.release();
        // The application wakes first: its answer goes out with the frames for which the lane is woken.
        if let Some(only) = only {
            only.wake();
        }
        of_streams.into_iter().for_each(Woken::wake);
        for (is_due, tasks) in [
            (wakes.accept, &self.tasks.accept),
            (wakes.open, &self.tasks.open),
            (wakes.datagrams, &self.tasks.datagrams),
        ] {
            if is_due {
                tasks.notify_waiters();
            }
        }
        if let Some((first, others)) = lanes.split_first() {
            lead(first);
            others.iter().for_each(|lane| lane.wake_to_send());
        }
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
                news.log(self.id, news.event.lane.and_then(|lane| self.ends_of(lane)).as_ref());
                if let Some(listeners) = &listeners {
                    run_caught("the waker of a subscriber to events has panicked", || {
                        // This fails if the subscribers are gone, which is fine.
                        let _ = listeners.send(news.event);
                    });
                }
            }
        }
    }

    /// The ends of the lane of that number, for the log.
    fn ends_of(&self, lane: u16) -> Option<LaneEnds> {
        let metrics = self.lock().lane_metrics.iter().find(|metrics| metrics.index == lane)?.clone();
        let interface = self.rails[metrics.rail].planned().interface.clone();
        Some(LaneEnds { interface, local: metrics.local(), remote: metrics.remote() })
    }

    /// Bytes have arrived on a lane. A task of the application that waits receives them if they are
    /// few, and the lane's task otherwise. Of several, it is the one that began to wait last: with
    /// it the bytes are on a thread of the application, even if they are for another task.
    pub(super) fn arrived(&self, lane: &Arc<ActiveLane>) {
        let mut state = self.lock();
        let may_pass_on = state.is_up(lane) && lane.may_pass_on();
        let taker = if may_pass_on { state.tasks.take_latest(self.tasks.are_any_accepting()) } else { None };
        if taker.is_some() {
            state.arrived |= 1 << lane.id.0;
        }
        drop(state);
        // The taker wakes first: its answer may be on its way before the task's thread is awake.
        match &taker {
            Some(Taker::Reader(reader)) => reader.wake_reader(),
            Some(Taker::Acceptor) => self.tasks.accept.notify_one(),
            None => {}
        }
        lane.arrived(taker.is_some());
    }

    /// Calls `poll` for the task that writes to the only stream, or finishes it.
    pub(crate) fn poll_as_writer<T>(&self, context: &mut Context<'_>, poll: impl FnMut() -> Poll<T>) -> Poll<T> {
        self.only.poll_as_writer(context, poll)
    }

    /// Waits until the peer has every byte of a write side that was shut down, or reads no more.
    pub(crate) fn poll_finished(&self, state: &mut StreamState) -> Poll<IoResult<()>> {
        if state.session.is_sending_over() {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = self.write_error(state) {
            return Poll::Ready(Err(error.into()));
        }
        self.only.note_writer();
        Poll::Pending
    }

    /// Fails if the write side is closed, with or without room.
    pub(super) fn writable(&self, state: &StreamState) -> IoResult<()> {
        if let Some(error) = self.write_error(state) {
            return Err(error.into());
        }
        if state.session.is_finished(StreamNumber::FIRST) {
            return Err(IoError::new(ErrorKind::BrokenPipe, "the write side of the stream was shut down"));
        }
        Ok(())
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
            let id = state.session.lane_up(Instant::now(), traits)?;
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
            let did = state.session.lane_stats(now, lane);
            let slot = &mut state.lanes[lane.0];
            // Callers that wake the lane still may hold it for a moment; no other owner keeps its connection
            // open.
            slot.active = None;
            let is_done = state.session.is_done();
            let how = end.as_ref().map_or_else(LaneError::end, |()| LaneEnd::Closed);
            // A stream that is done loses nothing with a lane: the peer may have heard of the end first, and
            // closed the lane.
            let is_lost = end.is_err() && !(is_done && how == LaneEnd::ByPeer);
            slot.error = told.filter(|_| is_lost);
            let end = if is_lost { end.clone() } else { Ok(()) };
            active.metrics.end(&active.lane, end, &did, known);
            state.lanes_came -= 1;
            state.session.lane_down(now, lane, how);
            state.session.needs_no_lane() && !state.lanes.iter().any(LaneSlot::is_up)
        });
        if was_last {
            self.summarize();
        }
    }

    /// The application drops the stream, with `unread` bytes that it had taken and not read. The
    /// lanes deliver its bytes.
    pub(crate) fn drop_application(self: &Arc<Self>, unread: u64) {
        let limit = self.lock().session.linger() + CLOSE_MARGIN;
        // Before the supervisor can hear of the end.
        *self.last_work() = Some(LastWork::new(limit, Some(self.id)));
        let drop = |state: &mut StreamState| {
            state.is_dropped = true;
            state.session.drop_application(Instant::now(), unread);
            let lanes: Vec<_> = state.lanes.iter().filter_map(|slot| slot.active.clone()).collect();
            (state.session.has_delivered(), lanes)
        };
        // A session that is delivered closes at once, and one of its lanes tells the peer here.
        let (has_delivered, lanes) = if self.has_many { self.write(0, drop) } else { self.with(drop) };
        // The reader's runtime may not run any more, if the process ends.
        lanes.iter().for_each(|lane| lane.go_home());
        // The supervisor of a session waits until the lanes have told the peer.
        if has_delivered && (!self.has_many || *self.over.borrow()) {
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
        self.lock().session.bytes_at_risk()
    }

    fn last_work(&self) -> MutexGuard<'_, Option<LastWork>> {
        self.last_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs that the stream is open, with these lanes.
    pub(super) fn log_opened(&self, lanes: usize) {
        self.is_opening_logged.store(true, Relaxed);
        let OpeningLane { role, local, peer, peer_name, .. } = &self.opened_by;
        let peer_name = peer_name.as_deref();
        let what = self.what();
        tracing::info!(stream = %self.id, role = role.name(), %local, %peer, peer_name, lanes, "a {what} is open");
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
            let failure = state.session.failure().map(ToString::to_string);
            (state.session.stats(Instant::now()), failure, state.lane_metrics.len())
        };
        let OpeningLane { role, local, peer, peer_name, .. } = &self.opened_by;
        tracing::info!(
            stream = %self.id, role = role.name(), %local, %peer, peer_name = peer_name.as_deref(), lanes, bytes_written = figures.sent.0,
            bytes_read = figures.read, duration = ?self.start.elapsed(), failure, "a {} has ended", self.what()
        );
    }

    /// What the lanes carry, in the log.
    fn what(&self) -> &'static str {
        if self.has_many { "session" } else { "stream" }
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
                    Some(change) if change.up => state.session.link_up(now, LaneId(lane)),
                    Some(_) => state.session.link_down(now, LaneId(lane)),
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
        self.with(|state| state.session.leave_by_number(Instant::now(), index))
    }

    /// The error of the stream, if it has failed.
    pub(crate) fn error(&self, state: &StreamState) -> Option<StreamError> {
        Some(self.stream_error(state, state.session.failure()?.clone()))
    }

    /// Why nothing can be written any more, for another reason than [`Session::finish`].
    pub(crate) fn write_error(&self, state: &StreamState) -> Option<StreamError> {
        Some(self.stream_error(state, state.session.write_failure(StreamNumber::FIRST)?))
    }

    /// The error with that cause.
    pub(crate) fn stream_error(&self, state: &StreamState, failure: Failure) -> StreamError {
        let lanes = state.lane_metrics.iter().filter_map(|metrics| metrics.lost()).collect();
        StreamError { stream: self.id, failure, lanes }
    }

    pub(crate) fn stats(&self) -> StreamStats {
        let now = Instant::now();
        let (lanes, figures) = {
            let state = self.lock();
            let lanes: Vec<_> =
                state.lane_metrics.iter().map(|metrics| (metrics.clone(), state.figures_of(now, metrics))).collect();
            (lanes, state.session.stats(now))
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
        let has_ended = state.is_dropped || !self.has_many && state.session.is_finished(StreamNumber::FIRST);
        has_ended && !state.session.has_delivered()
    }

    fn delivered(&self) -> BoxFuture<'_, ()> {
        let delivered = async {
            loop {
                let mut delivered = pin!(self.delivered.notified());
                delivered.as_mut().enable();
                if self.lock().session.has_delivered() {
                    return;
                }
                among_others(delivered).await;
            }
        };
        Box::pin(delivered)
    }

    fn undelivered(&self) -> Option<UndeliveredStream> {
        let state = self.lock();
        let (bytes, failure) = (state.session.bytes_at_risk(), state.session.failure().cloned());
        let is_left = bytes > 0 || !state.session.has_delivered();
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
