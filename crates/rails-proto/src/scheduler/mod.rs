//! The sending side of a stream. When a lane has room, the scheduler asks the [policy](crate::policy) which bytes the lane takes, carries the answer out,
//! and records which lane holds which byte.
//!
//! The scheduler knows a lane by its slot, the index of its [`LaneId`](crate::connection::LaneId): each parameter `lane` is one. The log, the events
//! and the statistics name a lane by its [number](LaneTraits::number).

mod check;
mod estimate;
mod journal;
mod lane;
mod late;
mod outstanding;
mod pace;
mod probe;
mod reissued;
mod take;
mod transmissions;
mod unsent;
mod unsent_bytes;
mod window;

pub use lane::LaneTraits;
pub use reissued::{ByteCount, Reissued};

use crate::{
    chunk::Priority,
    policy::{LaneView, Requeued, SchedulerView, Streak, StripePolicy, Traced},
    record::{Record, RecordedEvent},
    violation::Violation,
    wire::Ack,
};
use bytes::Bytes;
use journal::Journal;
use lane::Lane;
use outstanding::{Outstanding, Segment};
use std::time::{Duration, Instant};
use unsent::Unsent;
use window::SendWindow;

/// The sending side of one direction of a stream.
///
/// Bytes wait in it until a lane has room ([`Scheduler::take`]) and the [policy](crate::policy) gives it some of them. They are then in flight on that lane
/// until the peer acknowledges them ([`Scheduler::handle_ack`]). If the lane is lost ([`Scheduler::lane_lost`]) or stalls ([`Scheduler::stall`]) before
/// that, they are requeued for another lane. The policy may also send a chunk again on a second lane; the peer drops the copy that arrives second.
///
/// The peer chooses its window, and when it acknowledges. So the scheduler has a bound of its own for the bytes that it keeps until they are acknowledged:
/// it sends no byte further than that behind the first unacknowledged one. Its memory is bounded by that and by its buffer, whatever the peer does.
#[derive(Debug)]
pub struct Scheduler {
    policy: Box<dyn StripePolicy>,
    longest_chunk: usize,
    unsent: Unsent,
    window: SendWindow,
    /// The bytes that were sent and are not known to be delivered, and the lanes that hold them.
    outstanding: Outstanding,
    lanes: Vec<Lane>,
    /// The lanes as the policy sees them.
    lane_views: Vec<LaneView>,
    /// The latest time that a caller gave.
    now: Option<Instant>,
    /// The lane that last took new bytes.
    streak: Option<Streak>,
    /// When the policy first refused a lane although bytes waited, since it last gave bytes to a lane.
    refused_since: Option<Instant>,
    journal: Journal,
    /// Bytes and chunks that lanes took more than once.
    reissued: Reissued,
}

impl Scheduler {
    /// Creates a scheduler that shares bytes out by `policy` in chunks of at most `longest_chunk` bytes, keeps at most `buffer` bytes that no lane has
    /// taken and at most `max_unacknowledged` that the peer has not acknowledged, and starts with the peer's `window`.
    pub fn new(
        policy: Box<dyn StripePolicy>,
        longest_chunk: usize,
        buffer: usize,
        max_unacknowledged: u64,
        window: u64,
    ) -> Self {
        Self {
            policy,
            longest_chunk: longest_chunk.max(1),
            unsent: Unsent::new(buffer),
            window: SendWindow::new(window, max_unacknowledged),
            outstanding: Outstanding::default(),
            lanes: Vec::new(),
            lane_views: Vec::new(),
            now: None,
            streak: None,
            refused_since: None,
            journal: Journal::default(),
            reissued: Reissued::default(),
        }
    }

