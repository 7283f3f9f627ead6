//! Driving a lane: bytes move between its connection and its protocol, on the lane's task or,
//! inline, on a thread of the application.

use super::{
    active_lane::{ActiveLane, Driven, Driving},
    alarm::tick,
    pool::ChunkBuffer,
    shared::{StreamShared, StreamState},
    turn::Word,
    yield_budget::YieldBudget,
};
use bytes::Bytes;
use rails_proto::{
    lane::{LaneError, LaneProtocol, Next, READ_AHEAD, Received, StreamAccess},
    messages::MessageBuffer,
    parameters::TIMER_SLACK,
    policy::{TRACE_TARGET, Traced},
    session::Session,
};
use rails_topo::DataSize;
use std::{
    cell::Cell,
    io,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    task::{Context, Poll, Wake, Waker, ready},
    time::Instant,
};
use tokio::{runtime::Handle, task::coop};

/// The access of a thread that drives a lane to its stream: the state under the lock, and memory.
pub(super) struct Access<'a> {
    shared: &'a StreamShared,
    lane: &'a Arc<ActiveLane>,
    is_task: bool,
}

/// Woken when bytes have arrived on a lane.
#[derive(Debug)]
struct Arrival {
    shared: Weak<StreamShared>,
    lane: Weak<ActiveLane>,
}

impl<'a> Access<'a> {
    /// The access of the lane's task.
    pub(super) fn on_rail(shared: &'a StreamShared, lane: &'a Arc<ActiveLane>) -> Self {
        Self { shared, lane, is_task: true }
    }

    /// The access of a thread of the application.
    pub(super) fn elsewhere(shared: &'a StreamShared, lane: &'a Arc<ActiveLane>) -> Self {
        Self { shared, lane, is_task: false }
    }

    /// Receives on the lane's task.
    pub(super) fn receive(&mut self, driven: &mut Driven, budget: &mut YieldBudget) -> Poll<()> {
        let lane = self.lane;
        if driven.home_again.take_if(|at| *at <= Instant::now()).is_some() {
            lane.handoff.call_home();
        }
        if !lane.handoff.task_receives() {
            return Poll::Pending;
        }
        let is_called = lane.handoff.takes_call_home();
        if is_called || !lane.handoff.is_inline() {
            let outcome = lane.report_to(driven, lane.home());
            if outcome.is_err() && is_called {
                // Mostly the other runtime still reports. Where it does not, the stream's linger bounds the
                // attempts.
                driven.home_again = Some(Instant::now() + TIMER_SLACK);
            }
        }
        let received = self.poll_receive(driven, budget);
        if received.is_ready() {
            lane.handoff.leave_to_task();
        }
        received
    }

    /// Sends frames on the lane's task, as long as there are any and the connection takes them.
    pub(super) fn transmit(&mut self, context: &mut Context<'_>, driven: &mut Driven) {
        let mut end = self.poll_transmit(context, driven, None);
        if let Poll::Ready(Err(error)) = &end
            && self.lane.may_be_of_reader(driven, error)
        {
            let _ = self.lane.report_to(driven, self.lane.home());
            end = self.poll_transmit(context, driven, None);
        }
        if let Poll::Ready(end) = end {
            driven.protocol.close_sending(end.map_err(LaneError::from));
        }
    }

    /// Sends on the caller's thread, without waiting: the task sends the bytes for which the lane
    /// has no room, and a thread that drives the lane sends all.
    pub(super) fn transmit_inline(&mut self) {
        self.drive_inline(Word::SEND, Self::send);
    }

    /// Receives a small arrival on the caller's thread. Leaves a larger one to the task.
    pub(super) fn receive_inline(&mut self) {
        let (shared, lane) = (self.shared, self.lane);
        lane.handoff.reader_comes();
        let received = self.drive_inline(Word::WAKE_TASK, |access, driven| {
            if driven.small >= driven.small_until_moved
                && let Ok(caller) = Handle::try_current()
                && (lane.settings.application == Some(caller.id()) || shared.rail_of(caller.id()).is_some())
            {
                let _ = lane.report_to(driven, caller.id());
            }
            access.poll_receive(driven, &mut YieldBudget::new())
        });
        if received != Some(Poll::Pending) {
            lane.leave_to_task();
        }
    }

