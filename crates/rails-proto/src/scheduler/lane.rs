//! One lane of the scheduler: its state, its chunks in flight and its pace.

use super::{
    outstanding::TransmissionId,
    pace::Pace,
    reissued::Reissued,
    transmissions::{Transmission, Transmissions},
};
use crate::{
    chunk::Chunk,
    link::LinkSample,
    policy::{Cause, ChunkView, LaneView},
};
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// The traits of a lane when it joins.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneTraits {
    /// The lane's number: the same at both ends and in all of its connections, and so the one by
    /// which the log, the events and the statistics name the lane. Its
    /// [slot](crate::session::LaneId) is another.
    pub number: u16,
    /// The lane's share under a [weighted](crate::policy::Policy::Weighted) policy: its nominal
    /// speed, or the application's wish.
    pub weight: u32,
    /// The lane's round trip, if this end has measured it.
    pub rtt: Option<Duration>,
}

/// A lane, as one connection of it: a lane that joins again begins anew.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// The lane has joined and not ended.
    up: bool,
    /// The lane has stalled: it answers for no bytes, and takes no more.
    stalled: bool,
    /// The lane is leaving: it takes no more, and delivers the chunks that it has.
    retired: bool,
    /// The lane is idle, and asks when it is woken.
    resting: bool,
    /// As [`LaneTraits::number`].
    number: u16,
    /// As [`LaneTraits::weight`].
    weight: u32,
    transmissions: Transmissions,
    pace: Pace,
    /// Bytes and chunks that the lane took after another lane had taken them.
    reissued: Reissued,
}

impl Lane {
    /// A lane that has joined.
    pub(super) fn joined(traits: LaneTraits) -> Self {
        let LaneTraits { number, weight, rtt } = traits;
        Self { up: true, number, weight, pace: Pace::new(rtt), ..Self::default() }
    }

    /// The lane's number: the same at both ends.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Whether the lane has joined and not ended.
    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// Whether the lane has stalled.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Whether the lane is up and has not stalled: it may answer for its chunks.
    pub(super) fn is_live(&self) -> bool {
        self.up && !self.stalled
    }

