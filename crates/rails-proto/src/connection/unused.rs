//! Idle lanes while the stream is at work. They stand by for lanes whose threads are busy with something else. Probes renew the estimates of
//! a lane to which the scheduler gives nothing, and an event reports it.

use super::{Connection, EventKind, LaneId};
use crate::policy::probe_interval;
use std::time::{Duration, Instant};

/// The probes of a lane to which the scheduler gives nothing.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// When the next probe is due, while the stream is at work.
    try_at: Option<Instant>,
    /// The number of probes since the lane was last used.
    tries: u32,
    /// Whether the lane gets a probe when it asks next.
    due: bool,
    /// How long the lane had left waiting bytes to others when it was last used.
    left_before: Duration,
    /// Whether an event has reported the lane as unused.
    pub(super) told: bool,
}

impl Connection {
    /// Whether `lane`, which asks and gets nothing else, gets a probe now.
    pub(super) fn is_to_be_tried(&mut self, lane: LaneId) -> bool {
        std::mem::take(&mut self.lanes[lane.0].unused.due)
    }

    /// The policy gave `lane` something.
    pub(super) fn was_used(&mut self, now: Instant, lane: LaneId) {
        let left_before = self.lanes[lane.0].times(now).left_to_others;
        self.lanes[lane.0].unused = Unused { left_before, ..Unused::default() };
    }

    /// The stream is at work: idle lanes check its progress after a while.
    pub(super) fn stand_by(&mut self, now: Instant) {
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            if lane.up && lane.idle && self.scheduler.is_usable(index) {
                lane.unused.try_at.get_or_insert(now + lane.unused.interval());
                self.check_by(LaneId(index), now + STAND_BY);
            }
        }
    }

    /// Wakes `lane`, which has nothing in flight, if others have left work undone or its probe is due. Returns when to check again.
    pub(super) fn check_others(&mut self, now: Instant, lane: LaneId) -> Option<Instant> {
        if !self.lanes[lane.0].idle || !self.scheduler.is_usable(lane.0) || !self.scheduler.is_at_work() {
            self.lanes[lane.0].unused.try_at = None;
            return None;
        }
        let is_missed = self.scheduler.wants(now, lane.0) || self.scheduler.is_first_overdue(now);
        let can_be_tried = self.scheduler.can_probe(lane.0);
        let unused = &mut self.lanes[lane.0].unused;
        let try_at = *unused.try_at.get_or_insert(now + unused.interval());
        if is_missed {
            // The thread of the lane that was woken for it may be busy with something else.
            self.wake(lane);
        } else if can_be_tried && now >= try_at {
            unused.tries += 1;
            unused.due = true;
            unused.try_at = Some(now + unused.interval());
            self.tell_of_unused(now, lane);
            self.wake(lane);
        }
        Some(now + STAND_BY)
    }

    fn tell_of_unused(&mut self, now: Instant, lane: LaneId) {
        let left_to_others = self.lanes[lane.0].times(now).left_to_others;
        let unused = &mut self.lanes[lane.0].unused;
        let unused_for = left_to_others.saturating_sub(unused.left_before);
        if unused_for >= WORTH_TELLING && !std::mem::replace(&mut unused.told, true) {
            let (own, others) = self.scheduler.arrivals(lane.0);
            self.tell(now, Some(lane), EventKind::Unused { unused_for, own, others });
        }
    }
}

impl Unused {
    /// The lane had stalled and makes progress again: its probes start afresh.
    pub(super) fn begin_anew(&mut self) {
        (self.try_at, self.tries) = (None, 0);
    }

    fn interval(&self) -> Duration {
        probe_interval(self.tries)
    }
}

/// How often an idle lane checks, while the stream is at work, whether the other lanes take the work. Each check wakes a thread.
const STAND_BY: Duration = Duration::from_millis(100);
/// An event reports a lane that has left waiting bytes to others for so long.
const WORTH_TELLING: Duration = Duration::from_secs(2);
