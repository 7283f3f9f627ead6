//! The frames of a stream: those that a lane sends next, and those that have arrived on it.

use super::{
    Admission, Failure, LaneId, NEEDS_NO_ROOM, Session, Transmit, acknowledger::ReceiveState, failure::Farewell,
    receive_stream::ReceiveStream,
};
use crate::{
    chunk::{Chunk, ChunkKind},
    stream_number::StreamNumber,
    violation::Violation,
    wire::{Ack, DataHeader, Frame, ResetReason},
};
use bytes::Bytes;
use std::time::Instant;

impl Session {
    /// Whether `lane` takes a chunk only once its connection has room.
    pub fn needs_room(&self, lane: LaneId) -> bool {
        !self.has_failed() && self.in_flight(lane) >= NEEDS_NO_ROOM && self.scheduler.buffer().may_give(lane.0)
    }

    /// The next step of `lane`, which has room. Control frames are appended to `control` and go
    /// first.
    pub fn poll_transmit(&mut self, now: Instant, lane: LaneId, control: &mut Vec<u8>) -> Transmit {
        self.lanes[lane].ask();
        if let Some(failure) = self.ending.failure() {
            let farewell = failure.farewell().filter(|_| self.lanes[lane].say_reset());
            return farewell.map_or(Transmit::Close, |farewell| self.say_farewell(now, lane, farewell, control));
        }
        if let Some(datagram) = self.many.as_mut().and_then(|many| many.outgoing.pop()) {
            // An application may always have one more to send.
            if self.acknowledge(now, lane, true, control) {
                self.close_if_delivered(now);
            }
            return Transmit::Send(Some(Chunk::special(ChunkKind::Datagram, 0, datagram)));
        }
        let mut has_control = self.say_stop(lane, control);
        let mut chunk = self.scheduler.take(now, lane.0);
        let is_used = chunk.is_some();
        if !is_used && self.lanes[lane].take_probe() {
            chunk = self.scheduler.probe(now, lane.0);
        }
        // An acknowledgement goes out with a chunk even if it could wait.
        has_control |= self.acknowledge(now, lane, chunk.is_some(), control);
        has_control |= self.say_leave(lane, control);
        if chunk.is_some() || has_control {
            // There may be more for another lane that is idle.
            self.wake_for_work(now);
            if let Some(chunk) = &mut chunk {
                self.note_taken(now, chunk);
                if is_used {
                    self.lanes[lane].used(now);
                    self.lanes.stand_by(now, &self.scheduler);
                }
                self.expect_answer(now, lane);
                self.max_window_used = self.max_window_used.max(self.scheduler.buffer().window_used());
            }
            self.observe(now);
            // The lane takes the acknowledgement before it hears of that end.
            self.close_if_delivered(now);
            return Transmit::Send(chunk);
        }
        if self.is_done() || self.lanes[lane].has_left() {
            return Transmit::Close;
        }
        self.rest_lane(now, lane);
        Transmit::Idle
    }

    /// The session has failed, and the peer is to know.
    fn say_farewell(&mut self, now: Instant, lane: LaneId, farewell: Farewell, control: &mut Vec<u8>) -> Transmit {
        match farewell {
            Farewell::Reset(reason) => {
                control.extend_from_slice(&Frame::Reset(reason).encode());
                Transmit::Send(None)
            }
            Farewell::Close { code, reason } => {
                // The peer hears what has arrived on the lane before it hears of the end.
                self.acknowledge(now, lane, true, control);
                Transmit::Send(Some(Chunk::special(ChunkKind::Close { code }, 0, reason)))
            }
        }
    }

    /// Whether `lane`, whose last step was [`Transmit::Send`], has nothing more to send: its next
    /// step would be [`Transmit::Idle`]. It is idle from here on, and its connection has room for
    /// what it sends. The lane asks in any other case.
    pub fn rests(&mut self, now: Instant, lane: LaneId) -> bool {
        let has_datagram = self.many.as_ref().is_some_and(|many| !many.outgoing.is_empty());
        let asks = self.is_over()
            || self.in_flight(lane) >= NEEDS_NO_ROOM
            || has_datagram
            || self.lanes[lane].is_leaving()
            || self.scheduler.buffer().may_give(lane.0);
        if !asks {
            self.rest_lane(now, lane);
        }
        !asks
    }

