//! Chunks in flight, as the policy sees them, and when a lane is late with one.

use super::{
    Scheduler, bit,
    lane::Lane,
    outstanding::{Answer, Segment},
};
use crate::policy::{ChunkView, InFlight};
use std::time::Instant;

impl Scheduler {
    /// When the oldest chunk that `lane` answers for becomes [overdue](crate::policy::SchedulerView::overdue_after), so that another lane
    /// should be asked about it.
    pub(crate) fn overdue_at(&mut self, lane: usize) -> Option<Instant> {
        if !self.policy.reinjects() {
            return None;
        }
        let (by, _) = self.oldest_segment(lane, |_| true)?;
        let taken = self.taken(by)?;
        self.refresh_lane_views();
        Some(taken + self.view().overdue_after(lane))
    }

    /// Whether another lane could deliver the last chunk that `lane` answers for sooner.
    pub(crate) fn lags(&mut self, now: Instant, lane: usize) -> bool {
        if !self.policy.reinjects() {
            return false;
        }
        let last = self.outstanding.answered_by(lane).next_back();
        let remaining = last.and_then(|(number, _)| self.lanes[lane].remaining(now, number));
        let Some(remaining) = remaining else { return false };
        self.refresh_lane_views();
        self.view().is_slower(lane, remaining)
    }

    /// Whether a lane is overdue with the chunk that the peer needs before it can read on.
    pub(crate) fn is_first_overdue(&mut self, now: Instant) -> bool {
        let answering = self.outstanding.first().and_then(Segment::answering);
        answering.and_then(|by| self.overdue_at(by.lane)).is_some_and(|at| at <= now)
    }

    /// The lane that alone is late: it holds the bytes that the peer needs next, and no other usable lane has any in flight that are not delivered.
    /// `None` if the peer has acknowledged nothing on the others since the lane took those bytes: then the peer may be the cause, not the lane.
    pub(crate) fn late_lane(&self) -> Option<usize> {
        let first = self.outstanding.first()?;
        let by = first.answering()?;
        let (lane, taken) = (by.lane, self.taken(by)?);
        let others = self.usable_lanes() & !bit(lane);
        let is_alone = |segment: &Segment| {
            segment.answering().is_some_and(|by| by.lane == lane) && segment.sent_on() & others == 0
        };
        let answers = |(other, state): (usize, &Lane)| {
            others & bit(other) != 0 && state.acknowledged_at().is_some_and(|at| at > taken)
        };
        (self.lanes.iter().enumerate().any(answers) && self.outstanding.iter().all(is_alone)).then_some(lane)
    }

    /// Whether the peer's window is full, more bytes wait, and `lane` alone is [late](Self::late_lane).
    pub(crate) fn is_held_up_by(&self, lane: usize) -> bool {
        self.bytes_waiting() > 0 && self.lanes_worth_of_work() == 0 && self.late_lane() == Some(lane)
    }

    /// The first `wanted` segment that `lane` answers for: its transmission, and its offset.
    fn oldest_segment(&self, lane: usize, wanted: impl Fn(&Segment) -> bool) -> Option<(Answer, u64)> {
        let (number, segment) = self.outstanding.answered_by(lane).find(|(_, segment)| wanted(segment))?;
        Some((Answer { lane, number }, segment.offset()))
    }

    /// When a lane took the chunk of a transmission that is in flight.
    fn taken(&self, by: Answer) -> Option<Instant> {
        Some(self.lanes[by.lane].transmissions().get(by.number)?.taken())
    }
}

impl InFlight for Scheduler {
    fn first(&self, besides: usize) -> Option<ChunkView> {
        let first = self.outstanding.first().filter(|first| !first.is_sent_on(besides))?;
        let by = first.answering()?;
        self.lanes[by.lane].chunk_view(self.now, by, first.offset())
    }

    fn oldest(&self, lane: usize, besides: usize) -> Option<ChunkView> {
        let (by, offset) = self.oldest_segment(lane, |segment| !segment.is_sent_on(besides))?;
        self.lanes[lane].chunk_view(self.now, by, offset)
    }
}
