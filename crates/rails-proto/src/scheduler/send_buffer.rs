//! The bytes that the peer is not known to have.

use super::{flight::Flight, unsent::Unsent, window::SendWindow};
use crate::{
    chunk::{Chunk, Priority},
    policy::{Cause, Decision, SchedulerView},
    violation::Violation,
    wire::Ack,
};
use bytes::Bytes;
use std::time::Instant;

/// The bytes of a stream that the peer is not known to have: those that no lane has taken, and
/// those that lanes have taken, as far as the window lets them.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    longest_chunk: usize,
    unsent: Unsent,
    window: SendWindow,
    flight: Flight,
}

impl SendBuffer {
    /// An empty buffer, which is cut into chunks of at most `longest_chunk` bytes. The application
    /// may let `capacity` bytes wait in it.
    pub(super) fn new(longest_chunk: usize, capacity: usize, window: SendWindow) -> Self {
        let (unsent, flight) = (Unsent::new(capacity), Flight::default());
        Self { longest_chunk: longest_chunk.max(1), unsent, window, flight }
    }

    /// The bytes that no lane has taken.
    pub(super) fn unsent(&self) -> &Unsent {
        &self.unsent
    }

    /// How far lanes may send.
    pub(super) fn window(&self) -> &SendWindow {
        &self.window
    }

    /// The lanes, and the bytes that they have taken.
    pub(super) fn flight(&self) -> &Flight {
        &self.flight
    }

    /// The lanes, and the bytes that they have taken.
    pub(super) fn flight_mut(&mut self) -> &mut Flight {
        &mut self.flight
    }

    /// Takes messages from here on. Returns whether it can: the application has written nothing and
    /// not finished the stream.
    pub(crate) fn carry_messages(&mut self) -> bool {
        self.unsent.carry_messages(self.longest_chunk, self.window.size())
    }

    /// Takes bytes to send, all of them: the caller checks [`Unsent::writable_bytes`] first.
    ///
    /// # Panics
    /// If the stream carries messages, and after [`SendBuffer::finish`].
    pub(super) fn write(&mut self, bytes: Bytes) {
        self.unsent.write(bytes);
    }

    /// Takes a message to send; it waits behind more urgent ones.
    ///
    /// # Panics
    /// If the stream carries bytes, and after [`SendBuffer::finish`].
    pub(crate) fn send(&mut self, priority: Priority, message: Bytes) {
        self.unsent.send(priority, message);
    }

    /// The application will write no more.
    pub(crate) fn finish(&mut self) {
        self.unsent.finish();
    }

