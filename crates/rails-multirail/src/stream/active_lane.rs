//! A lane that has joined: its connection, its protocol, and the threads that drive it.

use super::{
    alarm::tick,
    handoff::Handoff,
    lane_metrics::LaneMetrics,
    lending::Lending,
    pool::ChunkBuffer,
    shared::{Shared, State},
    turn::{Turn, Word},
    yield_budget::YieldBudget,
};
use crate::RailId;
use bytes::Bytes;
use rails_net::Lane;
use rails_proto::{
    connection::{Connection, LaneId},
    lane::{LaneError, LaneProtocol, Next, READ_AHEAD, Received, Stream, TransportSample},
    messages::MessageBuffer,
    parameters::TIMER_SLACK,
    policy::{TRACE_TARGET, Traced},
    seal::Seals,
};
use rails_task::Helpers;
use rails_topo::DataSize;
use std::{
    cell::Cell,
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, atomic::Ordering::Relaxed},
    task::{Context, Poll, Wake, Waker, ready},
    time::Instant,
};
use tokio::{
    runtime::{self, Handle},
    sync::Notify,
    task::coop,
};

/// A lane that has joined. Its task on its rail drives it. A call of the application drives it too, inline: a small
/// write is sent, and a small arrival received, on the caller's thread, without a switch to the rail's.
///
/// Task and callers take [turns](Turn), and wait for none: a thread that finds the turn taken leaves word with the
/// thread that has it. The lock of the protocol is taken in a turn, and before the lock of the stream, never after it.
#[derive(Debug)]
pub(crate) struct ActiveLane {
    pub(crate) id: LaneId,
    pub(crate) lane: Arc<dyn Lane>,
    pub(crate) metrics: Arc<LaneMetrics>,
    /// Notified when the lane has stalled.
    pub(crate) stalled: Arc<Notify>,
    settings: LaneSettings,
    turn: Turn,
    /// `None` before the lane's task starts and after it has ended. Only a task that ends with its runtime may find it
    /// locked.
    driven: Mutex<Option<Driven>>,
    /// Wakes the lane's task.
    task: Arc<TaskWaker>,
    /// Woken when bytes have arrived.
    arrival: OnceLock<Waker>,
    handoff: Handoff,
}

/// The part of a lane that one thread at a time drives.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) protocol: LaneProtocol<ChunkBuffer>,
    /// The chunks that other cores of the rail send, if it has them.
    lending: Option<Lending>,
    /// The time for which the task has set its timer, if it has.
    pub(super) alarm: Option<Instant>,
    /// The number of small arrivals in a row.
    small: u32,
    /// The number of arrivals in a row that ended inside a chunk.
    pieces: u32,
    /// The runtime that reports arrivals.
    reports: runtime::Id,
    /// When the task tries again to take the lane home, if it could not.
    pub(super) home_again: Option<Instant>,
}

/// A lane's memory, the runtime of its task, and that of its readers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneSettings {
    /// The runtime of the lane's task.
    pub(super) home: runtime::Id,
    /// The rail of that runtime.
    pub(super) home_rail: RailId,
    /// Whether large messages are interleaved over the nodes of the rails in use.
    pub(super) interleaved: bool,
    /// The runtime of the application's tasks, if the options name it.
    pub(super) application: Option<runtime::Id>,
}

/// The lane in the hands of a thread that has the turn.
pub(super) struct Driving<'a> {
    // Fields are dropped in this order: the lock is free when the turn ends.
    driven: MutexGuard<'a, Option<Driven>>,
    _turn: OpenTurn<'a>,
}

/// A turn, which ends on drop.
struct OpenTurn<'a>(&'a ActiveLane);

/// Wakes the task of a lane.
#[derive(Debug, Default)]
struct TaskWaker(Notify);

/// Woken when bytes have arrived on a lane.
#[derive(Debug)]
struct Arrival {
    shared: Weak<Shared>,
    lane: Weak<ActiveLane>,
}

impl ActiveLane {
    pub(super) fn new(id: LaneId, lane: Arc<dyn Lane>, metrics: Arc<LaneMetrics>, settings: LaneSettings) -> Arc<Self> {
        let (stalled, driven, task, arrival) = Default::default();
        let (turn, handoff) = (Turn::new(), Handoff::new());
        Arc::new(Self { id, lane, metrics, stalled, settings, turn, driven, task, arrival, handoff })
    }

