//! The bytes that the peer is not known to have.

use super::{flight::Flight, send_stream::SendStream, send_streams::SendStreams, window::SendWindow};
use crate::{
    chunk::Chunk,
    policy::{Cause, Decision, SchedulerView},
    stream_number::StreamNumber,
    violation::Violation,
    wire::Ack,
};
use std::time::Instant;

/// The bytes of all streams that the peer is not known to have: those that no lane has taken, and
/// those that lanes have taken, as far as the window lets them.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    longest_chunk: usize,
    streams: SendStreams,
    window: SendWindow,
    flight: Flight,
}

impl SendBuffer {
    /// An empty buffer, which is cut into chunks of at most `longest_chunk` bytes. The application
    /// may let `capacity` bytes of each stream wait in it.
    pub(super) fn new(longest_chunk: usize, capacity: usize, window: SendWindow) -> Self {
        let longest_chunk = longest_chunk.max(1);
        let (streams, flight) = (SendStreams::new(longest_chunk, capacity), Flight::default());
        Self { longest_chunk, streams, window, flight }
    }

    /// The streams, and the bytes that no lane has taken.
    pub(super) fn streams(&self) -> &SendStreams {
        &self.streams
    }

    /// The streams, and the bytes that no lane has taken.
    pub(super) fn streams_mut(&mut self) -> &mut SendStreams {
        &mut self.streams
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

    /// Has a stream take messages from here on, for a peer that takes `window` bytes of it. Returns
    /// whether it can: the application has written nothing and not finished the stream.
    pub(crate) fn carry_messages(&mut self, stream: StreamNumber, window: u64) -> bool {
        self.streams.carry_messages(stream, window)
    }

    /// The peer has read a stream up to the offset `read` and reads no more: lanes take no more of
    /// its bytes.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] if `read` lies beyond the last byte sent.
    pub(crate) fn stop(&mut self, stream: StreamNumber, read: u64) -> Result<(), Violation> {
        self.streams.stop(stream, read)?;
        if self.streams.are_stopped() {
            self.window.consume(read);
        }
        self.flight.abandon(stream);
        Ok(())
    }

    /// Takes an acknowledgement that came on `lane`. Returns the bytes of the chunks that it is the
    /// first to count, if there are any.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] if it acknowledges chunks or bytes that were not sent.
    pub(super) fn acknowledge(&mut self, now: Instant, lane: usize, ack: &Ack) -> Result<Option<u64>, Violation> {
        let sent = self.flight.lane(lane).transmissions().next_number();
        let consumed = self.window.consumed_by(ack.limit);
        if ack.chunks > sent || consumed > self.streams.used() || ack.complete && !self.streams.are_ends_cut() {
            return Err(Violation::NeverSent { acknowledged: ack.chunks, sent });
        }
        self.window.extend(ack.limit);
        let read_below = self.streams.read_below(self.window.consumed());
        Ok(self.flight.acknowledge(now, lane, ack, read_below))
    }

    /// Gives `lane` the chunk of a decision. `None` if there is no such chunk.
    pub(super) fn carry_out(&mut self, now: Instant, decision: Decision, lane: usize) -> Option<(Chunk, Cause)> {
        match decision {
            Decision::New(max) if self.may_keep_more() => {
                let consumed = self.window.consumed();
                let chunk = self.streams.cut(now, self.allowance(), max.clamp(1, self.longest_chunk), consumed)?;
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

    /// How many bytes of all streams lanes have taken.
    pub(super) fn bytes_sent(&self) -> u64 {
        self.streams.used()
    }

    /// How many bytes this end keeps for the peer: those that no lane has taken, and the range from
    /// the first unacknowledged byte to the last that a lane has taken.
    pub(crate) fn bytes_kept(&self) -> u64 {
        self.streams.bytes() as u64 + (self.streams.position() - self.first_unacknowledged())
    }

    /// How many bytes of the peer's window are in use, as far as this end knows.
    pub(crate) fn window_used(&self) -> u64 {
        self.streams.used() - self.window.consumed()
    }

    /// A measure that grows with each chunk that the peer acknowledges or reads for the first time.
    pub(crate) fn delivered(&self) -> u64 {
        self.flight.delivered() + self.window.consumed()
    }

    /// Whether the peer has every byte of a stream and its end.
    pub(crate) fn is_complete(&self, stream: StreamNumber) -> bool {
        let is_sent = |stream: &SendStream| !stream.is_cut_short() && stream.unsent().is_end_cut();
        self.streams.get(stream).is_some_and(is_sent) && !self.flight.has_any_of(stream)
    }

    /// Whether lanes have nothing left to do for a stream: the peer has everything, or knows of the
    /// reset.
    pub(crate) fn is_settled(&self, stream: StreamNumber) -> bool {
        self.streams.get(stream).is_some_and(SendStream::is_settled) && !self.flight.has_any_of(stream)
    }

    /// Resets a stream: lanes take no more of its bytes, and tell the peer.
    pub(super) fn reset(&mut self, stream: StreamNumber, code: u64, is_by_peer: bool) {
        self.streams.reset(stream, code, is_by_peer);
        self.flight.abandon(stream);
    }

    /// Forgets a stream of which the peer has everything, or knows of the reset, if the application
    /// has dropped its handle. Returns whether it is forgotten now.
    pub(super) fn forget(&mut self, stream: StreamNumber) -> bool {
        !self.flight.has_any_of(stream) && self.streams.forget(stream)
    }

    /// Whether the peer lacks anything: bytes that wait or are in flight, or the end.
    pub(crate) fn awaits_delivery(&self) -> bool {
        !self.flight.is_all_acknowledged() || self.streams.have_any()
    }

    /// Whether bytes wait to be sent or delivered.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.flight.is_all_acknowledged() || self.lanes_worth_of_work() > 0
    }

    /// Whether the peer's window is full, more bytes wait, and `lane` alone is
    /// [late](Flight::late_lane).
    pub(crate) fn is_held_up_by(&self, lane: usize) -> bool {
        self.streams.bytes() > 0 && self.lanes_worth_of_work() == 0 && self.flight.late_lane() == Some(lane)
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
                || self.streams_ready().is_some()
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
        self.streams_ready().filter(|_| self.may_keep_more())
    }

    /// How many new bytes wait and fit the window, if any or the end. Mostly none wait.
    fn streams_ready(&self) -> Option<usize> {
        if self.streams.have_any() { self.streams.ready(self.allowance()) } else { None }
    }

    /// Whether this end may keep one more chunk until it is acknowledged.
    fn may_keep_more(&self) -> bool {
        self.flight.len() < self.window.max_chunks()
    }

    /// How many bytes more lanes may take now.
    pub(super) fn allowance(&self) -> u64 {
        let kept = self.streams.position() - self.first_unacknowledged();
        self.window.allowance(self.streams.used(), kept)
    }

    /// The position of the first byte that a lane has taken and the peer has not acknowledged, or
    /// of the rest of a message of which lanes have taken a part.
    fn first_unacknowledged(&self) -> u64 {
        let in_flight = self.flight.first_unacknowledged().unwrap_or(self.streams.position());
        self.streams.begun_from().map_or(in_flight, |begun| begun.min(in_flight))
    }
}
