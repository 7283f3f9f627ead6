//! The lanes, and the bytes that each of them holds.

use super::{
    check::check,
    lane::{Lane, LaneTraits},
    lanes::Lanes,
    late::Late,
    outstanding::{Outstanding, Segment, Settled, TransmissionId, bit},
    reissued::Reissued,
};
use crate::{
    chunk::Chunk,
    policy::{Cause, ChunkView, InFlight, LaneView, Requeued, Streak},
    stream_number::StreamNumber,
    wire::Ack,
};
use std::time::Instant;

/// The lanes of a stream, and the bytes that they have taken and that are not known to be
/// delivered.
///
/// The two change together: a segment is in flight on the lanes that it names, and on no other.
/// Each change ends with a [check] of that.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    lanes: Lanes,
    outstanding: Outstanding,
    /// The latest time that a caller gave.
    now: Option<Instant>,
    /// The lane that last took new bytes.
    streak: Option<Streak>,
    /// Bytes and chunks that lanes took more than once.
    reissued: Reissued,
}

impl Flight {
    /// Lane `lane`.
    pub(super) fn lane(&self, lane: usize) -> &Lane {
        &self.lanes[lane]
    }

    /// Lane `lane`.
    pub(super) fn lane_mut(&mut self, lane: usize) -> &mut Lane {
        &mut self.lanes[lane]
    }

    /// The number of the lane in each slot, if one is up there.
    pub(super) fn numbers(&self) -> Vec<Option<u16>> {
        self.lanes.iter().map(|(_, lane)| lane.is_up().then_some(lane.number())).collect()
    }

    /// Lane `lane` as the policy sees it now.
    pub(crate) fn lane_view(&self, lane: usize) -> LaneView {
        self.lanes[lane].view(self.now)
    }

    /// Brings the [views](Flight::lane_views) up to date.
    pub(super) fn refresh_lane_views(&mut self) {
        self.lanes.refresh_views(self.now);
    }

    /// The lanes as the policy sees them, by slot.
    pub(super) fn lane_views(&self) -> &[LaneView] {
        self.lanes.views()
    }

    /// Whether a lane can expect an acknowledgement.
    pub(super) fn is_moving(&self, now: Instant) -> bool {
        self.lanes.iter().any(|(_, lane)| lane.is_moving(now))
    }

