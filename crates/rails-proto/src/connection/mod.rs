//! One end of one stream: both directions, all of its lanes.
//!
//! The driver calls [`Connection::lane_up`] when a lane has joined, and [`Connection::lane_down`] when it has ended. In between, the lane's
//! [protocol](crate::lane) makes all calls for it. One task for all lanes calls [`Connection::handle_timeout`] at the time that
//! [`Connection::poll_timeout`] names, and takes the [events](Connection::poll_event).
//!
//! The application writes, finishes, reads. **After each call, the driver wakes every lane and task that [`Connection::take_wakes`] names**:
//! so written bytes find an idle lane, and a window that opens finds the writer.

mod application;
mod ending;
mod event;
mod failure;
mod figures;
#[cfg(test)]
mod fixture;
mod health;
mod incoming;
mod lane;
mod membership;
mod messages;
mod outage;
mod paths;
mod stalls;
mod standstill;
mod timeouts;
mod unused;
mod wakes;

pub(crate) use ending::FAREWELL;
pub use event::{Event, EventKind, StallCause};
pub use failure::Failure;
pub use figures::{Figures, LaneFigures, Reordered, WindowUse};
pub use health::LinkSample;
pub use lane::{LaneTimeouts, NoLane};
pub use messages::NotForMessages;
pub use paths::{LaneEnd, Refused};
pub use stalls::{LaneTimes, Stalls};
pub use standstill::{LaneProgress, LaneState, StandstillCause};
pub(crate) use wakes::NEEDS_NO_ROOM;
pub use wakes::Wakes;

pub use crate::{
    reassembler::Admission,
    scheduler::{ByteCount, LaneTraits, Reissued},
};

use crate::{
    chunk::Chunk,
    parameters::TransportParameters,
    policy::{StripePolicy, Traced},
    record::Record,
    scheduler::Scheduler,
    violation::Violation,
    wire::{Ack, DataHeader, FRAME_LEN, Frame, ResetReason},
};
use bytes::Bytes;
use ending::Ending;
use incoming::Incoming;
use lane::Lane;
use outage::Outage;
use paths::Paths;
use serde::Serialize;
use stalls::Clocks;
use standstill::Standstill;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// A lane's slot at this end of its stream, below [`MAX_LANES`](crate::parameters::MAX_LANES): the lowest that was free when the lane joined. When the lane has ended, a later lane
/// gets the slot. Scheduler, policy and record know a lane by its slot. [`LaneTraits::number`] stays the same in all of a lane's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LaneId(pub usize);

/// The settings of one end of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The longest chunk that this end sends, in bytes; the peer may ask for shorter ones.
    pub longest_chunk: usize,
    /// The number of bytes that may wait for a lane.
    pub send_buffer: usize,
    /// How far behind the first byte that the peer has not acknowledged this end may send, even if the peer's window is larger: this end keeps these bytes,
    /// and the peer chooses both its window and when it acknowledges.
    pub max_unacknowledged: u64,
    /// The parameters that this end tells its peer.
    pub parameters: TransportParameters,
    /// How long the stream waits without a usable lane before it fails, however it lost the last one.
    pub outage_limit: Duration,
    /// For how long the lanes still deliver written bytes after the application has dropped the stream.
    pub linger: Duration,
}

/// One end of one stream. The [module](self) describes how a driver uses it.
#[derive(Debug)]
pub struct Connection {
    scheduler: Scheduler,
    incoming: Incoming,
    lanes: Vec<Lane>,
    /// The slot of the lane that waiting bytes go to first: the one on which the latest chunk has arrived; before any has, the one that the writer
    /// prefers.
    answering: Option<usize>,
    ending: Ending,
    outage: Outage,
    paths: Paths,
    events: VecDeque<Event>,
    wakes: Wakes,
    clocks: Clocks,
    standstill: Standstill,
    /// The most bytes of the peer's window in use so far.
    max_window_used: u64,
}

/// The next step of a lane with room.
#[derive(Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Send the appended control frames, then this chunk if there is one.
    Send(Option<Chunk>),
    /// Nothing to send until the stream wakes the lane, or an [acknowledgement](LaneTimeouts::acknowledge) is due.
    Idle,
    /// Nothing more to send at all: close the sending side, and read on until the peer has closed its own.
    Close,
}