    /// Starts the protocol, on the lane's rail. Before this, the handshake has the connection.
    pub(super) fn start(self: &Arc<Self>, shared: &Arc<Shared>, seals: Option<Seals>) {
        let max_unsent = self.lane.max_unsent().map(DataSize::as_bytes);
        let arrival = Arrival { shared: Arc::downgrade(shared), lane: Arc::downgrade(self) };
        self.arrival.get_or_init(|| Waker::from(Arc::new(arrival)));
        let protocol = LaneProtocol::new(self.id, seals, max_unsent);
        let task = Waker::from(self.task.clone());
        let lending = Helpers::current().map(|helpers| Lending::new(helpers, self.lane.clone(), task));
        let (alarm, home_again, reports) = (None, None, self.home());
        *self.lock() = Some(Driven { protocol, lending, alarm, small: 0, pieces: 0, reports, home_again });
    }

    /// The runtime of the lane's task.
    pub(super) fn home(&self) -> runtime::Id {
        self.settings.home
    }

    /// Ends the protocol, unless it has [ended](Driving::end): no call drives the lane any more. Waits for a caller
    /// that drives it, as only a task does that ends with its runtime.
    pub(super) fn stop(&self) {
        let driven = self.lock().take();
        // The protocol may hold bytes of the application.
        drop(driven);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Driven>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane, unless another thread drives it: that thread gets `word`.
    fn begin_or_leave(&self, word: Word) -> Option<Driving<'_>> {
        self.turn.begin_or_leave(word).then(|| Driving { driven: self.lock(), _turn: OpenTurn(self) })
    }