    /// Whether a lane that has not stalled has a chunk in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.lanes.iter().any(|(_, lane)| lane.is_live() && lane.in_flight_chunks() > 0)
    }

    /// Whether a lane besides `lane` has a chunk in flight.
    pub(super) fn is_in_flight_besides(&self, lane: usize) -> bool {
        self.lanes.iter().any(|(other, state)| other != lane && state.in_flight_chunks() > 0)
    }

    /// Lane `lane` has joined.
    pub(super) fn join(&mut self, lane: usize, traits: LaneTraits) {
        self.lanes.join(lane, traits);
    }

    /// Lane `lane` is lost: its bytes that are not known to be delivered are requeued.
    pub(super) fn lose(&mut self, lane: usize) {
        self.lanes.leave(lane);
        self.outstanding.lose(lane);
        self.let_others_answer();
        self.check();
    }

    /// Lane `lane` has stalled: it answers for no bytes, and takes none.
    pub(super) fn stall(&mut self, lane: usize) {
        self.lanes[lane].stall();
        self.outstanding.release(lane);
        self.let_others_answer();
        self.check();
    }

    /// Lane `lane` makes progress again: it answers for the chunks that no other lane has taken
    /// meanwhile.
    pub(super) fn restore(&mut self, lane: usize) {
        self.lanes[lane].restore();
        self.outstanding.resume(lane, self.lanes[lane].transmissions().ranges());
        self.check();
    }

    /// Live lanes answer for the requeued segments that they sent too, the one in the lowest slot
    /// first.
    fn let_others_answer(&mut self) {
        for (slot, lane) in self.lanes.iter().filter(|(_, lane)| lane.is_live()) {
            if self.outstanding.requeued_size().0 > 0 {
                self.outstanding.resume(slot, lane.transmissions().ranges());
            }
        }
    }

    /// The latest time that a caller gave.
    pub(super) fn now(&self) -> Option<Instant> {
        self.now
    }

    /// Sets the time to `now`, unless a caller has given a later one.
    pub(super) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(Some(now));
    }

    /// The lane that last took new bytes.
    pub(super) fn streak(&self) -> Option<Streak> {
        self.streak
    }

    /// Bytes and chunks that lanes took more than once, by cause.
    pub(crate) fn reissued(&self) -> Reissued {
        self.reissued
    }

    /// How many bytes lanes have taken that are not known to have arrived.
    pub(crate) fn bytes_unacknowledged(&self) -> u64 {
        self.outstanding.bytes()
    }

    /// Whether the peer has acknowledged everything sent so far.
    pub(crate) fn is_all_acknowledged(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// How many chunks the peer is known to have, or no longer wants.
    pub(super) fn delivered(&self) -> u64 {
        self.outstanding.delivered()
    }

    /// How many of the bytes in flight on `lane` are not known to be delivered by another lane.
    pub(crate) fn at_risk(&self, lane: usize) -> u64 {
        self.outstanding.bytes_sent_on(lane)
    }

    /// Answers questions about the times of bytes in flight.
    pub(super) fn late(&self) -> Late<'_> {
        Late::new(&self.lanes, &self.outstanding)
    }

    /// The lane that alone is [late](Late::alone).
    pub(crate) fn late_lane(&self) -> Option<usize> {
        self.late().alone()
    }

    /// The lane that answers for the bytes that the peer needs next.
    pub(super) fn first_lane(&self) -> Option<usize> {
        self.outstanding.first().and_then(Segment::responsible).map(|by| by.lane)
    }

    /// How many chunks the scheduler keeps until they are acknowledged.
    pub(super) fn len(&self) -> usize {
        self.outstanding.len()
    }

    /// The position of the first byte that a lane has taken and the peer has not acknowledged.
    pub(super) fn first_unacknowledged(&self) -> Option<u64> {
        self.outstanding.first().map(Segment::position)
    }

    /// How many chunks no lane answers for.
    pub(super) fn requeued_chunks(&self) -> usize {
        self.outstanding.requeued_size().0
    }

    /// The bytes that no lane answers for.
    pub(super) fn requeued(&self) -> Option<Requeued> {
        let first = self.outstanding.requeued().next()?.length() as usize;
        Some(Requeued { bytes: self.outstanding.requeued_size().1 as usize, first })
    }

    /// Gives `lane` a chunk of new bytes.
    pub(super) fn send(&mut self, now: Instant, lane: usize, chunk: &Chunk) {
        let before = self.streak.filter(|streak| streak.lane == lane).map_or(0, |streak| streak.bytes);
        self.streak = Some(Streak { lane, bytes: before + u64::from(chunk.length) });
        self.outstanding.send(chunk.clone(), self.next_transmission(lane));
        self.put(now, lane, chunk, Cause::New);
    }

    /// Gives `lane` the first requeued bytes, at most `max`.
    pub(super) fn send_requeued(&mut self, now: Instant, lane: usize, max: usize) -> Option<Chunk> {
        let position = self.outstanding.requeued().next()?.position();
        let chunk = self.outstanding.send_again(position, max, self.next_transmission(lane))?;
        self.put(now, lane, &chunk, Cause::Requeued);
        Some(chunk)
    }

    /// Gives `lane` the chunk at `position`, for which another lane answers: `lane` answers for it
    /// from here on. `None` if there is no such chunk, or if `lane` has it in flight itself.
    pub(super) fn reinject(&mut self, now: Instant, lane: usize, position: u64) -> Option<Chunk> {
        let segment = self.outstanding.at(position)?;
        if segment.responsible().is_none() || segment.is_sent_on(lane) {
            return None;
        }
        let chunk = self.outstanding.send_again(position, usize::MAX, self.next_transmission(lane))?;
        self.put(now, lane, &chunk, Cause::Reinjected);
        Some(chunk)
    }

    /// Gives `lane` a copy of at most `max` bytes that another lane has in flight, and still
    /// answers for.
    pub(super) fn probe(&mut self, now: Instant, lane: usize, max: usize) -> Option<Chunk> {
        let position = self.probe_of(lane, max)?;
        let chunk = self.outstanding.copy(position, max, self.next_transmission(lane))?;
        self.lanes[lane].wake();
        self.put(now, lane, &chunk, Cause::Probed);
        Some(chunk)
    }

    /// The position of a probe of `lane`, which has nothing in flight: the latest segment that
    /// another lane answers for and that has at most `max` bytes, or can be cut.
    pub(super) fn probe_of(&self, lane: usize, max: usize) -> Option<u64> {
        if !self.lanes[lane].is_usable() || self.lanes[lane].in_flight_chunks() > 0 {
            return None;
        }
        let fits = |segment: &&Segment| {
            segment.length() > 0 && !segment.is_sent_on(lane) && segment.responsible().is_some() && segment.fits(max)
        };
        self.outstanding.iter().rev().take(FEW).find(fits).map(Segment::position)
    }

    /// The transmission of the chunk that `lane` takes next.
    fn next_transmission(&self, lane: usize) -> TransmissionId {
        TransmissionId { lane, number: self.lanes[lane].transmissions().next_number() }
    }

    /// `lane` has taken `chunk`.
    fn put(&mut self, now: Instant, lane: usize, chunk: &Chunk, cause: Cause) {
        self.reissued.count(cause, chunk.length);
        self.lanes[lane].put(now, chunk, cause);
        self.check();
    }

    /// An acknowledgement has come on `lane`, of a peer that has read everything below `consumed`.
    /// A lane that had stalled makes progress again if it is the first to count a chunk.
    /// Returns the bytes of the chunks that it is the first to count, if there are any.
    pub(super) fn acknowledge(&mut self, now: Instant, lane: usize, ack: &Ack, consumed: u64) -> Option<u64> {
        let answers = self.lanes[lane].is_stalled() && self.lanes[lane].is_answered_by(ack.chunks);
        let mut delivered = None;
        for range in self.lanes[lane].acknowledge(now, ack.chunks) {
            *delivered.get_or_insert(0) += range.end - range.start;
            self.outstanding.deliver(range);
        }
        if ack.complete {
            self.clear();
        } else {
            self.settle(now, consumed);
        }
        if answers {
            self.restore(lane);
        }
        self.check();
        delivered
    }

    /// The peer has read everything below `consumed`. A lane that alone had a chunk of that in
    /// flight has delivered it.
    fn settle(&mut self, now: Instant, consumed: u64) {
        for (slot, lane) in self.lanes.iter_mut() {
            let sent_on = |range| self.outstanding.within(range).next().map(Segment::sent_on);
            lane.settle(now, consumed, |sent| sent_on(sent.range()) == Some(bit(slot)));
        }
        self.outstanding.deliver_below(consumed);
    }

    /// Takes the streams of which no chunk is left since the last call, and the control records
    /// that the peer has got.
    pub(super) fn take_settled(&mut self) -> Settled {
        self.outstanding.take_settled()
    }

    /// Whether a chunk of a stream is not known to be delivered.
    pub(crate) fn has_any_of(&self, stream: StreamNumber) -> bool {
        self.outstanding.has_any_of(stream)
    }

    /// The peer wants nothing more of a stream. Lanes still await acknowledgements of its chunks if
    /// there are others.
    pub(super) fn abandon(&mut self, stream: StreamNumber) {
        self.outstanding.abandon(stream);
        if self.outstanding.is_empty() {
            self.clear();
        }
        self.check();
    }

    /// The peer has everything, or reads no more.
    pub(super) fn clear(&mut self) {
        self.outstanding.clear();
        self.lanes.iter_mut().for_each(|(_, lane)| lane.clear());
        self.check();
    }

    fn check(&self) {
        check(&self.lanes, &self.outstanding);
    }
}

impl InFlight for Flight {
    fn first(&self, besides: usize) -> Option<ChunkView> {
        self.late().first(self.now, besides)
    }

    fn oldest(&self, lane: usize, besides: usize) -> Option<ChunkView> {
        self.late().oldest(self.now, lane, besides)
    }
}

/// How many of the latest segments to search for a probe: nearly always the last one fits.
const FEW: usize = 8;