impl Connection {
    /// Creates one end of a stream, without lanes. It shares its bytes out by `policy`; `theirs` are the peer's parameters.
    pub fn new(config: Config, policy: Box<dyn StripePolicy>, theirs: TransportParameters) -> Self {
        let longest_chunk = config.longest_chunk.min(theirs.longest_chunk as usize);
        Self {
            scheduler: Scheduler::new(
                policy,
                longest_chunk,
                config.send_buffer,
                config.max_unacknowledged,
                theirs.window,
            ),
            incoming: Incoming::new(config.parameters),
            lanes: Vec::new(),
            ending: Ending::new(config.linger),
            answering: None,
            outage: Outage::new(config.outage_limit),
            paths: Paths::default(),
            events: VecDeque::new(),
            wakes: Wakes::default(),
            clocks: Clocks::default(),
            standstill: Standstill::default(),
            max_window_used: 0,
        }
    }

    /// Keeps the newest `capacity` scheduling decisions of this end from here on; see [`record`](crate::record).
    pub fn record_decisions(&mut self, capacity: usize) {
        self.scheduler.record_decisions(capacity);
    }

    /// Takes the decisions since the last call. `None` if this end keeps none.
    pub fn take_record(&mut self) -> Option<Record> {
        self.scheduler.take_record()
    }

    /// Calls `act`, and returns the decisions that it made, for the log.
    pub fn traced<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> (T, Vec<Traced>) {
        self.scheduler.trace();
        let result = act(self);
        (result, self.scheduler.take_traced())
    }

    /// This end's window.
    pub fn window(&self) -> u64 {
        self.incoming.window()
    }

    /// The memory of bytes that have arrived or begun to arrive, and that the application has not read: at most the window, and the overhead of
    /// each chunk.
    pub fn memory_held(&self) -> u64 {
        self.incoming.memory_held()
    }

    // The lanes' side.

    /// Whether `lane` takes a chunk only once its connection has room.
    pub fn needs_room(&self, lane: LaneId) -> bool {
        !self.has_failed() && self.in_flight(lane) >= NEEDS_NO_ROOM && self.scheduler.buffer().may_give(lane.0)
    }

    /// The next step of `lane`, which has room. Control frames are appended to `control` and go first.
    pub fn poll_transmit(&mut self, now: Instant, lane: LaneId, control: &mut Vec<u8>) -> Transmit {
        self.lanes[lane.0].called = false;
        if let Some(failure) = self.ending.failure() {
            let state = &mut self.lanes[lane.0];
            return match failure.reset_reason() {
                Some(reason) if !state.reset_sent => {
                    state.reset_sent = true;
                    control.extend_from_slice(&Frame::Reset(reason).encode());
                    Transmit::Send(None)
                }
                _ => Transmit::Close,
            };
        }
        let stopped = self.say_stop(lane, control);
        let mut chunk = self.scheduler.take(now, lane.0);
        let is_used = chunk.is_some();
        if !is_used && self.is_to_be_tried(lane) {
            chunk = self.scheduler.probe(now, lane.0);
        }
        // An acknowledgement goes out with a chunk even if it could wait.
        let acknowledged = self.acknowledge(now, lane, chunk.is_some(), control);
        let left = self.lanes[lane.0].leaving && self.say_leave(lane, control);
        if chunk.is_some() || acknowledged || left || stopped {
            // There may be more for another lane that is idle.
            self.wake_idle_lanes(now);
            if chunk.is_some() {
                if is_used {
                    self.was_used(now, lane);
                    self.stand_by(now);
                }
                self.expect_answer(now, lane);
                self.max_window_used = self.max_window_used.max(self.scheduler.buffer().window_used());
            }
            self.observe(now);
            return Transmit::Send(chunk);
        }
        let state = &mut self.lanes[lane.0];
        let has_left = state.leave_sent == Some(true) && state.other_drained && state.since.is_none();
        if self.is_done() || has_left {
            return Transmit::Close;
        }
        let state = &mut self.lanes[lane.0];
        state.idle = true;
        self.scheduler.lane_mut(lane.0).rest(now);
        self.stand_by_or_down(now, lane);
        self.observe(now);
        Transmit::Idle
    }