    /// Keeps the newest `capacity` decisions and the events between them, from here on.
    pub fn record_decisions(&mut self, capacity: usize) {
        let numbers = self.lanes.iter().map(|lane| lane.is_up().then_some(lane.number())).collect();
        self.journal.record(capacity, numbers);
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

    /// How many bytes the application may write now.
    pub(crate) fn writable_bytes(&self) -> usize {
        self.unsent.writable_bytes()
    }

    /// Whether the application may write so many bytes that a waiting writer is worth waking: a quarter of the buffer.
    pub(crate) fn is_writer_worth_waking(&self) -> bool {
        self.unsent.is_writer_worth_waking()
    }

    /// Takes bytes to send, all of them: the caller checks [`Scheduler::writable_bytes`] first.
    ///
    /// # Panics
    /// After [`Scheduler::finish`].
    pub fn write(&mut self, bytes: Bytes) {
        self.unsent.write(bytes);
    }

    /// Takes messages from here on. Returns whether it can: the application has written nothing and not finished the stream.
    pub(crate) fn carry_messages(&mut self) -> bool {
        self.unsent.carry_messages(self.longest_chunk, self.window.size())
    }

    /// Takes a message to send; it waits behind more urgent ones.
    ///
    /// # Panics
    /// If the stream carries bytes, and after [`Scheduler::finish`].
    pub(crate) fn send(&mut self, priority: Priority, message: Bytes) {
        self.unsent.send(priority, message);
    }

    /// The peer's window.
    pub(crate) fn peer_window(&self) -> u64 {
        self.window.peer()
    }

    /// The most bytes of the stream that may be on their way at a time: the peer's window, or this end's bound if that is less.
    pub(crate) fn send_window(&self) -> u64 {
        self.window.size()
    }

    /// The longest chunk that both ends take.
    pub(crate) fn longest_chunk(&self) -> usize {
        self.longest_chunk
    }

    /// How many bytes this end keeps for the peer: those that no lane has taken, and the range from the first unacknowledged byte to the last that a lane has
    /// taken.
    pub(crate) fn bytes_kept(&self) -> u64 {
        self.unsent.bytes() as u64 + (self.unsent.next() - self.first_unacknowledged())
    }

    /// The application will write no more.
    pub(crate) fn finish(&mut self) {
        self.unsent.finish();
    }

    /// The peer has read up to the offset `read` and reads no more: lanes take no more bytes. Returns how many of the written bytes the peer has not read.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] if `read` lies beyond the last byte sent.
    pub(crate) fn give_up(&mut self, read: u64) -> Result<u64, Violation> {
        let sent = self.unsent.next();
        if read > sent {
            return Err(Violation::NeverSent { acknowledged: read, sent });
        }
        self.window.consume(read);
        let abandoned = self.unsent.give_up();
        self.outstanding.clear();
        self.lanes.iter_mut().for_each(Lane::clear);
        self.check();
        Ok(sent + abandoned - read)
    }

    /// Whether [`Scheduler::finish`] was called.
    pub(crate) fn is_finished(&self) -> bool {
        self.unsent.is_finished()
    }

    /// Whether the peer has every byte and the end.
    pub(crate) fn is_complete(&self) -> bool {
        !self.unsent.is_given_up() && self.unsent.is_end_cut() && self.outstanding.is_empty()
    }

    /// How many bytes the application has written.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.unsent.bytes_written()
    }

    /// How many bytes the peer has read, as far as this end knows.
    pub(crate) fn bytes_consumed(&self) -> u64 {
        self.window.consumed()
    }

    /// How many bytes lanes took more than once: requeued, reinjected and probed.
    pub(crate) fn bytes_sent_again(&self) -> u64 {
        self.reissued.total().bytes
    }

    /// Bytes and chunks that lanes took more than once, by cause.
    pub(crate) fn reissued(&self) -> Reissued {
        self.reissued
    }

    /// Bytes and chunks that lane `lane` took after another lane had taken them, since it joined.
    pub(crate) fn reissued_by(&self, lane: usize) -> Reissued {
        self.lanes[lane].reissued()
    }

    /// How many bytes no lane has taken.
    pub(crate) fn bytes_waiting(&self) -> usize {
        self.unsent.bytes()
    }

    /// How many bytes of the peer's window are in use, as far as this end knows.
    pub(crate) fn window_used(&self) -> u64 {
        self.unsent.next() - self.window.consumed()
    }