    /// Sends on the thread of a caller that has the turn.
    fn send(&mut self, driven: &mut Driven) {
        driven.protocol.wake();
        self.carry_out(driven, None);
    }

    /// Carries out the step that is decided, and those behind it.
    fn carry_out(&mut self, driven: &mut Driven, decided: Option<Next>) {
        let waker = self.lane.task_waker();
        match self.poll_transmit(&mut Context::from_waker(&waker), driven, decided) {
            Poll::Ready(Err(error)) if self.lane.may_be_of_reader(driven, &error) => self.lane.go_home(),
            Poll::Ready(end) => driven.protocol.close_sending(end.map_err(LaneError::from)),
            Poll::Pending => {}
        }
    }

    /// Calls `act` with the lane, unless another thread drives it: that thread gets `word`.
    fn drive_inline<T>(&mut self, word: Word, act: impl FnOnce(&mut Self, &mut Driven) -> T) -> Option<T> {
        let lane = self.lane;
        let mut driving = lane.begin_or_leave(word)?;
        let Some(driven) = driving.started() else {
            // The task sends when it starts.
            lane.wake_task();
            return None;
        };
        let done = act(self, driven);
        self.end_turn(driven);
        Some(done)
    }

    /// Carries out the step that was decided in the turn of the caller, and ends the turn.
    pub(super) fn finish(&mut self, mut driving: Driving<'_>, decided: Next) {
        if let Some(driven) = driving.started() {
            self.carry_out(driven, Some(decided));
            self.end_turn(driven);
        }
    }

    /// Heeds the word of others at the end of a caller's turn, and the lane's next timeout.
    fn end_turn(&mut self, driven: &mut Driven) {
        let lane = self.lane;
        // One more round costs less than a switch to the task's thread. The task sends all that comes
        // later.
        if lane.takes_word_to_send() {
            self.send(driven);
        }
        let at = driven.protocol.poll_timeout(self);
        // A tick is not before its time, and to find it takes a division.
        let is_earlier = at.is_some_and(|at| driven.alarm.is_none_or(|alarm| at < alarm && tick(at) < alarm));
        if is_earlier || driven.protocol.end().is_some() {
            lane.wake_task();
        }
    }

    /// Receives until the socket is empty. Ready when the caller has used up its yield budget.
    fn poll_receive(&mut self, driven: &mut Driven, budget: &mut YieldBudget) -> Poll<()> {
        let mut arrived = 0;
        let received = self.poll_arrivals(driven, budget, &mut arrived);
        if arrived > 0 {
            self.lane.note_arrival(driven, arrived);
            self.shared.note_near(self.lane);
        }
        received
    }

    fn poll_arrivals(&mut self, driven: &mut Driven, budget: &mut YieldBudget, arrived: &mut usize) -> Poll<()> {
        let lane = self.lane;
        let Some(arrival) = lane.arrival() else { return Poll::Pending };
        let context = &mut Context::from_waker(arrival);
        let mut is_spent = false;
        loop {
            let Poll::Ready(ready) = lane.lane.poll_receive_ready(context) else {
                if let Some(bytes) = driven.protocol.take_low_water()
                    && let Err(error) = lane.lane.set_receive_low_water(DataSize::bytes(bytes as u64))
                {
                    driven.protocol.close_receiving(Instant::now(), self, Err(error.into()));
                }
                return Poll::Pending;
            };
            if let Err(error) = ready {
                // If a reader's runtime reports, it is shutting down. The task takes the lane home, if it has not
                // tried that.
                if driven.reports != lane.home() && (!self.is_task || lane.handoff.is_inline()) {
                    lane.handoff.set_inline(false);
                    return Poll::Ready(());
                }
                driven.protocol.close_receiving(Instant::now(), self, Err(error.into()));
                return Poll::Pending;
            }
            if is_spent {
                return Poll::Ready(());
            }
            let mut read = 0;
            let received = driven.protocol.receive(Instant::now(), self, |buffers| {
                let outcome = lane.lane.try_receive(buffers);
                read = *outcome.as_ref().unwrap_or(&0);
                outcome
            });
            *arrived += read;
            match received {
                Received::Some { chunks, bytes } => {
                    if chunks > 0 {
                        lane.metrics.received.count(chunks, bytes);
                    }
                    self.shared.buffers.make_room();
                    is_spent |= budget.spend(read as u64);
                }
                Received::Nothing => {}
                Received::End => return Poll::Pending,
            }
        }
    }

