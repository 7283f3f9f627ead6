//! The sending side of a session. When a lane has room, the scheduler asks the
//! [policy](crate::policy) which bytes the lane takes, carries the answer out, and records which
//! lane holds which byte.
//!
//! The scheduler knows a lane by its slot, the index of its [`LaneId`](crate::session::LaneId):
//! each parameter `lane` is one. The log, the events and the statistics name a lane by its
//! [number](LaneTraits::number).
//!
//! The [`Scheduler`] asks the policy, and keeps no bytes itself. `send_buffer.rs` keeps them, in
//! three parts: `send_streams.rs` has the bytes of each stream that no lane has taken, `window.rs`
//! says how far lanes may send, and `flight.rs` knows which lane holds which byte. A flight is
//! `lanes.rs` and `outstanding.rs`; `late.rs` asks both about times, and `check.rs` checks that
//! they are in step.
//! A lane in `lane.rs` is its state, its `transmissions.rs` and its `pace.rs`. Beside the buffer,
//! `patience.rs` says how long the policy may refuse, and `journal.rs` keeps the decisions. No part
//! touches the fields of another.

mod check;
mod estimate;
mod flight;
mod journal;
mod lane;
mod lanes;
mod late;
mod outstanding;
mod pace;
mod patience;
mod reissued;
mod send_buffer;
mod send_stream;
mod send_streams;
mod transmissions;
mod turns;
mod unsent;
mod unsent_bytes;
mod window;

use crate::{
    chunk::{Chunk, Priority},
    control::Subject,
    policy::{Cause, Decision, LaneView, SchedulerView, Sent, StripePolicy, Traced, probe_allowance},
    record::{Record, RecordedEvent},
    stream_number::StreamNumber,
    violation::Violation,
    wire::Ack,
};
use bytes::Bytes;
use flight::Flight;
use journal::Journal;
use lane::Lane;
pub use lane::LaneTraits;
use outstanding::Settled;
use patience::Patience;
pub use reissued::{ByteCount, Reissued};
use send_buffer::SendBuffer;
use send_streams::SendStreams;
use std::time::{Duration, Instant};
pub(crate) use unsent::Unsent;
use window::SendWindow;

/// The sending side of one direction of a stream.
///
/// Bytes wait in it until a lane has room ([`Scheduler::take`]) and the [policy](crate::policy)
/// gives it some of them. They are then in flight on that lane until the peer acknowledges them
/// ([`Scheduler::handle_ack`]). If the lane is lost ([`Scheduler::lane_lost`]) or stalls
/// ([`Scheduler::stall`]) before that, they are requeued for another lane. The policy may also send
/// a chunk again on a second lane; the peer drops the copy that arrives second.
///
/// The peer chooses its window, and when it acknowledges. So the scheduler has a bound of its own
/// for the bytes that it keeps until they are acknowledged: it sends no byte further than that
/// behind the first unacknowledged one. Its memory is bounded by that and by its buffer, for any
/// behaviour of the peer.
#[derive(Debug)]
pub struct Scheduler {
    policy: Box<dyn StripePolicy>,
    buffer: SendBuffer,
    patience: Patience,
    journal: Journal,
}

impl Scheduler {
    /// Creates a scheduler that shares bytes out by `policy` in chunks of at most `longest_chunk`
    /// bytes, keeps at most `buffer` bytes that no lane has taken and at most
    /// `max_unacknowledged` that the peer has not acknowledged, and starts with the peer's
    /// `window`.
    pub fn new(
        policy: Box<dyn StripePolicy>,
        longest_chunk: usize,
        buffer: usize,
        max_unacknowledged: u64,
        window: u64,
    ) -> Self {
        let buffer = SendBuffer::new(longest_chunk, buffer, SendWindow::new(window, max_unacknowledged));
        Self { policy, buffer, patience: Patience::default(), journal: Journal::default() }
    }

    /// Keeps the newest `capacity` decisions and the events between them, from here on.
    pub fn record_decisions(&mut self, capacity: usize) {
        self.journal.record(capacity, self.buffer.flight().numbers());
    }

    /// Takes the decisions since the last call. `None` if the scheduler does not record them.
    pub fn take_record(&mut self) -> Option<Record> {
        self.journal.take_record(self.policy.built_in())
    }

    /// Keeps the decisions for the log, until [`Scheduler::take_traced`] takes them.
    pub(crate) fn trace(&mut self) {
        self.journal.trace();
    }

    /// Takes the decisions since [`Scheduler::trace`], and keeps no more.
    pub(crate) fn take_traced(&mut self) -> Vec<Traced> {
        self.journal.take_traced()
    }