    /// Lane `lane` has joined.
    pub fn lane_up(&mut self, lane: usize, traits: LaneTraits) {
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Lane::default);
            self.lane_views.resize_with(lane + 1, LaneView::default);
        }
        let number = traits.number;
        self.lanes[lane] = Lane::joined(traits);
        self.journal.note(self.now, RecordedEvent::Joined { slot: lane, number });
    }

    /// Lane `lane` is lost: the others take its bytes that are not known to be delivered.
    pub fn lane_lost(&mut self, lane: usize) {
        self.lanes[lane] = Lane::default();
        self.outstanding.lose(lane);
        self.let_others_answer();
        self.note_lost(lane);
        self.check();
    }

    /// Lane `lane` has stalled: the others may take its bytes too, and it takes none until an acknowledgement comes on it, or the caller calls
    /// [`Scheduler::restore`].
    pub(crate) fn stall(&mut self, lane: usize) {
        self.lanes[lane].stall();
        self.outstanding.release(lane);
        self.let_others_answer();
        self.note_lost(lane);
        self.check();
    }

    /// Lane `lane` makes progress again: it answers for the chunks that no other lane has taken meanwhile. The scheduler forgets the estimates of
    /// its speed.
    pub(crate) fn restore(&mut self, lane: usize) {
        self.lanes[lane].restore();
        self.outstanding.resume(lane, self.lanes[lane].transmissions().ranges());
        self.check();
    }

    /// Live lanes answer for the requeued segments that they sent too, the one in the lowest slot first.
    fn let_others_answer(&mut self) {
        for (slot, state) in self.lanes.iter().enumerate().filter(|(_, state)| state.is_live()) {
            if self.outstanding.requeued_size().0 > 0 {
                self.outstanding.resume(slot, state.transmissions().ranges());
            }
        }
    }

    /// Lane `lane` takes no more, and keeps the chunks that it has.
    pub(crate) fn retire(&mut self, lane: usize) {
        self.lanes[lane].retire();
    }

    /// Lane `lane` is idle: it asks as soon as it is woken.
    pub(crate) fn set_resting(&mut self, now: Instant, lane: usize) {
        self.lanes[lane].rest(now);
    }

    /// Whether lane `lane` may take chunks: it is up, and neither stalled nor retired.
    pub(crate) fn is_usable(&self, lane: usize) -> bool {
        self.lanes[lane].is_usable()
    }

    /// Whether lane `lane` has stalled.
    pub(crate) fn is_stalled(&self, lane: usize) -> bool {
        self.lanes[lane].is_stalled()
    }

    /// Takes a round trip of lane `lane`, as the driver measured it. The scheduler keeps the least: the others met queues.
    pub(crate) fn observe_rtt(&mut self, lane: usize, rtt: Duration) {
        self.lanes[lane].observe_rtt(rtt);
    }

    /// Lane `lane` as the policy sees it.
    pub(crate) fn lane_view(&self, lane: usize) -> LaneView {
        self.lanes[lane].view(self.now)
    }

    /// When lane `lane` last made progress: an acknowledgement came, or it took a chunk while it had none. `None` while it has nothing in flight.
    pub(crate) fn progress_at(&self, lane: usize) -> Option<Instant> {
        self.lanes[lane].progress_at()
    }

    /// How many lanes the waiting bytes could keep busy. This is an upper bound: a lane that asks may still get none.
    pub(crate) fn lanes_worth_of_work(&self) -> usize {
        let ready = self.unsent.ready(self.limit()).filter(|_| self.may_keep_more());
        self.outstanding.requeued_size().0 + ready.map_or(0, |ready| ready.div_ceil(self.longest_chunk).max(1))
    }

    /// The longest chunk that `lane` takes, which may follow its rate.
    pub fn chunk_length(&self, lane: usize) -> usize {
        self.policy.longest_chunk(&self.lane_view(lane), self.longest_chunk).clamp(1, self.longest_chunk)
    }

    /// Takes an acknowledgement that came on `lane`.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] if it acknowledges chunks or bytes that were not sent.
    pub fn handle_ack(&mut self, now: Instant, lane: usize, ack: &Ack) -> Result<(), Violation> {
        self.now = self.now.max(Some(now));
        let sent = self.lanes[lane].transmissions().next_number();
        let never_sent = || Violation::NeverSent { acknowledged: ack.chunks, sent };
        let consumed = self.window.consumed_by(ack.limit);
        if ack.chunks > sent || consumed > self.unsent.next() || ack.complete && !self.unsent.is_end_cut() {
            return Err(never_sent());
        }
        self.window.extend(ack.limit);
        let answers = self.lanes[lane].is_stalled() && self.lanes[lane].is_answered_by(ack.chunks);
        let mut delivered = None;
        for range in self.lanes[lane].acknowledge(now, ack.chunks) {
            *delivered.get_or_insert(0) += range.end - range.start;
            self.outstanding.deliver(range);
        }
        if let Some(bytes) = delivered {
            self.policy.on_ack(lane, bytes);
            self.journal.note(self.now, RecordedEvent::Acked { lane, bytes });
        }
        if ack.complete {
            self.outstanding.clear();
            self.lanes.iter_mut().for_each(Lane::clear);
        } else {
            for (slot, state) in self.lanes.iter_mut().enumerate() {
                let sent_on = |range| self.outstanding.within(range).next().map(Segment::sent_on);
                state.settle(now, self.window.consumed(), |sent| sent_on(sent.range()) == Some(bit(slot)));
            }
            self.outstanding.deliver_below(self.window.consumed());
        }
        if answers {
            self.restore(lane);
        }
        if self.refused_since.is_some() && self.lanes_worth_of_work() == 0 {
            self.refused_since = None;
        }
        self.check();
        Ok(())
    }

    /// How many bytes lanes have taken that are not known to have arrived.
    pub(crate) fn bytes_unacknowledged(&self) -> u64 {
        self.outstanding.bytes()
    }

    /// Whether the peer lacks anything: bytes that wait or are in flight, or the end.
    pub(crate) fn awaits_delivery(&self) -> bool {
        let end = self.unsent.is_finished() && !self.unsent.is_end_cut();
        !self.unsent.is_given_up() && (!self.outstanding.is_empty() || self.unsent.bytes() > 0 || end)
    }

    /// Whether the peer has acknowledged everything sent so far.
    pub(crate) fn is_all_acknowledged(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Whether a lane that has not stalled has a chunk in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_live() && lane.in_flight_chunks() > 0)
    }

    /// A measure that grows with each chunk that the peer acknowledges or reads for the first time.
    pub(crate) fn delivered(&self) -> u64 {
        self.outstanding.delivered() + self.window.consumed()
    }

    /// The number of the lane in slot `lane`: the same at both ends.
    pub(crate) fn number(&self, lane: usize) -> u16 {
        self.lanes[lane].number()
    }

    /// When the peer last acknowledged a chunk on `lane`.
    pub(crate) fn acknowledged_at(&self, lane: usize) -> Option<Instant> {
        self.lanes[lane].acknowledged_at()
    }

    /// Whether `lane` has taken chunks since it joined, and the peer has acknowledged none on it.
    pub(crate) fn is_barren(&self, lane: usize) -> bool {
        self.lanes[lane].is_barren()
    }

    /// How many chunks are in flight on `lane`.
    pub(crate) fn in_flight_chunks(&self, lane: usize) -> usize {
        self.lanes[lane].in_flight_chunks()
    }

    /// How many of the bytes in flight on `lane` are not known to be delivered by another lane.
    pub(crate) fn at_risk(&self, lane: usize) -> u64 {
        self.outstanding.bytes_sent_on(lane)
    }

    /// How many bytes are in flight on `lane`.
    pub(crate) fn in_flight(&self, lane: usize) -> u64 {
        self.lanes.get(lane).map_or(0, Lane::in_flight)
    }

    /// Tells the policy that `lane` no longer answers for any bytes.
    fn note_lost(&mut self, lane: usize) {
        self.policy.on_lost(lane);
        self.journal.note(self.now, RecordedEvent::Lost { lane });
    }

    /// The view of the policy.
    fn view(&self) -> SchedulerView<'_> {
        SchedulerView {
            waiting: self.unsent.ready(self.limit()).filter(|_| self.may_keep_more()),
            requeued: self.outstanding.requeued().next().map(|first| Requeued {
                bytes: self.outstanding.requeued_size().1 as usize,
                first: first.length() as usize,
            }),
            longest_chunk: self.longest_chunk,
            streak: self.streak,
            lanes: &self.lane_views,
            in_flight: Some(self),
        }
    }

    /// The offset up to which this end may send: as far as the peer lets it, and as far as it keeps bytes for the peer.
    fn limit(&self) -> u64 {
        self.window.limit(self.first_unacknowledged())
    }

    /// The offset of the first byte that a lane has taken and the peer has not acknowledged.
    fn first_unacknowledged(&self) -> u64 {
        self.outstanding.first().map_or(self.unsent.next(), Segment::offset)
    }

    fn refresh_lane_views(&mut self) {
        for (lane_view, lane) in self.lane_views.iter_mut().zip(&self.lanes) {
            *lane_view = lane.view(self.now);
        }
    }

    /// Whether a lane has so many chunks in flight that it takes no more. Each takes memory, even if another lane has delivered it.
    fn is_overfull(&self, lane: usize) -> bool {
        self.lanes[lane].in_flight_chunks() >= self.window.max_chunks()
    }

    /// Whether the scheduler may keep one more chunk until it is acknowledged.
    fn may_keep_more(&self) -> bool {
        self.outstanding.len() < self.window.max_chunks()
    }

    /// The lanes that may answer for their chunks.
    fn live_lanes(&self) -> u64 {
        self.lanes_where(Lane::is_live)
    }

    /// The lanes that may take chunks.
    fn usable_lanes(&self) -> u64 {
        self.lanes_where(Lane::is_usable)
    }

    fn lanes_where(&self, is: impl Fn(&Lane) -> bool) -> u64 {
        let those = self.lanes.iter().enumerate().filter(|(_, lane)| is(lane));
        those.fold(0, |lanes, (lane, _)| lanes | bit(lane))
    }
}

/// A lane in a set of lanes; a stream has at most 64.
fn bit(lane: usize) -> u64 {
    1 << lane
}

#[cfg(test)]
mod tests;