    /// Whether the lane may take chunks: it is up, and neither stalled nor retired.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_live() && !self.retired
    }

    /// How many bytes the lane has in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.transmissions.bytes()
    }

    /// How many chunks the lane has in flight.
    pub(crate) fn in_flight_chunks(&self) -> usize {
        self.transmissions.len()
    }

    /// The chunks that the lane has in flight.
    pub(super) fn transmissions(&self) -> &Transmissions {
        &self.transmissions
    }

    /// Bytes and chunks that the lane took after another lane had taken them, since it joined.
    pub(crate) fn reissued(&self) -> Reissued {
        self.reissued
    }

    /// When the peer last acknowledged a chunk on the lane.
    pub(crate) fn acknowledged_at(&self) -> Option<Instant> {
        self.pace.acknowledged_at()
    }

    /// When the lane last made progress: an acknowledgement came, or it took a chunk while it had
    /// none. `None` while it has nothing in flight.
    pub(crate) fn progress_at(&self) -> Option<Instant> {
        self.transmissions.oldest().map(|oldest| self.pace.progress_at(oldest))
    }

    /// Whether the lane has taken chunks since it joined, and the peer has acknowledged none on it.
    pub(crate) fn is_black_hole(&self) -> bool {
        self.acknowledged_at().is_none() && self.transmissions.next_number() > 0
    }

    /// Whether an acknowledgement of the first `chunks` that the lane took says anything new.
    pub(super) fn is_answered_by(&self, chunks: u64) -> bool {
        self.transmissions.acknowledged_by(chunks).is_some()
    }

    /// Whether the lane can expect an acknowledgement. After a long time none may ever come, though
    /// the transport reports no error.
    pub(super) fn is_moving(&self, now: Instant) -> bool {
        let newest = self.transmissions.newest().filter(|_| self.is_live());
        newest.is_some_and(|sent| now < self.pace.progress_at(sent) + LONGEST_WAY)
    }

    /// The lane as the policy sees it at `now`.
    pub(super) fn view(&self, now: Option<Instant>) -> LaneView {
        LaneView {
            usable: self.is_usable(),
            promising: self.is_usable() && (self.resting || !self.transmissions.is_empty()),
            weight: self.weight,
            in_flight: self.transmissions.bytes(),
            rate: self.pace.rate(now, self.transmissions.oldest()),
            rtt: self.pace.rtt(),
            chunks: self.transmissions.len(),
            service: self.pace.service(),
            service_is_bound: self.pace.is_service_bound(),
        }
    }

    /// The part at `position` of the chunk that the lane sends as `by`, as the policy sees it at
    /// `now`. `None` if the chunk is not in flight.
    pub(super) fn chunk_view(&self, now: Option<Instant>, by: TransmissionId, position: u64) -> Option<ChunkView> {
        let (sent, oldest) = (self.transmissions.get(by.number)?, self.transmissions.oldest()?);
        let age = |sent: &Transmission| now.map_or(Duration::ZERO, |now| now.saturating_duration_since(sent.taken()));
        Some(ChunkView {
            offset: position,
            lane: by.lane,
            age: age(sent),
            expected: age(oldest).max(self.pace.service().unwrap_or_default()),
            remaining: now.and_then(|now| self.remaining(now, by.number)),
        })
    }

    /// How long the lane still needs to deliver chunk `number`, by its rate. `None` if the chunk is
    /// not in flight, or the rate is not known.
    pub(super) fn remaining(&self, now: Instant, number: u64) -> Option<Duration> {
        let (sent, oldest) = (self.transmissions.get(number)?, self.transmissions.oldest()?);
        self.pace.remaining(now, self.transmissions.bytes_through(sent), oldest)
    }

    /// The transport measured the lane's link. The lane keeps the least round trip: the others met
    /// queues.
    pub(crate) fn observe(&mut self, link: &LinkSample) {
        if let Some(rtt) = link.min_rtt.or(link.rtt) {
            self.pace.observe_rtt(rtt);
        }
    }

    /// The lane takes no more, and keeps the chunks that it has.
    pub(crate) fn retire(&mut self) {
        self.retired = true;
    }

    /// The lane is idle: it asks as soon as it is woken.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.resting = true;
        self.pace.rest(now);
    }

    /// The lane asks.
    pub(super) fn wake(&mut self) {
        self.resting = false;
    }

    /// The lane delivers nothing, though it may still be up.
    pub(super) fn stall(&mut self) {
        self.stalled = true;
    }

    /// The lane delivers again, at a pace that is not known.
    pub(super) fn restore(&mut self) {
        self.stalled = false;
        self.pace.forget_estimates();
    }

    /// The lane has taken `chunk`.
    pub(super) fn put(&mut self, now: Instant, chunk: &Chunk, cause: Cause) {
        self.transmissions.put(chunk, now);
        self.reissued.count(cause, chunk.length);
    }

    /// The peer has acknowledged the first `chunks` that the lane took. Removes those in flight,
    /// and returns their ranges.
    pub(super) fn acknowledge(&mut self, now: Instant, chunks: u64) -> impl Iterator<Item = Range<u64>> {
        if let Some(acknowledged) = self.transmissions.acknowledged_by(chunks) {
            self.pace.observe(now, acknowledged);
        }
        std::iter::from_fn(move || self.transmissions.pop_before(chunks).map(|sent| sent.range()))
    }

    /// The peer has read everything below `consumed`, and this lane was `alone` in having some
    /// chunks of that in flight. The age of a chunk that other lanes had in flight too tells
    /// how slow this one is.
    pub(super) fn settle(&mut self, now: Instant, consumed: u64, alone: impl Fn(&Transmission) -> bool) {
        self.transmissions.settle(consumed, alone, |sent| self.pace.observe_age(now, sent.taken()));
    }

    /// The peer has everything, or reads no more: the lane awaits no acknowledgement.
    pub(super) fn clear(&mut self) {
        self.transmissions.clear();
    }
}

/// A lane expects no acknowledgement any more after this time, in which it sends two chunks of the
/// default maximum at 1 Mbit/s.
const LONGEST_WAY: Duration = Duration::from_secs(10);