    /// Opens a stream, in which the peer lets this end send `limit` bytes.
    pub fn open(&mut self, stream: StreamNumber, limit: u64) {
        self.buffer.streams_mut().open(stream, limit);
    }

    /// Takes bytes to send, all of them: the caller checks [`Unsent::writable_bytes`] first.
    ///
    /// # Panics
    /// If the stream carries messages, and after [`Scheduler::finish`].
    pub fn write(&mut self, stream: StreamNumber, bytes: Bytes) {
        self.buffer.streams_mut().write(stream, bytes);
    }

    /// Takes a message to send; it waits behind more urgent ones.
    ///
    /// # Panics
    /// If the stream carries bytes, and after [`Scheduler::finish`].
    pub(crate) fn send(&mut self, stream: StreamNumber, priority: Priority, message: Bytes) {
        self.buffer.streams_mut().send(stream, priority, message);
    }

    /// The application will write no more.
    pub(crate) fn finish(&mut self, stream: StreamNumber) {
        self.buffer.streams_mut().finish(stream);
    }

    /// Resets a stream with the application's code, or with that of a peer that stopped the stream.
    pub(crate) fn reset(&mut self, stream: StreamNumber, code: u64, is_by_peer: bool) {
        self.buffer.reset(stream, code, is_by_peer);
    }

    /// The peer knows of the reset of a stream.
    pub(crate) fn reset_is_known(&mut self, stream: StreamNumber) {
        self.buffer.streams_mut().reset_is_known(stream);
    }

    /// The peer lets this end send up to the offset `limit` of a stream.
    pub(crate) fn extend(&mut self, stream: StreamNumber, limit: u64) {
        self.buffer.streams_mut().extend(stream, limit);
    }

    /// Sets the urgency of a stream.
    pub(crate) fn set_urgency(&mut self, stream: StreamNumber, urgency: i32) {
        self.buffer.streams_mut().set_urgency(stream, urgency);
    }

    /// The application has dropped its handle of a stream.
    pub(crate) fn release(&mut self, stream: StreamNumber) {
        self.buffer.streams_mut().release(stream);
    }

    /// Forgets a stream that needs nothing more. Returns whether it is forgotten now.
    pub(crate) fn forget(&mut self, stream: StreamNumber) -> bool {
        self.buffer.forget(stream)
    }

    /// Has lanes send a control record of that subject, with the application's code or 0.
    pub(crate) fn tell(&mut self, subject: Subject, code: u64) {
        self.buffer.streams_mut().tell(subject, code);
    }

    /// Takes the streams of which the peer has got every chunk since the last call, and the control
    /// records that it has got.
    pub(crate) fn take_settled(&mut self) -> Settled {
        self.buffer.flight_mut().take_settled()
    }

    /// The bytes that the peer is not known to have.
    pub(crate) fn buffer(&self) -> &SendBuffer {
        &self.buffer
    }

    /// The bytes that the peer is not known to have, for the application to write more.
    pub(crate) fn buffer_mut(&mut self) -> &mut SendBuffer {
        &mut self.buffer
    }

    /// The streams, and the bytes that no lane has taken.
    pub(crate) fn streams(&self) -> &SendStreams {
        self.buffer.streams()
    }

    /// How far lanes may send.
    pub(crate) fn window(&self) -> &SendWindow {
        self.buffer.window()
    }

    /// The lanes, and the bytes that they have taken.
    pub(crate) fn flight(&self) -> &Flight {
        self.buffer.flight()
    }

    /// Lane `lane`.
    pub(crate) fn lane(&self, lane: usize) -> &Lane {
        self.buffer.flight().lane(lane)
    }

    /// Lane `lane`, for changes that concern it alone.
    pub(crate) fn lane_mut(&mut self, lane: usize) -> &mut Lane {
        self.buffer.flight_mut().lane_mut(lane)
    }

    /// Lane `lane` has joined.
    pub fn lane_up(&mut self, lane: usize, traits: LaneTraits) {
        let number = traits.number;
        self.buffer.flight_mut().join(lane, traits);
        self.note(RecordedEvent::Joined { slot: lane, number });
    }

    /// Lane `lane` is lost: the others take its bytes that are not known to be delivered.
    pub fn lane_lost(&mut self, lane: usize) {
        self.buffer.flight_mut().lose(lane);
        self.note_lost(lane);
    }

