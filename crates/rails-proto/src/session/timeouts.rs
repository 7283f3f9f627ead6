//! The timeouts of a stream and its lanes: how time passes for the parts, and the events that come
//! of it.

use super::{
    Event, EventKind, LaneId, LaneTimeouts, LinkSample, Session, StallCause, StandstillCause, health::CheckOutcome,
};
use std::time::{Duration, Instant};

impl Session {
    /// When the driver calls [`Session::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.needs_no_lane() {
            return None;
        }
        let outage = self.outage.check_at(self.lanes.is_any_up()).filter(|_| !self.is_over());
        [outage, self.ending.check_at(self.is_done()), self.standstill.check_at()].into_iter().flatten().min()
    }

    /// Handles every timeout that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let longest_round_trip = || self.lanes.longest_round_trip(&self.scheduler);
        if let Some(stood_for) = self.standstill.check(now, longest_round_trip) {
            let has_lane = self.lanes.is_any_usable(&self.scheduler);
            let cause = StandstillCause::of(&self.scheduler, has_lane, self.awaits_sending());
            self.push_event(now, None, EventKind::Standstill { cause, stood_for });
        }
        if self.ending.handle(now) && !self.is_over() {
            self.end_lingering(now);
        }
        self.check_outage(now);
    }

    /// Takes the oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) fn push_event(&mut self, at: Instant, lane: Option<LaneId>, kind: EventKind) {
        self.events.push_back(Event { at, lane, kind });
        self.wakes.supervisor = true;
    }

    /// Notes whether the stream waits for anything but its application.
    pub(super) fn watch_for_standstill(&mut self, now: Instant) {
        let awaits_receiving = self.awaits_receiving();
        let awaits_progress = !self.has_failed() && (awaits_receiving || self.awaits_sending());
        let is_covered = || !awaits_receiving && self.lanes.wait_for_one(&self.scheduler);
        self.standstill.watch(now, awaits_progress, is_covered);
    }

    /// The stream made progress at `at`: new bytes were acknowledged, have arrived or were read.
    pub(super) fn has_moved(&mut self, now: Instant, at: Instant) {
        if let Some(after) = self.standstill.moved(now, at) {
            self.push_event(now, None, EventKind::Moved { after });
        }
    }

    pub(super) fn awaits_sending(&self) -> bool {
        self.scheduler.buffer().awaits_delivery()
    }

    fn awaits_receiving(&self) -> bool {
        self.receiving.await_missing()
    }

    // A lane.

    /// When `lane` has to act without an event. Calls that name the lane may change it. After any
    /// other change, [`Wakes::lanes`](super::Wakes::lanes) names the lane.
    pub fn lane_timeouts(&mut self, lane: LaneId) -> LaneTimeouts {
        self.lanes.unset_timer(lane);
        let state = &self.lanes[lane];
        LaneTimeouts {
            acknowledge: state.acknowledger().due_at(),
            progress: self.progress_check_at(lane),
            linger: self.ending.check_at(self.is_done()),
            lingered: self.ending.has_lingered(),
            replaced: state.is_replaced(),
        }
    }

    /// When `lane` is to be [checked for progress](Session::check_progress) next; `None` while
    /// nothing on it waits for an answer.
    pub(super) fn progress_check_at(&self, lane: LaneId) -> Option<Instant> {
        self.lanes[lane].health().check_at().filter(|_| !self.is_over())
    }

    /// Checks whether `lane` makes progress, by its transport's figures of the link and the time
    /// since the last new acknowledgement; `None` while nothing waits for one. A lane without
    /// progress is stalled, and others send its chunks again.
    pub fn check_progress(&mut self, now: Instant, lane: LaneId, link: &LinkSample, stalled_for: Option<Duration>) {
        if self.is_over() {
            return;
        }
        self.scheduler.lane_mut(lane.0).observe(link);
        let progress_at = self.scheduler.lane(lane.0).progress_at();
        match self.lanes[lane].check(now, link, stalled_for, progress_at) {
            CheckOutcome::Stalled => {}
            CheckOutcome::Restored => {
                self.scheduler.restore(lane.0);
                self.has_answered(now, lane);
            }
            CheckOutcome::Idle => {
                if let Some(unused_for) = self.lanes.check_others(now, lane, &mut self.scheduler) {
                    let (own, others) = self.scheduler.arrivals(lane.0);
                    self.push_event(now, Some(lane), EventKind::Unused { unused_for, own, others });
                }
            }
            CheckOutcome::Stalls { stalled_for: stopped_for } => {
                self.note_transport(now, lane, stalled_for);
                self.stall(now, lane, StallCause::NoProgress, stopped_for);
            }
            CheckOutcome::Waits { soonest, is_slow } => {
                self.note_transport(now, lane, stalled_for);
                let check_at = self.answer_due(lane).map(|at| at.max(soonest));
                self.lanes[lane].set_check(check_at);
                if is_slow {
                    // Others may have to help.
                    self.lanes.stand_by(now, &self.scheduler);
                    self.standstill.begin();
                }
                if self.scheduler.overdue_at(lane.0).is_some_and(|overdue| overdue <= now) {
                    // Another lane may deliver the chunk sooner: wake the idle ones to ask.
                    self.lanes.wake_all();
                }
            }
        }
    }

    /// Drops a check of `lane` that is not needed any more. The driver calls this when nothing has
    /// come or gone on the lane for a while.
    pub fn rest(&mut self, lane: LaneId) {
        let is_in_flight = self.scheduler.lane(lane.0).in_flight_chunks() > 0;
        let is_needed =
            is_in_flight || !self.scheduler.lane(lane.0).is_usable() || self.scheduler.buffer().is_at_work();
        if !is_needed {
            self.lanes[lane].stand_down();
        }
    }

    /// The link under `lane` went down. The lane is stalled until the link is up again.
    pub fn link_down(&mut self, now: Instant, lane: LaneId) {
        if self.lanes[lane].link_down() {
            self.stall(now, lane, StallCause::LinkDown, Duration::ZERO);
        }
    }

    /// The link under `lane` is up again. The scheduler uses the lane as soon as its transport gets
    /// an acknowledgement.
    pub fn link_up(&mut self, now: Instant, lane: LaneId) {
        self.lanes.link_up(now, lane);
    }

    /// This end may have missed changes of links: no link counts as down any more.
    pub fn links_unknown(&mut self, now: Instant) {
        self.lanes.links_up(now);
    }

    /// Whether `lane` has stalled.
    pub fn is_stalled(&self, lane: LaneId) -> bool {
        self.lanes[lane].health().is_stalled()
    }

    /// Whether `lane` has carried chunks since it joined, and the peer has acknowledged none of
    /// them on it.
    pub fn is_black_hole(&self, lane: LaneId) -> bool {
        self.scheduler.lane(lane.0).is_black_hole()
    }

    /// A chunk on `lane` waits for an acknowledgement: its driver checks progress when that is due.
    pub(super) fn expect_answer(&mut self, now: Instant, lane: LaneId) {
        // If an earlier chunk is long overdue, its own checks cover it.
        if let Some(soonest) = self.lanes[lane].health().soonest_check(now)
            && let Some(at) = self.answer_due(lane)
        {
            self.lanes.check_by(lane, at.max(soonest));
        }
    }

    /// A stalled lane makes progress again.
    pub(super) fn has_answered(&mut self, now: Instant, lane: LaneId) {
        if let Some(since) = self.lanes[lane].restore() {
            self.push_event(now, Some(lane), EventKind::Restored { after: now.saturating_duration_since(since) });
        }
        self.expect_answer(now, lane);
        self.watch_for_outage(now);
        self.lanes.wake_all();
        self.observe(now);
    }

    fn stall(&mut self, now: Instant, lane: LaneId, cause: StallCause, stalled_for: Duration) {
        let bytes_at_risk = self.scheduler.flight().at_risk(lane.0);
        self.scheduler.stall(lane.0);
        if let Some(at) = self.lanes[lane].stall(now) {
            self.lanes.check_by(lane, at);
        }
        self.push_event(now, Some(lane), EventKind::Stalled { cause, stalled_for, bytes_at_risk });
        self.watch_for_outage(now);
        self.lanes.wake_all();
        self.owes_no_acknowledgement(lane);
        self.close_if_delivered(now);
        self.observe(now);
    }

    /// Notes when the transport last got an acknowledgement. A long chunk on a slow lane makes
    /// progress, even if it takes longer than a second. If all other lanes wait for it, the
    /// stream makes none.
    fn note_transport(&mut self, now: Instant, lane: LaneId, stalled_for: Option<Duration>) {
        let moved = stalled_for.and_then(|stalled_for| now.checked_sub(stalled_for));
        if let Some(moved) = moved.filter(|_| !self.scheduler.buffer().is_held_up_by(lane.0)) {
            self.has_moved(now, moved);
        }
    }

    /// When the progress timeout of `lane` ends, or a chunk on it is overdue.
    fn answer_due(&mut self, lane: LaneId) -> Option<Instant> {
        let stalled_at = self.scheduler.lane(lane.0).progress_at()? + self.lanes[lane].health().progress_timeout();
        Some(self.scheduler.overdue_at(lane.0).map_or(stalled_at, |overdue| overdue.min(stalled_at)))
    }
}
