//! One end of one stream: both directions, all of its lanes.
//!
//! The driver calls [`Connection::lane_up`] when a lane has joined, and [`Connection::lane_down`] when it has ended. In between, the lane's
//! [protocol](crate::lane) makes all calls for it. One task for all lanes calls [`Connection::handle_timeout`] at the time that
//! [`Connection::poll_timeout`] names, and takes the [events](Connection::poll_event).
//!
//! The application writes, finishes, reads. **After each call, the driver wakes every lane and task that [`Connection::take_wakes`] names**:
//! so written bytes find an idle lane, and a window that opens finds the writer.

mod ending;
mod event;
mod figures;
#[cfg(test)]
mod fixture;
mod health;
mod incoming;
mod lane;
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
    parameters::{MAX_LANES, TransportParameters},
    policy::{StripePolicy, Traced},
    record::Record,
    scheduler::Scheduler,
    violation::{Form, Violation},
    wire::{Ack, DataHeader, FRAME_LEN, Frame, ResetReason},
};
use bytes::Bytes;
use ending::Ending;
use figures::Peaks;
use incoming::Incoming;
use lane::{Lane, LastAckSent};
use outage::Outage;
use paths::Paths;
use serde::Serialize;
use stalls::Clocks;
use standstill::Standstill;
use std::{
    collections::VecDeque,
    io,
    time::{Duration, Instant},
};

/// A lane's slot at this end of its stream, below [`MAX_LANES`]: the lowest that was free when the lane joined. When the lane has ended, a later lane
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
    /// Bytes or messages, once the application has chosen.
    form: Option<Form>,
    parameters: TransportParameters,
    lanes: Vec<Lane>,
    /// The slot of the lane that waiting bytes go to first: the one on which the latest chunk has arrived; before any has, the one that the writer
    /// prefers.
    answering: Option<usize>,
    ending: Ending,
    /// The failure of the stream.
    failure: Option<Failure>,
    outage_limit: Duration,
    /// `None` while a usable lane delivers, or has nothing to deliver.
    outage: Option<Outage>,
    paths: Paths,
    events: VecDeque<Event>,
    wakes: Wakes,
    clocks: Clocks,
    standstill: Standstill,
    peaks: Peaks,
    /// Bytes and chunks that have arrived more than once.
    duplicates: ByteCount,
}

/// The reason why a stream has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The peer reset the stream.
    #[error("{0}")]
    Reset(ResetReason),
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(Violation),
    /// The last lane was lost.
    #[error(
        "the last lane was lost with {unacknowledged} bytes sent and not acknowledged, {delivered} bytes received in \
         order{}",
        if self.suggests_large_packets_lost() {
            format!(
                "; {joined_in_vain} lanes joined meanwhile, and nothing was acknowledged on them: the path probably \
                 carries small packets and swallows large ones, which `sysctl net.ipv4.tcp_mtu_probing=1` at both ends \
                 or a smaller TCP segment avoids"
            )
        } else {
            String::new()
        }
    )]
    LanesLost {
        /// Bytes in flight. Whether they arrived is unknown.
        unacknowledged: u64,
        /// Bytes from the peer that arrived in order. The application can still read those that it has not read.
        delivered: u64,
        /// The number of lanes that joined after the last usable one was lost, and on which the peer acknowledged
        /// nothing.
        joined_in_vain: u32,
    },
    /// The peer has dropped the stream, or its receiving half, and reads no more. The application can still read the peer's bytes.
    #[error("the peer dropped the stream and has not read {unread} of the bytes that were written")]
    Stopped {
        /// The number of written bytes that the peer has not read.
        unread: u64,
    },
    /// This end gave the stream up.
    #[error("this end gave the stream up")]
    Dropped,
    /// Every runtime that drives the stream at this end has stopped.
    #[error("the runtimes that drive the stream have stopped")]
    RuntimeStopped,
}