    /// `lane` has room, and nothing to send.
    fn rest_lane(&mut self, now: Instant, lane: LaneId) {
        self.lanes[lane].rest();
        self.scheduler.lane_mut(lane.0).rest(now);
        self.stand_by_or_down(now, lane);
        self.observe(now);
    }

    /// Appends `Stop` if this end has to tell the peer, once on each lane.
    fn say_stop(&mut self, lane: LaneId, control: &mut Vec<u8>) -> bool {
        let Some(read) = self.only().and_then(ReceiveStream::refused_from) else { return false };
        let is_news = self.lanes[lane].say_stop();
        if is_news {
            control.extend_from_slice(&Frame::Stop { read }.encode());
        }
        is_news
    }

    /// Appends an acknowledgement if one is due, or if a chunk goes out anyway and the
    /// acknowledgement says something new.
    fn acknowledge(&mut self, now: Instant, lane: LaneId, has_chunk: bool, control: &mut Vec<u8>) -> bool {
        let complete = self.only().is_some_and(|only| only.is_complete() && !only.refuses());
        let state = ReceiveState { limit: self.receiving.limit(), complete, window: self.receiving.window() };
        let Some(ack) = self.lanes[lane].acknowledge(now, state, has_chunk) else { return false };
        control.extend_from_slice(&Frame::Ack(ack).encode());
        self.owes_no_acknowledgement(lane);
        // A dropped stream may owe nothing else.
        self.wakes.supervisor |= self.ending.is_dropped();
        true
    }

    /// Appends `Leave` if the lane leaves, and once more when the peer has acknowledged everything
    /// sent on it.
    fn say_leave(&mut self, lane: LaneId, control: &mut Vec<u8>) -> bool {
        if !self.lanes[lane].is_leaving() {
            return false;
        }
        let drained = self.scheduler.lane(lane.0).in_flight_chunks() == 0;
        let says = self.lanes[lane].says_leave(drained);
        if says {
            control.extend_from_slice(&Frame::Leave { drained }.encode());
        }
        says
    }

    /// Has idle lanes stand by, once `lane` has nothing more to send. They do not if the stream
    /// waits for this lane alone: then drivers that do not know yet of a lane that is to stand by
    /// need not wake it.
    fn stand_by_or_down(&mut self, now: Instant, lane: LaneId) {
        let is_waited_for = self.scheduler.lane(lane.0).in_flight() > 0 || !self.scheduler.flight().is_in_flight();
        if is_waited_for && self.lanes.wait_for_one(&self.scheduler) {
            self.lanes.stand_down();
            self.standstill.call_off();
        } else if self.scheduler.buffer().is_at_work() {
            self.lanes.stand_by(now, &self.scheduler);
        }
    }