    /// Carries out the step that is decided, and those behind it. Ready when the sending side is
    /// closed, or fails.
    fn poll_transmit(
        &mut self,
        context: &mut Context<'_>,
        driven: &mut Driven,
        mut decided: Option<Next>,
    ) -> Poll<io::Result<()>> {
        let lane = self.lane;
        if let Some(lending) = &mut driven.lending
            && let Some(back) = ready!(lending.take_back(&mut driven.protocol))?
        {
            lane.metrics.helped.fetch_add(back.is_helped.into(), Relaxed);
            back.sent.into_iter().for_each(|length| lane.metrics.sent.count(1, length.into()));
        }
        let mut has_room = false;
        loop {
            let next = decided.take().unwrap_or_else(|| driven.protocol.transmit(Instant::now(), self, has_room));
            match next {
                Next::AwaitRoom => {
                    ready!(lane.lane.poll_room(context))?;
                    has_room = true;
                }
                Next::Submit { unsent_limit } => {
                    has_room = false;
                    if let Some(bytes) = unsent_limit {
                        lane.lane.limit_unsent(DataSize::bytes(bytes))?;
                    }
                    if let Some(lending) = &mut driven.lending
                        && driven.reports == lane.home()
                        && lending.lend(Instant::now(), &mut driven.protocol)
                    {
                        lane.wake_task();
                        return Poll::Pending;
                    }
                    ready!(self.poll_submit(context, &mut driven.protocol))?;
                    if driven.protocol.is_at_rest() {
                        return Poll::Pending;
                    }
                }
                Next::Idle => return Poll::Pending,
                Next::Close => return Poll::Ready(lane.lane.close_write()),
            }
        }
    }

    /// Submits outgoing bytes to the connection once, as many as it takes.
    fn poll_submit(&self, context: &mut Context<'_>, protocol: &mut LaneProtocol<ChunkBuffer>) -> Poll<io::Result<()>> {
        // A lane that always has bytes must not starve the other tasks of its thread.
        let budget = ready!(coop::poll_proceed(context));
        loop {
            let (control, payload) = protocol.outgoing();
            match self.lane.lane.try_submit(control, payload) {
                Ok(bytes) => {
                    budget.made_progress();
                    if let Some(length) = protocol.submitted(bytes) {
                        self.lane.metrics.sent.count(1, length.into());
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.lane.lane.poll_submit_ready(context))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn act<T>(&self, act: impl FnOnce(&mut Session) -> T) -> T {
        let act = |state: &mut StreamState| act(&mut state.session);
        if self.is_task { self.shared.with(act) } else { self.shared.with_inline(act) }
    }
}

/// Whether the log takes the decisions of the scheduler.
pub(super) fn logs_decisions() -> bool {
    tracing::enabled!(target: TRACE_TARGET, tracing::Level::TRACE)
}

/// The waker that hears of a lane's arrivals.
pub(super) fn arrival_waker(shared: &Arc<StreamShared>, lane: &Arc<ActiveLane>) -> Waker {
    Waker::from(Arc::new(Arrival { shared: Arc::downgrade(shared), lane: Arc::downgrade(lane) }))
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

impl StreamAccess for Access<'_> {
    type Buffer = ChunkBuffer;

    fn with<T>(&mut self, act: impl FnOnce(&mut Session) -> T) -> T {
        if !logs_decisions() {
            return self.act(act);
        }
        let (result, decisions) = self.act(|session| session.traced(act));
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

    /// The kernel allocates each page at the first write to it: on the node of the rail that
    /// receives it, or, if the options ask for interleaving, in turn on the nodes of all rails
    /// in use.
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