    /// Lane `lane` has stalled: the others may take its bytes too, and it takes none until an
    /// acknowledgement comes on it, or the caller calls [`Scheduler::restore`].
    pub(crate) fn stall(&mut self, lane: usize) {
        self.buffer.flight_mut().stall(lane);
        self.note_lost(lane);
    }

    /// Lane `lane` makes progress again: it answers for the chunks that no other lane has taken
    /// meanwhile. The scheduler forgets the estimates of its speed.
    pub(crate) fn restore(&mut self, lane: usize) {
        self.buffer.flight_mut().restore(lane);
    }

    /// Takes an acknowledgement that came on `lane`.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] if it acknowledges chunks or bytes that were not sent.
    pub fn handle_ack(&mut self, now: Instant, lane: usize, ack: &Ack) -> Result<(), Violation> {
        self.buffer.flight_mut().advance(now);
        if let Some(bytes) = self.buffer.acknowledge(now, lane, ack)? {
            self.policy.on_ack(lane, bytes);
            self.note(RecordedEvent::Acked { lane, bytes });
        }
        if self.patience.is_refusing() && self.buffer.lanes_worth_of_work() == 0 {
            self.patience.renew();
        }
        Ok(())
    }

    /// The longest chunk that `lane` takes, which may follow its rate. While other streams may have
    /// something to send soon, it is what the lane carries in half a [millisecond](SHORT_WAY):
    /// lanes are in order, so an urgent chunk waits for those before it.
    pub fn chunk_length(&self, lane: usize) -> usize {
        let view = self.buffer.flight().lane_view(lane);
        let longest = self.policy.longest_chunk(&view, self.buffer.longest_chunk());
        longest.min(self.short_chunk(&view)).clamp(1, self.buffer.longest_chunk())
    }

    /// The longest chunk of a lane while streams are mixed.
    fn short_chunk(&self, lane: &LaneView) -> usize {
        let is_mixed = self.buffer.flight().now().is_some_and(|now| self.buffer.streams().is_mixed(now));
        match lane.rate {
            _ if !is_mixed => usize::MAX,
            Some(rate) => ((rate * SHORT_WAY.as_secs_f64()) as usize).max(MIN_SHORT_CHUNK),
            None => MIN_SHORT_CHUNK,
        }
    }

    /// Gives a lane that has room the next chunk, if there is one. The chunk is in flight on that
    /// lane from here on.
    pub fn take(&mut self, now: Instant, lane: usize) -> Option<Chunk> {
        debug_assert!(self.buffer.flight().lane(lane).is_up(), "a lane that is down asks for nothing");
        self.buffer.flight_mut().advance(now);
        self.buffer.flight_mut().lane_mut(lane).wake();
        if !self.buffer.may_give(lane) {
            return None;
        }
        self.buffer.flight_mut().refresh_lane_views();
        let seen = self.journal.blank_view();
        let view = self.buffer.view();
        let decision = self.policy.decide(&view, lane);
        let seen = seen.map(|blank| blank.of(&view, lane));
        let shortened = match decision {
            Decision::New(max) if max > MIN_SHORT_CHUNK => {
                Decision::New(max.min(self.short_chunk(&self.buffer.flight().lane_view(lane))))
            }
            other => other,
        };
        let mut taken = self.buffer.carry_out(now, shortened, lane);
        let mut overruled = None;
        if taken.is_some() {
            self.patience.renew();
        } else {
            overruled = self.overrule(now);
            taken = overruled.and_then(|instead| self.buffer.carry_out(now, instead, lane));
        }
        let chunk = taken.as_ref().map(|(chunk, _)| (chunk.position, chunk.length));
        let decided = Traced { slot: lane, number: self.lane(lane).number(), decision, overruled, chunk };
        self.journal.decided(self.buffer.flight().now(), decided, seen);
        let (chunk, cause) = taken?;
        self.note_sent(lane, &chunk, cause);
        Some(chunk)
    }

    /// Whether lane `lane` would get waiting bytes if it had room now.
    pub(crate) fn wants(&mut self, now: Instant, lane: usize) -> bool {
        if !self.buffer.has_room(lane) {
            return false;
        }
        self.buffer.flight_mut().refresh_lane_views();
        // Lanes ask about chunks in flight when those are late, not each time that the application writes.
        let view = SchedulerView { in_flight: None, ..self.buffer.view() };
        let is_given = match self.policy.decide(&view, lane) {
            Decision::New(_) => view.waiting.is_some(),
            Decision::Requeue(_) => view.requeued.is_some(),
            Decision::Reinject(_) | Decision::Wait(_) => false,
        };
        is_given || self.overrule(now).is_some()
    }

