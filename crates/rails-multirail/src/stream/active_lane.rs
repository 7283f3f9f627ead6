//! A lane that has joined: its connection, its protocol, and the turns of the threads that drive
//! it.

use super::{
    handoff::Handoff,
    lane_metrics::LaneMetrics,
    lending::Lending,
    pool::ChunkBuffer,
    turn::{Turn, Word},
};
use crate::RailId;
use rails_net::Lane;
use rails_proto::{
    lane::{LaneProtocol, TransportSample},
    seal::Seals,
    session::{LaneId, LinkSample},
};
use rails_task::Helpers;
use rails_topo::DataSize;
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Wake, Waker},
    time::Instant,
};
use tokio::{runtime, sync::Notify};

/// A lane that has joined. Its task on its rail drives it. A call of the application drives it too,
/// inline: a small write is sent, and a small arrival received, on the caller's thread, without a
/// switch to the rail's.
///
/// Task and callers take [turns](Turn), and wait for none: a thread that finds the turn taken
/// leaves word with the thread that has it. The lock of the protocol is taken in a turn, and before
/// the lock of the stream, never after it.
#[derive(Debug)]
pub(crate) struct ActiveLane {
    pub(crate) id: LaneId,
    pub(crate) lane: Arc<dyn Lane>,
    pub(crate) metrics: Arc<LaneMetrics>,
    /// Notified when the lane has stalled.
    pub(crate) stalled: Arc<Notify>,
    pub(super) settings: LaneSettings,
    turn: Turn,
    /// `None` before the lane's task starts and after it has ended. Only a task that ends with its
    /// runtime may find it locked.
    driven: Mutex<Option<Driven>>,
    /// Wakes the lane's task.
    task: Arc<TaskWaker>,
    /// Woken when bytes have arrived.
    arrival: OnceLock<Waker>,
    pub(super) handoff: Handoff,
}

/// The part of a lane that one thread at a time drives.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) protocol: LaneProtocol<ChunkBuffer>,
    /// The chunks that other cores of the rail send, if it has them.
    pub(super) lending: Option<Lending>,
    /// The time for which the task has set its timer, if it has.
    pub(super) alarm: Option<Instant>,
    /// The number of small arrivals in a row, and after how many of them the reader's runtime
    /// reports the next one: after more from one move to the next, as readers of several runtimes
    /// may take turns.
    pub(super) small: u32,
    pub(super) small_until_moved: u32,
    /// The number of arrivals in a row that ended inside a chunk.
    pieces: u32,
    /// The runtime that reports arrivals.
    pub(super) reports: runtime::Id,
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

impl ActiveLane {
    pub(super) fn new(id: LaneId, lane: Arc<dyn Lane>, metrics: Arc<LaneMetrics>, settings: LaneSettings) -> Arc<Self> {
        let (stalled, driven, task, arrival) = Default::default();
        let (turn, handoff) = (Turn::new(), Handoff::new());
        Arc::new(Self { id, lane, metrics, stalled, settings, turn, driven, task, arrival, handoff })
    }

    /// Starts the protocol, on the lane's rail. Before this, the handshake has the connection.
    /// `arrival` is woken when bytes have arrived.
    pub(super) fn start(&self, arrival: Waker, seals: Option<Seals>) {
        let max_unsent = self.lane.max_unsent().map(DataSize::as_bytes);
        self.arrival.get_or_init(|| arrival);
        let protocol = LaneProtocol::new(self.id, seals, max_unsent);
        let lending = Helpers::current().map(|helpers| Lending::new(helpers, self.lane.clone(), self.task_waker()));
        let (alarm, home_again, reports) = (None, None, self.home());
        *self.lock() = Some(Driven {
            protocol,
            lending,
            alarm,
            small: 0,
            small_until_moved: SMALL_UNTIL_MOVED,
            pieces: 0,
            reports,
            home_again,
        });
    }

    /// The waker for arrivals, once the lane has started.
    pub(super) fn arrival(&self) -> Option<&Waker> {
        self.arrival.get()
    }

    /// The waker of the lane's task.
    pub(super) fn task_waker(&self) -> Waker {
        Waker::from(self.task.clone())
    }

    /// The runtime of the lane's task.
    pub(super) fn home(&self) -> runtime::Id {
        self.settings.home
    }