    /// The longest chunk that the scheduler gives `lane`, which follows the lane's rate. About as
    /// much should wait in the kernel.
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
        self.or_fail(now, self.receiving.check_length(header))?;
        if self.takes_nothing() {
            return Ok(Admission::Duplicate);
        }
        let admission = self
            .name(now, header.stream)
            .and_then(|()| self.receiving.take(header.stream, |stream| stream.admit(header)));
        // The stream may have come to its end before.
        Ok(self.or_fail(now, admission)?.unwrap_or(Admission::Duplicate))
    }

    /// Takes a chunk that has arrived whole on `lane`, with a right checksum.
    ///
    /// # Errors
    /// [`Violation`]; the session has failed with it.
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
        self.or_fail(now, self.receiving.check_length(header))?;
        let was_complete = self.has_arrived_whole();
        let inserted = self.name(now, header.stream).and_then(|()| {
            self.receiving.take(header.stream, |stream| {
                stream.insert(header, payload)?;
                Ok(stream.count_arrival())
            })
        });
        let again = self.or_fail(now, inserted)?;
        self.has_arrived(now, lane, header, was_complete, again);
        Ok(())
    }

    /// Counts a chunk that has arrived whole on `lane`, and has it acknowledged. `again` of its
    /// bytes had arrived before; `None` if its stream had come to its end.
    pub(super) fn has_arrived(
        &mut self,
        now: Instant,
        lane: LaneId,
        header: &DataHeader,
        was_complete: bool,
        again: Option<u64>,
    ) {
        self.lanes.arrived(now, lane, header.length, self.receiving.window());
        self.note_arrivals(now, header.stream, was_complete);
        self.refuse_what_came();
        self.wakes.supervisor |= self.is_done();
        match again {
            Some(0) => self.has_moved(now, now),
            Some(again) => self.lanes[lane].count_duplicate(again),
            None => {}
        }
        self.observe(now);
    }

    /// Notes what has become readable in a stream.
    pub(super) fn note_arrivals(&mut self, now: Instant, stream: StreamNumber, was_complete: bool) {
        if !was_complete && self.has_arrived_whole() {
            self.lanes.wake_all();
        }
        if self.receiving.get(stream).is_some_and(|stream| stream.is_readable() || stream.is_finished()) {
            self.wake_reader(stream);
        }
        self.wakes.writer |= self.is_done();
        if self.many.is_some() {
            self.stop_unread(now, stream);
            self.forget(now, stream);
        }
    }

    /// Takes an acknowledgement that has arrived on `lane`.
    ///
    /// # Errors
    /// [`Violation`]; the stream has failed with it.
    pub fn handle_ack(&mut self, now: Instant, lane: LaneId, ack: &Ack) -> Result<(), Violation> {
        // The close on one lane may have overtaken the acknowledgement on another.
        if matches!(self.failure(), Some(Failure::ClosedByPeer { .. })) {
            self.scheduler.handle_ack(now, lane.0, ack)?;
            self.note_settled(now);
            return Ok(());
        }
        // A late acknowledgement changes nothing: the application knows that the stream failed, or that the
        // peer reads no more.
        if self.has_failed() || self.stopped().is_some() {
            return Ok(());
        }
        let was_stalled = self.is_stalled(lane);
        let before = self.scheduler.buffer().delivered();
        let handled = if ack.complete && self.many.is_some() {
            Err(Violation::Kind)
        } else {
            self.scheduler.handle_ack(now, lane.0, ack)
        };
        self.or_fail(now, handled)?;
        self.note_settled(now);
        if self.scheduler.buffer().delivered() != before {
            self.has_moved(now, now);
        }
        if was_stalled && !self.scheduler.lane(lane.0).is_stalled() {
            self.has_answered(now, lane);
        } else if self.outage.is_ongoing() {
            self.watch_for_outage(now);
        }
        self.wake_for_work(now);
        if self.scheduler.lags(now, lane.0) {
            self.lanes.wake_all();
        }
        if self.is_delivered() {
            self.wakes.writer = true;
            self.wakes.supervisor = true;
        }
        if self.lanes[lane].is_leaving() {
            self.lanes.wake(lane);
        }
        if self.is_done() {
            self.lanes.wake_all();
        }
        self.observe(now);
        Ok(())
    }

    /// The peer has reset the session.
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
        let stopped = match self.many {
            Some(_) => Err(Violation::Kind),
            None => self.scheduler.buffer_mut().stop(StreamNumber::FIRST, read),
        };
        self.or_fail(now, stopped)?;
        self.note_settled(now);
        self.watch_for_outage(now);
        self.wakes.writer = true;
        self.wakes.supervisor = true;
        self.lanes.wake_all();
        self.observe(now);
        Ok(())
    }

    /// The peer takes the lane out of the stream.
    pub fn handle_leave(&mut self, now: Instant, lane: LaneId, drained: bool) {
        self.leave(now, lane);
        self.lanes[lane].peer_says_leave(drained);
        self.lanes.wake(lane);
    }

    /// Refuses new bytes if the application reads no more. A copy that a lost or slow lane causes
    /// does not count: the application has read its bytes.
    pub(super) fn refuse_what_came(&mut self) {
        if self.only().is_some_and(|only| only.reading_stopped() && only.bytes_held() > 0) {
            self.refuse(0);
        }
    }
}