impl Failure {
    /// Whether the path probably carries small packets and swallows large ones (a wrong MTU, and no ICMP that says so):
    /// handshakes passed again and again, and more than one packet of bytes did not.
    pub fn suggests_large_packets_lost(&self) -> bool {
        // Every path of IPv6 carries packets of 1,280 bytes (RFC 8200, section 5).
        matches!(self, Self::LanesLost { unacknowledged: 1281.., joined_in_vain: 2.., .. })
    }

    /// The kind of error that a TCP connection returns in the same case.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Reset(_) | Self::LanesLost { .. } => io::ErrorKind::ConnectionReset,
            Self::Violation(_) => io::ErrorKind::InvalidData,
            Self::Stopped { .. } | Self::Dropped | Self::RuntimeStopped => io::ErrorKind::BrokenPipe,
        }
    }
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
            incoming: Incoming::new(config.parameters.window),
            form: None,
            parameters: config.parameters,
            lanes: Vec::new(),
            ending: Ending::new(config.linger),
            answering: None,
            failure: None,
            outage_limit: config.outage_limit,
            outage: None,
            paths: Paths::default(),
            events: VecDeque::new(),
            wakes: Wakes::default(),
            clocks: Clocks::default(),
            standstill: Standstill::default(),
            peaks: Peaks::default(),
            duplicates: ByteCount::default(),
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
        self.parameters.window
    }

    /// The memory of bytes that have arrived or begun to arrive, and that the application has not read: at most the window, and the overhead of
    /// each chunk.
    pub fn memory_held(&self) -> u64 {
        self.incoming.memory_held()
    }

    // The application's side.

    /// How many bytes the application may write now.
    pub fn writable_bytes(&self) -> usize {
        self.scheduler.writable_bytes()
    }

    /// Takes bytes to send, at most [`Connection::writable_bytes`].
    pub fn write(&mut self, now: Instant, bytes: Bytes) {
        self.use_for_bytes(now);
        self.scheduler.write(bytes);
        self.wake_idle_lanes(now);
        self.observe_application(now);
    }

    /// The application will write no more.
    pub fn finish(&mut self, now: Instant) {
        self.scheduler.finish();
        self.wake_idle_lanes(now);
        self.observe_application(now);
    }

    /// Whether [`Connection::finish`] was called.
    pub fn is_finished(&self) -> bool {
        self.scheduler.is_finished()
    }

    /// Takes the next bytes in order. `None` if there are none yet, or [no more](Connection::is_read).
    pub fn read(&mut self, now: Instant) -> Option<Bytes> {
        self.use_for_bytes(now);
        let bytes = self.incoming.read()?;
        self.has_moved(now, now);
        self.tell_the_limit();
        self.observe_application(now);
        Some(bytes)
    }

    /// Whether bytes or a message have arrived that the application has not taken.
    pub fn is_readable(&self) -> bool {
        self.incoming.is_readable()
    }

    /// Whether the application has read every byte that the peer wrote.
    pub fn is_read(&self) -> bool {
        self.incoming.is_finished()
    }

    /// The failure of the stream, if it has failed. The application can still read the bytes that have arrived in order.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    // The lanes' side.

    /// A lane has joined. It replaces an earlier connection with its number. If that connection was leaving the stream, the new one leaves too,
    /// and tells the peer.
    ///
    /// # Errors
    /// [`NoLane`]. Even if the stream has too many lanes, an earlier connection with the number ends.
    pub fn lane_up(&mut self, now: Instant, traits: LaneTraits) -> Result<LaneId, NoLane> {
        // A stream that is done may still owe the peer its last acknowledgement.
        if self.failure.is_some() {
            return Err(NoLane::StreamOver);
        }
        let is_leaving = self.replace(traits.number);
        let free = self.lanes.iter().position(|lane| !lane.up).unwrap_or(self.lanes.len());
        if free >= MAX_LANES {
            return Err(NoLane::Full);
        }
        if free == self.lanes.len() {
            self.lanes.push(Lane::default());
        }
        let last_ack = LastAckSent { limit: self.parameters.window, ..LastAckSent::default() };
        self.lanes[free] = Lane { up: true, last_ack, ..Lane::default() };
        self.paths.up(traits.number);
        self.scheduler.lane_up(free, traits);
        self.has_returned();
        self.tell(now, Some(LaneId(free)), EventKind::Joined);
        self.count_join();
        self.watch_for_outage(now);
        self.observe(now);
        if is_leaving {
            self.leave(now, LaneId(free));
        }
        Ok(LaneId(free))
    }

    /// A lane has ended.
    pub fn lane_down(&mut self, now: Instant, lane: LaneId, end: LaneEnd) {
        self.note_end(lane, end);
        // Both ends close a lane that leaves, and the peer may have done so before the stream was done.
        let is_leaving = self.lanes[lane.0].leaving;
        self.ending.settled |= end == LaneEnd::Closed && self.is_done() && !is_leaving;
        let bytes_at_risk = if self.is_done() { 0 } else { self.scheduler.at_risk(lane.0) };
        let rtt = self.scheduler.lane_view(lane.0).rtt;
        self.scheduler.lane_lost(lane.0);
        self.incoming.release(lane.0);
        self.lanes[lane.0] = Lane::default();
        if end == LaneEnd::ByPeer || is_leaving {
            self.expect_return(now, rtt);
        }
        self.tell(now, Some(lane), EventKind::Ended { bytes_at_risk });
        self.watch_for_outage(now);
        // All of them: the lost lane may have been the one that watched over another.
        self.wake_all_lanes();
        self.wakes.writer = true;
        self.observe(now);
    }

    /// Takes a lane out of the stream. The scheduler gives it nothing more, and both ends close it when they have acknowledged all its chunks.
    pub fn leave(&mut self, now: Instant, lane: LaneId) {
        let state = &mut self.lanes[lane.0];
        if state.up && !std::mem::replace(&mut state.leaving, true) {
            self.scheduler.retire(lane.0);
            self.tell(now, Some(lane), EventKind::Leaving);
            self.watch_for_outage(now);
            self.wake_all_lanes();
            self.observe(now);
        }
    }

    /// Takes the lane with that number out of the stream: both of its connections, if one is replacing the other. Returns whether there is one.
    pub fn leave_by_number(&mut self, now: Instant, number: u16) -> bool {
        let lanes: Vec<LaneId> = self.lanes().filter(|lane| self.scheduler.number(lane.0) == number).collect();
        lanes.iter().for_each(|lane| self.leave(now, *lane));
        !lanes.is_empty()
    }

    /// Whether a lane is leaving the stream.
    pub fn is_leaving(&self, lane: LaneId) -> bool {
        self.lanes[lane.0].leaving
    }

    /// The peer takes the lane out of the stream.
    pub fn handle_leave(&mut self, now: Instant, lane: LaneId, drained: bool) {
        self.leave(now, lane);
        self.lanes[lane.0].other_drained |= drained;
        self.wake(lane);
    }

    /// The lanes that are up.
    pub fn lanes(&self) -> impl Iterator<Item = LaneId> + '_ {
        self.lanes.iter().enumerate().filter(|(_, lane)| lane.up).map(|(index, _)| LaneId(index))
    }

    /// Whether `lane` takes a chunk only once its connection has room.
    pub fn needs_room(&self, lane: LaneId) -> bool {
        self.failure.is_none() && self.in_flight(lane) >= NEEDS_NO_ROOM && self.scheduler.may_give(lane.0)
    }

    /// The next step of `lane`, which has room. Control frames are appended to `control` and go first.
    pub fn poll_transmit(&mut self, now: Instant, lane: LaneId, control: &mut Vec<u8>) -> Transmit {
        self.lanes[lane.0].called = false;
        if let Some(failure) = &self.failure {
            let reason = match failure {
                // If the lanes have stalled, the peer gets the reset when they make progress again.
                Failure::Dropped | Failure::RuntimeStopped | Failure::LanesLost { .. } => Some(ResetReason::Dropped),
                Failure::Violation(Violation::Form { .. }) => Some(ResetReason::Mismatch),
                Failure::Violation(_) => Some(ResetReason::Violation),
                Failure::Reset(_) | Failure::Stopped { .. } => None,
            };
            let state = &mut self.lanes[lane.0];
            return match reason {
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
                self.peaks.sending = self.peaks.sending.max(self.scheduler.window_used());
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
        self.scheduler.set_resting(now, lane.0);
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
        self.scheduler.in_flight(lane.0)
    }

    /// Checks the header of a data frame, before the driver takes memory for the payload.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn admit(&mut self, now: Instant, header: &DataHeader) -> Result<Admission, Violation> {
        // Check this even after the stream is over: the driver takes memory for an admitted chunk.
        let longest = self.parameters.longest_chunk;
        if header.length > longest {
            return self.or_fail(now, Err(Violation::TooLong { length: header.length, longest }));
        }
        if self.failure.is_some() || self.refuses() {
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
        if self.failure.is_some() || self.refuses() {
            return Ok(());
        }
        let longest = self.parameters.longest_chunk;
        if header.length > longest {
            return self.or_fail(now, Err(Violation::TooLong { length: header.length, longest }));
        }
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
        let due = state.owes_acknowledgement(now, self.parameters.window);
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
        self.count_arrival(now, lane);
        self.observe(now);
    }

    /// Takes an acknowledgement that has arrived on `lane`.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn handle_ack(&mut self, now: Instant, lane: LaneId, ack: &Ack) -> Result<(), Violation> {
        // A late acknowledgement changes nothing: the application knows that the stream failed, or that the peer reads no more.
        if self.failure.is_some() || self.is_stopped() {
            return Ok(());
        }
        let was_stalled = self.is_stalled(lane);
        let before = self.scheduler.delivered();
        let handled = self.scheduler.handle_ack(now, lane.0, ack);
        self.or_fail(now, handled)?;
        if self.scheduler.delivered() != before {
            self.has_moved(now, now);
        }
        if was_stalled && !self.scheduler.is_stalled(lane.0) {
            self.has_answered(now, lane);
        } else if self.outage.is_some() {
            self.watch_for_outage(now);
        }
        self.wake_idle_lanes(now);
        if self.scheduler.lags(now, lane.0) {
            self.wake_all_lanes();
        }
        if self.scheduler.is_complete() {
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
        if self.failure.is_none() && !self.is_done() {
            self.fail(now, Failure::Reset(reason));
        }
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
        (self.scheduler.bytes_written(), self.scheduler.bytes_consumed())
    }

    /// How many bytes lanes have taken more than once.
    pub fn bytes_sent_again(&self) -> u64 {
        self.scheduler.bytes_sent_again()
    }

    /// How many bytes the application has read, and how many arrived more than once.
    pub fn received(&self) -> (u64, u64) {
        (self.incoming.bytes_read(), self.incoming.bytes_duplicated())
    }

    fn or_fail<T>(&mut self, now: Instant, result: Result<T, Violation>) -> Result<T, Violation> {
        if let Err(violation) = &result
            && self.failure.is_none()
        {
            self.fail(now, Failure::Violation(violation.clone()));
        }
        result
    }

    fn fail(&mut self, now: Instant, failure: Failure) {
        self.failure = Some(failure);
        self.abandon(now);
        self.wakes.supervisor = true;
        self.wakes.reader = true;
        self.wakes.writer = true;
        self.wake_all_lanes();
    }
}

/// The length of a control frame, so that a driver can size its buffer.
pub const CONTROL_LEN: usize = FRAME_LEN;