    /// The longest chunk that the scheduler gives `lane`, which follows the lane's rate. About as much should wait in the kernel.
    pub fn chunk_length(&self, lane: LaneId) -> usize {
        self.scheduler.chunk_length(lane.0)
    }

    /// How many bytes are in flight on `lane`.
    pub fn in_flight(&self, lane: LaneId) -> u64 {
        self.scheduler.lane(lane.0).in_flight()
    }

    /// Checks the header of a data frame, before the driver takes memory for the payload.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn admit(&mut self, now: Instant, header: &DataHeader) -> Result<Admission, Violation> {
        // Check this even after the stream is over: the driver takes memory for an admitted chunk.
        self.or_fail(now, self.incoming.check_length(header))?;
        if self.takes_nothing() {
            return Ok(Admission::Duplicate);
        }
        let admission = self.incoming.admit(header);
        self.or_fail(now, admission)
    }

    /// Takes a chunk that has arrived whole on `lane`, with a right checksum.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn handle_data(
        &mut self,
        now: Instant,
        lane: LaneId,
        header: &DataHeader,
        payload: Bytes,
    ) -> Result<(), Violation> {
        if self.takes_nothing() {
            return Ok(());
        }
        self.or_fail(now, self.incoming.check_length(header))?;
        let was_complete = self.incoming.is_complete();
        let inserted = self.incoming.insert(header, payload);
        self.or_fail(now, inserted)?;
        self.has_arrived(now, lane, header.length, was_complete);
        Ok(())
    }

    /// Counts a chunk that has arrived whole on `lane`, and has it acknowledged.
    fn has_arrived(&mut self, now: Instant, lane: LaneId, length: u32, was_complete: bool) {
        self.answering = Some(lane.0);
        let state = &mut self.lanes[lane.0];
        state.chunks += 1;
        state.arrived_at = Some(now);
        state.unacknowledged += u64::from(length);
        // On a busy machine the timer of an idle lane may be late.
        let due = state.owes_acknowledgement(now, self.incoming.window());
        state.since.get_or_insert(now);
        if due {
            self.wake(lane);
        }
        self.has_been_heard(now, lane);
        if self.incoming.is_complete() && !was_complete {
            self.wake_all_lanes();
        }
        self.refuse_what_came();
        self.wakes.reader |= self.incoming.is_readable() || self.incoming.is_finished();
        self.wakes.writer |= self.is_done();
        self.wakes.supervisor |= self.is_done();
        match self.incoming.count_arrival() {
            0 => self.has_moved(now, now),
            again => self.lanes[lane.0].duplicates.add(again),
        }
        self.observe(now);
    }

    /// Takes an acknowledgement that has arrived on `lane`.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn handle_ack(&mut self, now: Instant, lane: LaneId, ack: &Ack) -> Result<(), Violation> {
        // A late acknowledgement changes nothing: the application knows that the stream failed, or that the peer reads no more.
        if self.has_failed() || self.ending.is_stopped() {
            return Ok(());
        }
        let was_stalled = self.is_stalled(lane);
        let before = self.scheduler.buffer().delivered();
        let handled = self.scheduler.handle_ack(now, lane.0, ack);
        self.or_fail(now, handled)?;
        if self.scheduler.buffer().delivered() != before {
            self.has_moved(now, now);
        }
        if was_stalled && !self.scheduler.lane(lane.0).is_stalled() {
            self.has_answered(now, lane);
        } else if self.outage.is_ongoing() {
            self.watch_for_outage(now);
        }
        self.wake_idle_lanes(now);
        if self.scheduler.lags(now, lane.0) {
            self.wake_all_lanes();
        }
        if self.scheduler.buffer().is_complete() {
            self.wakes.writer = true;
            self.wakes.supervisor = true;
        }
        if self.lanes[lane.0].leaving {
            self.wake(lane);
        }
        if self.is_done() {
            self.wake_all_lanes();
        }
        self.observe(now);
        Ok(())
    }

    /// The peer has reset the stream.
    pub fn handle_reset(&mut self, now: Instant, reason: ResetReason) {
        if !self.is_over() {
            self.fail(now, Failure::Reset(reason));
        }
    }

    /// The peer's application reads nothing from the offset `read` on.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn handle_stop(&mut self, now: Instant, read: u64) -> Result<(), Violation> {
        if self.has_failed() || self.is_sending_over() {
            return Ok(());
        }
        let unread = self.scheduler.buffer_mut().give_up(read);
        let unread = self.or_fail(now, unread)?;
        self.ending.stop(unread);
        self.watch_for_outage(now);
        self.wakes.writer = true;
        self.wakes.supervisor = true;
        self.wake_all_lanes();
        self.observe(now);
        Ok(())
    }

    /// Appends `Stop` if this end has to tell the peer, once on each lane.
    pub(super) fn say_stop(&mut self, lane: LaneId, control: &mut Vec<u8>) -> bool {
        let Some(read) = self.ending.refused_from() else { return false };
        let news = !std::mem::replace(&mut self.lanes[lane.0].stop_sent, true);
        if news {
            control.extend_from_slice(&Frame::Stop { read }.encode());
        }
        news
    }

    /// Refuses new bytes if the application reads no more. A copy that a lost or slow lane causes does not count: the application has read its
    /// bytes.
    pub(super) fn refuse_what_came(&mut self) {
        if self.ending.nobody_reads() && self.incoming.bytes_held() > 0 {
            self.refuse(0);
        }
    }

    /// A lane has acknowledged all that has arrived on it.
    pub(super) fn has_acknowledged(&mut self) {
        self.wakes.supervisor |= self.ending.is_dropped();
    }

    /// The lanes and tasks to wake since the last call.
    #[must_use = "the lanes and tasks that it names wait for a wake"]
    pub fn take_wakes(&mut self) -> Wakes {
        self.wakes.supervisor |= self.standstill.take_news();
        self.wakes.take()
    }

    /// As [`take_wakes`](Self::take_wakes), without the lanes that are to stand by and without a timer of the stream,
    /// which a later call names: for a driver that lets a lane send at once, after which the stream may not need them.
    #[must_use = "the lanes and tasks that it names wait for a wake"]
    pub fn take_urgent_wakes(&mut self) -> Wakes {
        self.wakes.take_urgent()
    }

    /// How many bytes the application has written, and how many of them the peer has read as far as this end knows.
    pub fn sent(&self) -> (u64, u64) {
        (self.scheduler.unsent().bytes_written(), self.scheduler.window().consumed())
    }

    /// How many bytes lanes have taken more than once.
    pub fn bytes_sent_again(&self) -> u64 {
        self.scheduler.flight().reissued().total().bytes
    }

    /// How many bytes the application has read, and how many arrived more than once.
    pub fn received(&self) -> (u64, u64) {
        (self.incoming.bytes_read(), self.incoming.bytes_duplicated())
    }

    /// Whether the stream has failed.
    fn has_failed(&self) -> bool {
        self.ending.has_failed()
    }

    /// Whether the stream has failed, or both directions have come to their end.
    fn is_over(&self) -> bool {
        self.has_failed() || self.is_done()
    }

    /// Whether this end takes no more of the bytes that still arrive.
    fn takes_nothing(&self) -> bool {
        self.has_failed() || self.ending.refuses()
    }

    fn is_receiving_over(&self) -> bool {
        self.incoming.is_complete() || self.ending.refuses()
    }

    /// The time to linger is over.
    fn end_lingering(&mut self, now: Instant) {
        if self.is_sending_over() {
            self.refuse(0);
        } else {
            self.fail(now, Failure::Dropped);
        }
    }

    fn is_any_up(&self) -> bool {
        self.lanes().next().is_some()
    }

    fn is_done_without_lanes(&self) -> bool {
        self.is_done() && !self.has_failed() && !self.is_any_up()
    }

    fn or_fail<T>(&mut self, now: Instant, result: Result<T, Violation>) -> Result<T, Violation> {
        if let Err(violation) = &result
            && !self.has_failed()
        {
            self.fail(now, Failure::Violation(violation.clone()));
        }
        result
    }

    fn fail(&mut self, now: Instant, failure: Failure) {
        self.ending.fail(failure);
        self.abandon(now);
        self.wakes.supervisor = true;
        self.wakes.reader = true;
        self.wakes.writer = true;
        self.wake_all_lanes();
    }
}

/// The length of a control frame, so that a driver can size its buffer.
pub const CONTROL_LEN: usize = FRAME_LEN;