    /// Ends the protocol, unless it has [ended](Driving::end): no call drives the lane any more.
    /// Waits for a caller that drives it, as only a task does that ends with its runtime.
    pub(super) fn stop(&self) {
        let driven = self.lock().take();
        // The protocol may hold bytes of the application.
        drop(driven);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Driven>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a turn with the lane. If another thread drives it, leaves that thread `word`, and
    /// returns `None`.
    pub(super) fn begin_or_leave(&self, word: Word) -> Option<Driving<'_>> {
        self.turn.begin_or_leave(word).then(|| Driving { driven: self.lock(), _turn: OpenTurn(self) })
    }

    /// The lane for its task. A thread that drives it wakes the task at its end.
    pub(super) fn drive(&self) -> Option<Driving<'_>> {
        self.begin_or_leave(Word::WAKE_TASK)
    }

    /// Has the task drive the lane once more, after the turn of a thread that drives it.
    pub(super) fn wake_task(&self) {
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

    /// Whether the lane has something to send, as others have told the calling thread, which has
    /// the turn.
    pub(super) fn takes_word_to_send(&self) -> bool {
        self.turn.take(Word::SEND)
    }

    /// Waits until the task is to drive the lane once more.
    pub(super) async fn woken(&self) {
        self.task.0.notified().await;
    }

    /// Has the task receive.
    pub(super) fn leave_to_task(&self) {
        self.handoff.leave_to_task();
        self.wake_task();
    }

    /// Whether the task watches whether the reader comes for the arrivals that it was passed.
    pub(super) fn is_watched(&self) -> bool {
        self.handoff.is_watched()
    }

    /// Ends a period of that watch, before the task receives. Returns whether another period
    /// begins.
    pub(super) fn end_period(&self) -> bool {
        self.handoff.end_period()
    }

    /// Whether a reader that waits receives the next arrival. A thread that drives the lane and is
    /// woken by itself polls the socket busily, and goes on with it.
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

    /// Has the task take the lane back to its rail's runtime: the reader's is shutting down, or
    /// there is no reader any more.
    pub(super) fn go_home(&self) {
        self.handoff.call_home();
        self.wake_task();
    }

    /// Whether an error may be that of a reader's runtime which is shutting down, and not the
    /// connection's. The connection tells an error of the operating system once, so that one is
    /// not to be lost.
    pub(super) fn may_be_of_reader(&self, driven: &Driven, error: &io::Error) -> bool {
        driven.reports != self.home() && error.raw_os_error().is_none()
    }

    /// Has the calling runtime report arrivals. On an error the other one still does.
    pub(super) fn report_to(&self, driven: &mut Driven, caller: runtime::Id) -> io::Result<()> {
        // A helper may be in the middle of a call, which the registration would wait for. It is in one only
        // while the lane is at home.
        if driven.reports == caller || driven.lending.as_ref().is_some_and(Lending::is_lent) {
            return Ok(());
        }
        if let Err(error) = self.lane.register_here() {
            tracing::debug!(%error, "a lane stays with its runtime");
            driven.small = driven.small.min(SMALL_IN_A_ROW);
            return Err(error);
        }
        (driven.reports, driven.small) = (caller, SMALL_IN_A_ROW);
        if caller != self.home() {
            driven.small_until_moved = driven.small_until_moved.saturating_mul(2).min(MAX_UNTIL_MOVED);
        }
        // The new registration has no wakers yet, and the task may wait for room.
        self.leave_to_task();
        Ok(())
    }

    /// Notes the number of bytes that have arrived at once: it decides whether the reader or the
    /// task receives the next ones.
    pub(super) fn note_arrival(&self, driven: &mut Driven, arrived: usize) {
        let protocol = &mut driven.protocol;
        // A small message may come in two pieces. Bulk data comes in many, and chunks are short on a slow
        // lane.
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

    /// The transport's figures in the protocol's form.
    pub(super) fn sample(&self) -> TransportSample {
        let Ok(stats) = self.lane.stats() else { return TransportSample::default() };
        TransportSample {
            link: LinkSample { rtt: stats.rtt, rtt_variation: stats.rtt_variation, min_rtt: stats.min_rtt },
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
    /// The part of the lane that is driven, from the start of the lane's task to its end.
    pub(super) fn started(&mut self) -> Option<&mut Driven> {
        self.driven.as_mut()
    }

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

/// The most bytes, as written or as arrived at once, that the caller's thread moves. A system call
/// for as many takes less time than a switch to another thread and back.
pub(super) const MAX_INLINE: usize = 64 << 10;
/// After this many small arrivals in a row the reader receives the next one.
const SMALL_IN_A_ROW: u32 = 2;
/// After this many small arrivals in a row the reader's runtime reports the next one, at first and
/// at the most.
const SMALL_UNTIL_MOVED: u32 = 4;
const MAX_UNTIL_MOVED: u32 = 4096;
