//! Checks whether lanes make progress, and stalls the lanes that do not.

use super::{Connection, EventKind, LaneId, StallCause};
use std::time::{Duration, Instant};

/// The transport's figures of a lane: the kernel sees acknowledgements long before the peer acknowledges a whole chunk. `None` is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkSample {
    /// The smoothed round trip.
    pub rtt: Option<Duration>,
    /// The round trip's mean deviation.
    pub rtt_variation: Option<Duration>,
    /// The least recent round trip: one that met no queue, and did not wait for the peer's hardware address.
    pub min_rtt: Option<Duration>,
    /// The time since the last new acknowledgement; `None` while nothing waits for one.
    pub stalled_for: Option<Duration>,
}

/// The health of a lane.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// When to check progress next; `None` while only an event of the lane can change anything.
    pub(super) check_at: Option<Instant>,
    /// How long the lane may make no progress before it is stalled.
    progress_timeout: Option<Duration>,
    stalled_since: Option<Instant>,
    /// The link under the lane is down: the lane is stalled until it is up, even if the transport reports no stall.
    link_is_down: bool,
}

impl Health {
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled_since.is_some()
    }

    /// Has the lane checked by `at`. Returns whether that is earlier than before.
    pub(super) fn check_by(&mut self, at: Instant) -> bool {
        let is_earlier = self.check_at.is_none_or(|known| at < known);
        if is_earlier {
            self.check_at = Some(at);
        }
        is_earlier
    }

    pub(super) fn is_link_down(&self) -> bool {
        self.link_is_down
    }
}