    /// The peer has read up to the offset `read` and reads no more: lanes take no more bytes.
    /// Returns how many of the written bytes the peer has not read.
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
        self.flight.clear();
        Ok(sent + abandoned - read)
    }

    /// Takes an acknowledgement that came on `lane`. Returns the bytes of the chunks that it is the
    /// first to count, if there are any.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] if it acknowledges chunks or bytes that were not sent.
    pub(super) fn acknowledge(&mut self, now: Instant, lane: usize, ack: &Ack) -> Result<Option<u64>, Violation> {
        let sent = self.flight.lane(lane).transmissions().next_number();
        let consumed = self.window.consumed_by(ack.limit);
        if ack.chunks > sent || consumed > self.unsent.next() || ack.complete && !self.unsent.is_end_cut() {
            return Err(Violation::NeverSent { acknowledged: ack.chunks, sent });
        }
        self.window.extend(ack.limit);
        Ok(self.flight.acknowledge(now, lane, ack, self.window.consumed()))
    }

    /// Gives `lane` the chunk of a decision. `None` if there is no such chunk.
    pub(super) fn carry_out(&mut self, now: Instant, decision: Decision, lane: usize) -> Option<(Chunk, Cause)> {
        match decision {
            Decision::New(max) if self.may_keep_more() => {
                let chunk = self.unsent.cut(self.limit(), max.clamp(1, self.longest_chunk))?;
                self.flight.send(now, lane, &chunk);
                Some((chunk, Cause::New))
            }
            Decision::Requeue(max) => Some((self.flight.send_requeued(now, lane, max.max(1))?, Cause::Requeued)),
            Decision::Reinject(offset) => Some((self.flight.reinject(now, lane, offset)?, Cause::Reinjected)),
            Decision::New(_) | Decision::Wait(_) => None,
        }
    }

    /// The longest chunk that both ends take.
    pub(crate) fn longest_chunk(&self) -> usize {
        self.longest_chunk
    }

    /// How many bytes of the stream lanes have taken.
    pub(super) fn bytes_sent(&self) -> u64 {
        self.unsent.next()
    }

    /// How many bytes this end keeps for the peer: those that no lane has taken, and the range from
    /// the first unacknowledged byte to the last that a lane has taken.
    pub(crate) fn bytes_kept(&self) -> u64 {
        self.unsent.bytes() as u64 + (self.unsent.next() - self.first_unacknowledged())
    }

    /// How many bytes of the peer's window are in use, as far as this end knows.
    pub(crate) fn window_used(&self) -> u64 {
        self.unsent.next() - self.window.consumed()
    }

    /// A measure that grows with each chunk that the peer acknowledges or reads for the first time.
    pub(crate) fn delivered(&self) -> u64 {
        self.flight.delivered() + self.window.consumed()
    }

    /// Whether the peer has every byte and the end.
    pub(crate) fn is_complete(&self) -> bool {
        !self.unsent.is_given_up() && self.unsent.is_end_cut() && self.flight.is_all_acknowledged()
    }

    /// Whether the peer lacks anything: bytes that wait or are in flight, or the end.
    pub(crate) fn awaits_delivery(&self) -> bool {
        let end = self.unsent.is_finished() && !self.unsent.is_end_cut();
        let lacks_any = !self.flight.is_all_acknowledged() || self.unsent.bytes() > 0 || end;
        !self.unsent.is_given_up() && lacks_any
    }

    /// Whether bytes wait to be sent or delivered.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.flight.is_all_acknowledged() || self.lanes_worth_of_work() > 0
    }

    /// Whether the peer's window is full, more bytes wait, and `lane` alone is
    /// [late](Flight::late_lane).
    pub(crate) fn is_held_up_by(&self, lane: usize) -> bool {
        self.unsent.bytes() > 0 && self.lanes_worth_of_work() == 0 && self.flight.late_lane() == Some(lane)
    }

    /// How many lanes the waiting bytes could keep busy. This is an upper bound: a lane that asks
    /// may still get none.
    pub(crate) fn lanes_worth_of_work(&self) -> usize {
        let new = self.ready().map_or(0, |ready| ready.div_ceil(self.longest_chunk).max(1));
        self.flight.requeued_chunks() + new
    }

    /// Whether there is anything that `lane` might [take](super::Scheduler::take): most of the time
    /// a lane that asks again has just taken the last bytes.
    pub(crate) fn may_give(&self, lane: usize) -> bool {
        self.has_room(lane)
            && (self.flight.requeued_chunks() > 0
                || self.unsent.ready(self.limit()).is_some()
                || self.flight.is_in_flight_besides(lane))
    }

    /// Whether a lane may take one more chunk: each takes memory, even if another lane has
    /// delivered it.
    pub(super) fn has_room(&self, lane: usize) -> bool {
        let lane = self.flight.lane(lane);
        lane.is_usable() && lane.in_flight_chunks() < self.window.max_chunks()
    }

    /// The view of the policy.
    pub(super) fn view(&self) -> SchedulerView<'_> {
        SchedulerView {
            waiting: self.ready(),
            requeued: self.flight.requeued(),
            longest_chunk: self.longest_chunk,
            streak: self.flight.streak(),
            lanes: self.flight.lane_views(),
            in_flight: Some(&self.flight),
        }
    }

    /// How many new bytes lanes may take, if any or the end: those that wait and fit the window,
    /// while this end may keep one more chunk.
    fn ready(&self) -> Option<usize> {
        self.unsent.ready(self.limit()).filter(|_| self.may_keep_more())
    }

    /// Whether this end may keep one more chunk until it is acknowledged.
    fn may_keep_more(&self) -> bool {
        self.flight.len() < self.window.max_chunks()
    }

    /// The offset up to which this end may send.
    pub(super) fn limit(&self) -> u64 {
        self.window.limit(self.first_unacknowledged())
    }

    /// The offset of the first byte that a lane has taken and the peer has not acknowledged.
    fn first_unacknowledged(&self) -> u64 {
        self.flight.first_unacknowledged().unwrap_or(self.unsent.next())
    }
}