    /// Whether there is a chunk with which to probe `lane`, which gets nothing else.
    pub(crate) fn can_probe(&self, lane: usize) -> bool {
        self.probe_length().is_some_and(|max| self.buffer.flight().probe_of(lane, max).is_some())
    }

    /// Gives `lane` a copy of a few bytes that another lane has in flight. The other lane still
    /// answers for them, so the peer does not wait for `lane`. The time that the copy takes
    /// renews the estimates.
    pub(crate) fn probe(&mut self, now: Instant, lane: usize) -> Option<Chunk> {
        let max = self.probe_length()?;
        let chunk = self.buffer.flight_mut().probe(now, lane, max)?;
        self.note_sent(lane, &chunk, Cause::Probed);
        Some(chunk)
    }

    /// The two estimates by which the policy gives `lane` nothing: the time that the lane needs for
    /// one chunk, and the time that the best of the others needs for all waiting bytes, if they
    /// are known.
    pub(crate) fn arrivals(&mut self, lane: usize) -> (Option<Duration>, Option<Duration>) {
        self.buffer.flight_mut().refresh_lane_views();
        let waiting = self.buffer.streams().ready(self.buffer.allowance()).unwrap_or(0);
        self.buffer.view().arrivals(lane, self.chunk_length(lane).min(waiting), waiting)
    }

    /// When the oldest chunk that `lane` answers for becomes
    /// [overdue](SchedulerView::overdue_after), so that another lane should be asked about it.
    pub(crate) fn overdue_at(&mut self, lane: usize) -> Option<Instant> {
        if !self.policy.reinjects() {
            return None;
        }
        let taken = self.buffer.flight().late().oldest_taken(lane)?;
        self.buffer.flight_mut().refresh_lane_views();
        Some(taken + self.buffer.view().overdue_after(lane))
    }

    /// Whether another lane could deliver the last chunk that `lane` answers for sooner.
    pub(crate) fn lags(&mut self, now: Instant, lane: usize) -> bool {
        if !self.policy.reinjects() {
            return false;
        }
        let Some(remaining) = self.buffer.flight().late().last_remaining(now, lane) else { return false };
        self.buffer.flight_mut().refresh_lane_views();
        self.buffer.view().is_slower(lane, remaining)
    }

    /// Whether a lane is overdue with the chunk that the peer needs before it can read on.
    pub(crate) fn is_first_overdue(&mut self, now: Instant) -> bool {
        let first = self.buffer.flight().first_lane();
        first.and_then(|lane| self.overdue_at(lane)).is_some_and(|at| at <= now)
    }

    /// Overrules a policy that gives nothing to a lane that asks. The lane gets a chunk if the
    /// policy has tried the scheduler's [patience](Patience), and no lane can expect an
    /// acknowledgement that might change the policy's answer.
    fn overrule(&mut self, now: Instant) -> Option<Decision> {
        if self.buffer.lanes_worth_of_work() == 0
            || !self.patience.note_refusal(now)
            || self.buffer.flight().is_moving(now)
        {
            return None;
        }
        let (longest, is_requeued) = (self.buffer.longest_chunk(), self.buffer.flight().requeued_chunks() > 0);
        Some(if is_requeued { Decision::Requeue(longest) } else { Decision::New(longest) })
    }

    /// The longest probe that the policy allows now.
    fn probe_length(&self) -> Option<usize> {
        let probed = self.buffer.flight().reissued().probed.bytes;
        self.policy.reinjects().then(|| probe_allowance(self.buffer.bytes_sent(), probed))
    }

    /// Notes that `lane` has taken `chunk`.
    fn note_sent(&mut self, lane: usize, chunk: &Chunk, cause: Cause) {
        let sent = Sent { lane, offset: chunk.position, length: chunk.length, cause };
        self.policy.on_sent(&sent);
        self.note(RecordedEvent::Sent(sent));
    }

    /// Notes that `lane` no longer answers for any bytes.
    fn note_lost(&mut self, lane: usize) {
        self.policy.on_lost(lane);
        self.note(RecordedEvent::Lost { lane });
    }

    fn note(&mut self, event: RecordedEvent) {
        self.journal.note(self.buffer.flight().now(), event);
    }
}

/// While streams are mixed, a chunk takes a lane about this long, and the two that may be unsent
/// about a millisecond.
const SHORT_WAY: Duration = Duration::from_micros(500);
/// A chunk of mixed streams is no shorter than that for the lane's sake.
const MIN_SHORT_CHUNK: usize = 16 << 10;

#[cfg(test)]
mod tests;