impl Connection {
    /// When `lane` is to be [checked for progress](Connection::check_progress) next; `None` while nothing on it waits for an answer.
    pub(super) fn progress_check_at(&self, lane: LaneId) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        self.lanes[lane.0].health.check_at
    }

    /// Checks whether `lane` makes progress, by `sample` of its transport. A lane without progress is stalled, and others send its chunks again.
    pub fn check_progress(&mut self, now: Instant, lane: LaneId, sample: &LinkSample) {
        if self.is_over() {
            return;
        }
        if let Some(rtt) = sample.min_rtt.or(sample.rtt) {
            self.scheduler.lane_mut(lane.0).observe_rtt(rtt);
        }
        let (rtt, variation) = (sample.rtt.unwrap_or_default(), sample.rtt_variation.unwrap_or_default());
        let progress_timeout = (PROGRESS_ROUND_TRIPS * rtt + 4 * variation).max(MIN_PROGRESS_TIMEOUT);
        let stalled_for = sample.stalled_for.unwrap_or_default();
        let health = &mut self.lanes[lane.0].health;
        health.progress_timeout = Some(progress_timeout);
        if health.is_stalled() {
            if stalled_for < progress_timeout && !health.link_is_down {
                self.scheduler.restore(lane.0);
                self.has_answered(now, lane);
            } else {
                health.check_at = (!health.link_is_down).then_some(now + progress_timeout);
            }
            return;
        }
        let Some(progress) = self.scheduler.lane(lane.0).progress_at() else {
            self.lanes[lane.0].health.check_at = self.check_others(now, lane);
            return;
        };
        // A long chunk on a slow lane makes progress, even if it takes longer than a second. If all other lanes wait for it, the stream makes none.
        let moved = sample.stalled_for.and_then(|stalled_for| now.checked_sub(stalled_for));
        if let Some(moved) = moved.filter(|_| !self.scheduler.buffer().is_held_up_by(lane.0)) {
            self.has_moved(now, moved);
        }
        // If acknowledgements come in but no chunk gets through, the lane or the peer is slow, not stalled.
        let stalled_for = stalled_for.min(now.saturating_duration_since(progress));
        if stalled_for >= progress_timeout {
            return self.stall(now, lane, StallCause::NoProgress, stalled_for);
        }
        let soonest = now + (progress_timeout - stalled_for).clamp(SHORTEST_CHECK_INTERVAL, LONGEST_CHECK_INTERVAL);
        self.lanes[lane.0].health.check_at = self.answer_due(lane).map(|at| at.max(soonest));
        if now.saturating_duration_since(progress) >= LONGEST_CHECK_INTERVAL {
            // The lane is slow to answer: others may have to help.
            self.stand_by(now);
            self.standstill.begin();
        }
        if self.scheduler.overdue_at(lane.0).is_some_and(|overdue| overdue <= now) {
            // Another lane may deliver the chunk sooner: wake the idle ones to ask.
            self.wake_all_lanes();
        }
    }

    /// The link under `lane` went down. The lane is stalled until the link is up again.
    pub fn link_down(&mut self, now: Instant, lane: LaneId) {
        let state = &mut self.lanes[lane.0];
        if !state.up || std::mem::replace(&mut state.health.link_is_down, true) {
            return;
        }
        if state.health.stalled_since.is_none() {
            self.stall(now, lane, StallCause::LinkDown, Duration::ZERO);
        }
    }

    /// The link under `lane` is up again. The scheduler uses the lane as soon as its transport gets an acknowledgement.
    pub fn link_up(&mut self, now: Instant, lane: LaneId) {
        if std::mem::take(&mut self.lanes[lane.0].health.link_is_down) && self.is_stalled(lane) {
            self.check_by(lane, now);
        }
    }

    /// This end may have missed changes of links: no link counts as down any more.
    pub fn links_unknown(&mut self, now: Instant) {
        (0..self.lanes.len()).for_each(|lane| self.link_up(now, LaneId(lane)));
    }

    /// Whether `lane` has stalled.
    pub fn is_stalled(&self, lane: LaneId) -> bool {
        self.lanes[lane.0].health.is_stalled()
    }

    /// Whether `lane` has carried chunks since it joined, and the peer has acknowledged none of them on it.
    pub fn is_barren(&self, lane: LaneId) -> bool {
        self.scheduler.lane(lane.0).is_barren()
    }

    /// A stalled lane makes progress again.
    pub(super) fn has_answered(&mut self, now: Instant, lane: LaneId) {
        let health = &mut self.lanes[lane.0].health;
        // An acknowledgement means that the link is up. If it was sent just before the link went down, the next check finds that.
        (health.link_is_down, health.check_at) = (false, None);
        let stalled_since = health.stalled_since.take();
        self.lanes[lane.0].unused.begin_anew();
        if let Some(since) = stalled_since {
            self.tell(now, Some(lane), EventKind::Restored { after: now.saturating_duration_since(since) });
        }
        self.expect_answer(now, lane);
        self.watch_for_outage(now);
        self.wake_all_lanes();
        self.observe(now);
    }

    /// A frame has arrived on `lane`. If the link went down longer ago than a frame travels, the link is up again, though no event said so. The transport
    /// tells whether the way to the peer works too.
    pub(super) fn has_been_heard(&mut self, now: Instant, lane: LaneId) {
        let health = &self.lanes[lane.0].health;
        let progress_timeout = health.progress_timeout.unwrap_or(MIN_PROGRESS_TIMEOUT);
        if health.link_is_down && health.stalled_since.is_some_and(|since| now >= since + progress_timeout) {
            self.link_up(now, lane);
        }
    }

    /// A chunk on `lane` waits for an acknowledgement: its driver checks progress when that is due.
    pub(super) fn expect_answer(&mut self, now: Instant, lane: LaneId) {
        // If an earlier chunk is long overdue, its own checks cover it.
        let soon = now + LONGEST_CHECK_INTERVAL;
        if self.lanes[lane.0].health.check_at.is_none_or(|at| at > soon)
            && let Some(at) = self.answer_due(lane)
        {
            self.check_by(lane, at.max(soon));
        }
    }

    /// When the progress timeout of `lane` ends, or a chunk on it is overdue.
    fn answer_due(&mut self, lane: LaneId) -> Option<Instant> {
        let progress_timeout = self.lanes[lane.0].health.progress_timeout.unwrap_or(MIN_PROGRESS_TIMEOUT);
        let stalled_at = self.scheduler.lane(lane.0).progress_at()? + progress_timeout;
        Some(self.scheduler.overdue_at(lane.0).map_or(stalled_at, |overdue| overdue.min(stalled_at)))
    }

    /// Has the driver check the progress of `lane` by `at`, and wakes a driver that would sleep longer.
    pub(super) fn check_by(&mut self, lane: LaneId, at: Instant) {
        if self.lanes[lane.0].health.check_by(at) {
            self.wakes.set_timer(lane);
        }
    }

    fn stall(&mut self, now: Instant, lane: LaneId, cause: StallCause, stalled_for: Duration) {
        let bytes_at_risk = self.scheduler.flight().at_risk(lane.0);
        self.scheduler.stall(lane.0);
        let health = &mut self.lanes[lane.0].health;
        health.stalled_since = Some(now);
        // If the link is down, an event says when it is up again.
        health.check_at = None;
        if !health.link_is_down {
            let at = now + health.progress_timeout.unwrap_or(MIN_PROGRESS_TIMEOUT);
            self.check_by(lane, at);
        }
        self.tell(now, Some(lane), EventKind::Stalled { cause, stalled_for, bytes_at_risk });
        self.watch_for_outage(now);
        self.wake_all_lanes();
        self.observe(now);
    }
}

/// A lane without progress for so many round trips is stalled: a single loss delays an acknowledgement by no more than two.
const PROGRESS_ROUND_TRIPS: u32 = 3;
/// No lane stalls sooner than this: a peer may delay an acknowledgement by 40 ms (`TCP_DELACK_MIN` in Linux), and a busy machine may schedule threads
/// late.
const MIN_PROGRESS_TIMEOUT: Duration = Duration::from_millis(60);
/// The longest time between two checks of a lane with an overdue chunk: the copy on another lane may be overdue too.
const LONGEST_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The shortest time between two checks of a lane that is nearly stalled.
const SHORTEST_CHECK_INTERVAL: Duration = Duration::from_millis(5);