    /// The lane for its task. A thread that drives it wakes the task at its end.
    pub(super) fn drive(&self) -> Option<Driving<'_>> {
        self.begin_or_leave(Word::WAKE_TASK)
    }

    /// Has the task drive the lane once more, after the turn of a thread that drives it.
    fn wake_task(&self) {
        self.leave_or_wake(Word::WAKE_TASK);
    }

    /// Has the thread that drives the lane send, or else the task.
    pub(crate) fn wake_to_send(&self) {
        self.leave_or_wake(Word::SEND);
    }

    fn leave_or_wake(&self, word: Word) {
        if !self.turn.leave(word) {
            self.task.0.notify_one();
        }
    }

    /// Whether the lane has something to send, as others have told the calling thread, which has the turn.
    pub(super) fn takes_word_to_send(&self) -> bool {
        self.turn.take(Word::SEND)
    }

    /// Resolves when the task is to drive the lane once more.
    pub(super) async fn woken(&self) {
        self.task.0.notified().await;
    }

    /// Has the task receive.
    fn leave_to_task(&self) {
        self.handoff.leave_to_task();
        self.wake_task();
    }

    /// Whether the task watches whether the reader comes for the arrivals that it was passed.
    pub(super) fn is_watched(&self) -> bool {
        self.handoff.is_watched()
    }

    /// Ends a period of that watch, before the task receives. Returns whether another period begins.
    pub(super) fn end_period(&self) -> bool {
        self.handoff.end_period()
    }

    /// Whether a reader that waits receives the next arrival. A thread that drives the lane and is woken by itself
    /// polls the socket busily, and goes on with it.
    pub(super) fn may_pass_on(&self) -> bool {
        self.handoff.is_inline() && !self.turn.is_taken()
    }

    /// Passes an arrival on to the reader, or leaves it to the task.
    pub(super) fn arrived(&self, is_passed_on: bool) {
        if !is_passed_on {
            self.leave_to_task();
        } else if self.handoff.pass_on() {
            self.wake_task();
        }
    }

    /// Sends on the caller's thread, without waiting: the task sends the bytes for which the lane has no room, and a
    /// thread that drives the lane sends all.
    pub(super) fn transmit_inline(&self, shared: &Shared) {
        self.drive_inline(shared, Word::SEND, |driven| self.send(shared, driven));
    }

    /// Sends on the thread of a caller that has the turn.
    fn send(&self, shared: &Shared, driven: &mut Driven) {
        driven.protocol.wake();
        let waker = Waker::from(self.task.clone());
        let mut access = Access::elsewhere(shared, self);
        match self.poll_transmit(&mut Context::from_waker(&waker), &mut access, driven) {
            Poll::Ready(Err(error)) if self.may_be_of_reader(driven, &error) => self.go_home(),
            Poll::Ready(end) => driven.protocol.close_sending(end.map_err(LaneError::from)),
            Poll::Pending => {}
        }
    }

    /// Receives a small arrival on the caller's thread. Leaves a larger one to the task.
    pub(super) fn receive_inline(&self, shared: &Shared) {
        self.handoff.reader_comes();
        let received = self.drive_inline(shared, Word::WAKE_TASK, |driven| {
            if driven.small >= SMALL_UNTIL_MOVED
                && let Ok(caller) = Handle::try_current()
                && (self.settings.application == Some(caller.id()) || shared.rail_of(caller.id()).is_some())
            {
                let _ = self.report_to(driven, caller.id());
            }
            self.poll_receive(Access::elsewhere(shared, self), driven, &mut YieldBudget::new())
        });
        if received != Some(Poll::Pending) {
            self.leave_to_task();
        }
    }

    /// Receives on the lane's task.
    pub(super) fn receive(&self, shared: &Shared, driven: &mut Driven, budget: &mut YieldBudget) -> Poll<()> {
        if driven.home_again.take_if(|at| *at <= Instant::now()).is_some() {
            self.handoff.call_home();
        }
        if !self.handoff.task_receives() {
            return Poll::Pending;
        }
        let is_called = self.handoff.takes_call_home();
        if is_called || !self.handoff.is_inline() {
            let outcome = self.report_to(driven, self.home());
            if outcome.is_err() && is_called {
                // Mostly the other runtime still reports. Where it does not, the stream's linger bounds the attempts.
                driven.home_again = Some(Instant::now() + TIMER_SLACK);
            }
        }
        let received = self.poll_receive(Access::on_rail(shared, self), driven, budget);
        if received.is_ready() {
            self.handoff.leave_to_task();
        }
        received
    }

    /// Has the task take the lane back to its rail's runtime: the reader's is shutting down, or there is no reader any
    /// more.
    pub(super) fn go_home(&self) {
        self.handoff.call_home();
        self.wake_task();
    }

    /// Whether an error may be that of a reader's runtime which is shutting down, and not the connection's. The
    /// connection tells an error of the operating system once, so that one is not to be lost.
    fn may_be_of_reader(&self, driven: &Driven, error: &io::Error) -> bool {
        driven.reports != self.home() && error.raw_os_error().is_none()
    }

    /// Has the calling runtime report arrivals. On an error the other one still does.
    fn report_to(&self, driven: &mut Driven, caller: runtime::Id) -> io::Result<()> {
        // A helper may be in the middle of a call, which the registration would wait for. It is in one only while the
        // lane is at home.
        if driven.reports == caller || driven.lending.as_ref().is_some_and(Lending::is_lent) {
            return Ok(());
        }
        if let Err(error) = self.lane.register_here() {
            tracing::debug!(%error, "a lane stays with its runtime");
            driven.small = driven.small.min(SMALL_IN_A_ROW);
            return Err(error);
        }
        (driven.reports, driven.small) = (caller, SMALL_IN_A_ROW);
        // The new registration has no wakers yet, and the task may wait for room.
        self.leave_to_task();
        Ok(())
    }

    /// Calls `act` with the lane, unless another thread drives it: that thread gets `word`.
    fn drive_inline<T>(&self, shared: &Shared, word: Word, act: impl FnOnce(&mut Driven) -> T) -> Option<T> {
        let mut driving = self.begin_or_leave(word)?;
        let Some(driven) = &mut *driving.driven else {
            // The task sends when it starts.
            self.wake_task();
            return None;
        };
        let done = act(driven);
        // One more round costs less than a switch to the task's thread. The task sends all that comes later.
        if self.turn.take(Word::SEND) {
            self.send(shared, driven);
        }
        let at = driven.protocol.poll_timeout(&mut Access::elsewhere(shared, self));
        let is_earlier = at.is_some_and(|at| driven.alarm.is_none_or(|alarm| tick(at) < alarm));
        if is_earlier || driven.protocol.end().is_some() {
            self.wake_task();
        }
        Some(done)
    }

    /// Receives until the socket is empty. Ready when the caller has used up its yield budget.
    fn poll_receive(&self, mut stream: Access<'_>, driven: &mut Driven, budget: &mut YieldBudget) -> Poll<()> {
        let mut arrived = 0;
        let received = self.poll_arrivals(&mut stream, driven, budget, &mut arrived);
        if arrived > 0 {
            let protocol = &mut driven.protocol;
            // A small message may come in two pieces. Bulk data comes in many, and chunks are short on a slow lane.
            let chunk = protocol.chunk_under_way();
            driven.pieces = if chunk.is_some() { driven.pieces.saturating_add(1) } else { 0 };
            let is_small = arrived <= 2 * MAX_INLINE
                && driven.pieces <= 1
                && chunk.unwrap_or(0) as usize <= MAX_INLINE
                && protocol.take_longest_message() as usize <= MAX_INLINE
                && protocol.in_flight() <= MAX_INLINE as u64;
            driven.small = if is_small { driven.small.saturating_add(1) } else { 0 };
            self.handoff.set_inline(driven.small >= SMALL_IN_A_ROW);
        }
        received
    }

    fn poll_arrivals(
        &self,
        stream: &mut Access<'_>,
        driven: &mut Driven,
        budget: &mut YieldBudget,
        arrived: &mut usize,
    ) -> Poll<()> {
        let Some(arrival) = self.arrival.get() else { return Poll::Pending };
        let context = &mut Context::from_waker(arrival);
        let mut is_spent = false;
        loop {
            let Poll::Ready(ready) = self.lane.poll_receive_ready(context) else {
                if let Some(bytes) = driven.protocol.take_low_water()
                    && let Err(error) = self.lane.set_receive_low_water(DataSize::bytes(bytes as u64))
                {
                    driven.protocol.close_receiving(Instant::now(), stream, Err(error.into()));
                }
                return Poll::Pending;
            };
            if let Err(error) = ready {
                // If a reader's runtime reports, it is shutting down. The task takes the lane home, if it has not tried
                // that.
                if driven.reports != self.home() && (!stream.is_task || self.handoff.is_inline()) {
                    self.handoff.set_inline(false);
                    return Poll::Ready(());
                }
                driven.protocol.close_receiving(Instant::now(), stream, Err(error.into()));
                return Poll::Pending;
            }
            if is_spent {
                return Poll::Ready(());
            }
            let mut read = 0;
            let received = driven.protocol.receive(Instant::now(), stream, |buffers| {
                let outcome = self.lane.try_receive(buffers);
                read = *outcome.as_ref().unwrap_or(&0);
                outcome
            });
            *arrived += read;
            match received {
                Received::Some { chunks, bytes } => {
                    if chunks > 0 {
                        self.metrics.received.count(chunks, bytes);
                    }
                    stream.shared.buffers.make_room();
                    is_spent |= budget.spend(read as u64);
                }
                Received::Nothing => {}
                Received::End => return Poll::Pending,
            }
        }
    }

    /// Sends frames as long as there are any and the connection takes them. Runs on the lane's task.
    pub(super) fn transmit(&self, context: &mut Context<'_>, shared: &Shared, driven: &mut Driven) {
        let mut access = Access::on_rail(shared, self);
        let mut end = self.poll_transmit(context, &mut access, driven);
        if let Poll::Ready(Err(error)) = &end
            && self.may_be_of_reader(driven, error)
        {
            let _ = self.report_to(driven, self.home());
            end = self.poll_transmit(context, &mut access, driven);
        }
        if let Poll::Ready(end) = end {
            driven.protocol.close_sending(end.map_err(LaneError::from));
        }
    }

    /// Ready when the sending side is closed, or fails.
    fn poll_transmit(
        &self,
        context: &mut Context<'_>,
        stream: &mut Access<'_>,
        driven: &mut Driven,
    ) -> Poll<io::Result<()>> {
        if let Some(lending) = &mut driven.lending
            && let Some(back) = ready!(lending.take_back(&mut driven.protocol))?
        {
            self.metrics.helped.fetch_add(back.is_helped.into(), Relaxed);
            back.sent.into_iter().for_each(|length| self.metrics.sent.count(1, length.into()));
        }
        let mut has_room = false;
        loop {
            let now = Instant::now();
            match driven.protocol.transmit(now, stream, has_room) {
                Next::AwaitRoom => {
                    ready!(self.lane.poll_room(context))?;
                    has_room = true;
                }
                Next::Submit { unsent_limit } => {
                    has_room = false;
                    if let Some(bytes) = unsent_limit {
                        self.lane.limit_unsent(DataSize::bytes(bytes))?;
                    }
                    if let Some(lending) = &mut driven.lending
                        && driven.reports == self.home()
                        && lending.lend(now, &mut driven.protocol)
                    {
                        self.wake_task();
                        return Poll::Pending;
                    }
                    ready!(self.poll_submit(context, &mut driven.protocol))?;
                }
                Next::Idle => return Poll::Pending,
                Next::Close => return Poll::Ready(self.lane.close_write()),
            }
        }
    }

    /// Submits outgoing bytes to the connection once, as many as it takes.
    fn poll_submit(&self, context: &mut Context<'_>, protocol: &mut LaneProtocol<ChunkBuffer>) -> Poll<io::Result<()>> {
        // A lane that always has bytes must not starve the other tasks of its thread.
        let budget = ready!(coop::poll_proceed(context));
        loop {
            let (control, payload) = protocol.outgoing();
            match self.lane.try_submit(control, payload) {
                Ok(bytes) => {
                    budget.made_progress();
                    if let Some(length) = protocol.submitted(bytes) {
                        self.metrics.sent.count(1, length.into());
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.lane.poll_submit_ready(context))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// The transport's figures in the protocol's form.
    pub(super) fn sample(&self) -> TransportSample {
        let Ok(stats) = self.lane.stats() else { return TransportSample::default() };
        TransportSample {
            rtt: stats.rtt,
            rtt_variation: stats.rtt_variation,
            min_rtt: stats.min_rtt,
            bytes_acknowledged: stats.bytes_acknowledged,
            since_acknowledgement: stats.since_acknowledgement,
            unacknowledged_packets: stats.unacknowledged_packets,
            peer_window_bytes: stats.peer_window_bytes,
            unanswered_probes: stats.unanswered_probes,
            unsent_bytes: stats.unsent_bytes,
        }
    }
}

impl Driving<'_> {
    /// The part of the lane that is driven.
    ///
    /// # Panics
    /// Before the lane's task has started it.
    pub(super) fn driven(&mut self) -> &mut Driven {
        self.driven.as_mut().expect("the task has started it")
    }

    /// Ends the protocol: no call drives the lane any more.
    pub(super) fn end(mut self) {
        let driven = self.driven.take();
        drop(self);
        // The protocol may hold bytes of the application.
        drop(driven);
    }
}

impl Drop for OpenTurn<'_> {
    fn drop(&mut self) {
        if self.0.turn.end() {
            self.0.wake_task();
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

impl Wake for Arrival {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some((shared, lane)) = self.shared.upgrade().zip(self.lane.upgrade()) {
            shared.arrived(&lane);
        }
    }
}

/// The access of a thread that drives a lane to its stream: the state under the lock, and memory.
pub(super) struct Access<'a> {
    shared: &'a Shared,
    lane: &'a ActiveLane,
    is_task: bool,
}

impl<'a> Access<'a> {
    /// The access of the lane's task.
    pub(super) fn on_rail(shared: &'a Shared, lane: &'a ActiveLane) -> Self {
        Self { shared, lane, is_task: true }
    }

    /// The access of a thread of the application.
    fn elsewhere(shared: &'a Shared, lane: &'a ActiveLane) -> Self {
        Self { shared, lane, is_task: false }
    }

    fn act<T>(&self, act: impl FnOnce(&mut Connection) -> T) -> T {
        let act = |state: &mut State| act(&mut state.connection);
        if self.is_task { self.shared.with(act) } else { self.shared.with_inline(act) }
    }
}

impl Stream for Access<'_> {
    type Buffer = ChunkBuffer;

    fn with<T>(&mut self, act: impl FnOnce(&mut Connection) -> T) -> T {
        if !tracing::enabled!(target: TRACE_TARGET, tracing::Level::TRACE) {
            return self.act(act);
        }
        let (result, decisions) = self.act(|connection| connection.traced(act));
        // A decision does not know the name of the stream, so the span adds it.
        let span = tracing::trace_span!(target: TRACE_TARGET, "stream", id = %self.shared.id);
        span.in_scope(|| decisions.iter().for_each(Traced::log));
        result
    }

    fn chunk(&mut self, length: usize) -> ChunkBuffer {
        // The pages come from the node of the thread that writes to them first.
        let node = self.shared.rails()[self.lane.settings.home_rail].runtime().memory_node();
        self.shared.buffers.chunk(node.filter(|_| self.is_task), length)
    }

    fn freeze(buffer: ChunkBuffer) -> Bytes {
        buffer.freeze()
    }

    /// The kernel allocates each page at the first write to it: on the node of the rail that receives it, or, if the
    /// options ask for interleaving, in turn on the nodes of all rails in use.
    fn message(&mut self, length: usize) -> MessageBuffer {
        let nodes = if self.lane.settings.interleaved { self.shared.nodes_in_use() } else { None };
        self.shared.buffers.message(length, nodes.as_ref())
    }

    fn read_ahead(&mut self) -> Box<[u8]> {
        AHEAD.take().unwrap_or_else(|| vec![0; READ_AHEAD].into())
    }

    fn keep_read_ahead(&mut self, memory: Box<[u8]>) {
        AHEAD.set(Some(memory));
    }
}

thread_local! {
    /// The memory in which the lanes of this thread read ahead, one at a time.
    static AHEAD: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// The most bytes, as written or as arrived at once, that the caller's thread moves. A system call for as many takes
/// less time than a switch to another thread and back.
pub(super) const MAX_INLINE: usize = 64 << 10;
/// After this many small arrivals in a row the reader receives the next one.
const SMALL_IN_A_ROW: u32 = 2;
/// After this many small arrivals in a row the reader's runtime reports the next one.
const SMALL_UNTIL_MOVED: u32 = 4;
