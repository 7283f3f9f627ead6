//! The chunks that are late, and their lanes.

use super::{
    lane::Lane,
    lanes::Lanes,
    outstanding::{Outstanding, Segment, TransmissionId, bit},
};
use crate::policy::ChunkView;
use std::time::{Duration, Instant};

/// Answers questions about the times of lanes and of the bytes that they have to deliver.
pub(super) struct Late<'a> {
    lanes: &'a Lanes,
    outstanding: &'a Outstanding,
}

impl<'a> Late<'a> {
    pub(super) fn new(lanes: &'a Lanes, outstanding: &'a Outstanding) -> Self {
        Self { lanes, outstanding }
    }

    /// The chunk that the peer needs next, unless `besides` has it in flight too, as the policy
    /// sees it at `now`.
    pub(super) fn first(&self, now: Option<Instant>, besides: usize) -> Option<ChunkView> {
        let first = self.outstanding.first().filter(|first| !first.is_sent_on(besides))?;
        let by = first.responsible()?;
        self.lanes[by.lane].chunk_view(now, by, first.position())
    }

    /// The oldest chunk that `lane` answers for, of those that `besides` does not have in flight
    /// too, as the policy sees it at `now`.
    pub(super) fn oldest(&self, now: Option<Instant>, lane: usize, besides: usize) -> Option<ChunkView> {
        let mut answered = self.outstanding.answered_by(lane);
        let (number, segment) = answered.find(|(_, segment)| !segment.is_sent_on(besides))?;
        self.lanes[lane].chunk_view(now, TransmissionId { lane, number }, segment.position())
    }

    /// When `lane` took the oldest chunk that it answers for.
    pub(super) fn oldest_taken(&self, lane: usize) -> Option<Instant> {
        let (number, _) = self.outstanding.answered_by(lane).next()?;
        self.taken(TransmissionId { lane, number })
    }

    /// How long `lane` still needs to deliver the last chunk that it answers for, by its rate.
    pub(super) fn last_remaining(&self, now: Instant, lane: usize) -> Option<Duration> {
        let (number, _) = self.outstanding.answered_by(lane).next_back()?;
        self.lanes[lane].remaining(now, number)
    }

    /// The lane that alone is late: it holds the bytes that the peer needs next, and no other
    /// usable lane has any in flight that are not delivered. `None` if the peer has
    /// acknowledged nothing on the others since the lane took those bytes: then the peer may be
    /// the cause, not the lane.
    pub(super) fn alone(&self) -> Option<usize> {
        let by = self.outstanding.first()?.responsible()?;
        let (lane, taken) = (by.lane, self.taken(by)?);
        let others = self.lanes.usable() & !bit(lane);
        let is_alone = |segment: &Segment| {
            segment.responsible().is_some_and(|by| by.lane == lane) && segment.sent_on() & others == 0
        };
        let answers = |(other, state): (usize, &Lane)| {
            others & bit(other) != 0 && state.acknowledged_at().is_some_and(|at| at > taken)
        };
        (self.lanes.iter().any(answers) && self.outstanding.iter().all(is_alone)).then_some(lane)
    }

    fn taken(&self, by: TransmissionId) -> Option<Instant> {
        Some(self.lanes[by.lane].transmissions().get(by.number)?.taken())
    }
}
