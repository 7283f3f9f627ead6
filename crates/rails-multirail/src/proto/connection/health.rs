//! Whether lanes make progress, and what becomes of those that do not.

use super::{Connection, Event, EventKind, Failure, LaneId, Silence};
use std::time::{Duration, Instant};

/// What a lane's transport knows of it: the kernel sees acknowledgements long before a chunk is through.
#[derive(Debug, Clone, Copy)]
pub struct LinkSample {
    /// The smoothed round trip.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_variation: Duration,
    /// For how long nothing that was sent has been acknowledged; `None` where nothing waits for it.
    pub silent_for: Option<Duration>,
}

/// The health of a lane.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// When to look next, where the lane was looked at before its time came.
    look_at: Option<Instant>,
    /// How long a lane like this may make no progress.
    patience: Option<Duration>,
    silent_since: Option<Instant>,
    /// The link under it is down: whatever the transport says, it is silent until the link is up.
    link_is_down: bool,
}

impl Health {
    pub(super) fn is_silent(&self) -> bool {
        self.silent_since.is_some()
    }
}

impl Connection {
    /// When `lane` is to be [looked at](Connection::look) next; `None` while nothing on it waits for an answer.
    pub fn look_at(&self, lane: LaneId) -> Option<Instant> {
        if self.failure.is_some() || self.is_done() {
            return None;
        }
        let health = &self.lanes[lane.0].health;
        let progress = self.scheduler.progress_at(lane.0).or(health.silent_since)?;
        let silent_at = progress + health.patience.unwrap_or(LEAST_PATIENCE);
        let next = self.scheduler.overdue_at(lane.0).map_or(silent_at, |overdue| overdue.min(silent_at));
        Some(next.max(health.look_at.unwrap_or(next)))
    }

    /// Looks whether `lane` makes progress, with what its transport knows of it now. Where it does not, it is silent: what it has is sent on the
    /// others.
    pub fn look(&mut self, now: Instant, lane: LaneId, sample: &LinkSample) {
        // None was measured yet where it is zero.
        if !sample.rtt.is_zero() {
            self.scheduler.observe_rtt(lane.0, sample.rtt);
        }
        let patience = (PATIENCE * sample.rtt + 4 * sample.rtt_variation).max(LEAST_PATIENCE);
        let health = &mut self.lanes[lane.0].health;
        health.patience = Some(patience);
        let silent_for = sample.silent_for.unwrap_or_default();
        if health.silent_since.is_some() {
            health.look_at = Some(now + patience);
            if silent_for < patience && !health.link_is_down {
                self.scheduler.restore(lane.0);
                self.has_answered(now, lane);
            }
            return;
        }
        let Some(progress) = self.scheduler.progress_at(lane.0) else { return };
        // Where acknowledgements come in but no chunk gets through, the lane is slow, or the other end is: that is not silence.
        let silent_for = silent_for.min(now.saturating_duration_since(progress));
        if silent_for >= patience {
            self.silence(now, lane, Silence::NoProgress, silent_for);
        } else {
            health.look_at = Some(now + (patience - silent_for).clamp(SHORTEST_LOOK, LONGEST_LOOK));
            if self.scheduler.overdue_at(lane.0).is_some_and(|overdue| overdue <= now) {
                // Another lane may have it there sooner; those that stand idle do not know.
                self.wake_all_lanes();
            }
        }
    }

    /// The link under `lane` went down: nothing will be heard on it until it is up again.
    pub fn link_down(&mut self, now: Instant, lane: LaneId) {
        let state = &mut self.lanes[lane.0];
        if !state.up || std::mem::replace(&mut state.health.link_is_down, true) {
            return;
        }
        if state.health.silent_since.is_none() {
            self.silence(now, lane, Silence::LinkDown, Duration::ZERO);
        }
    }

    /// The link under `lane` is up again: the lane is used as soon as its transport gets through.
    pub fn link_up(&mut self, now: Instant, lane: LaneId) {
        let health = &mut self.lanes[lane.0].health;
        if std::mem::take(&mut health.link_is_down) {
            health.look_at = Some(now);
        }
    }

    /// Whether `lane` is silent.
    pub fn is_silent(&self, lane: LaneId) -> bool {
        self.lanes[lane.0].health.is_silent()
    }

    /// When [`Connection::handle_timeout`] is to be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.failure.is_some() || self.is_done() {
            return None;
        }
        let since = self.outage_since?;
        // Without a limit to wait for, a lane that is silent is still worth more than none.
        let waits = !self.outage_limit.is_zero() || !self.lanes.iter().any(|lane| lane.up);
        waits.then_some(since + self.outage_limit)
    }

    /// The time that [`Connection::next_timeout`] named may have come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_some_and(|at| at <= now) {
            self.fail_for_want_of_lanes();
        }
    }

    /// The other end was heard of and does not have the stream any more: there is nothing to wait for where no lane is up.
    pub fn give_up_waiting(&mut self) {
        if self.next_timeout().is_some() && !self.lanes.iter().any(|lane| lane.up) {
            self.fail_for_want_of_lanes();
        }
    }

    /// What happened to the lanes since this was last asked; the oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// A lane that was silent is not any more.
    pub(super) fn has_answered(&mut self, now: Instant, lane: LaneId) {
        let health = &mut self.lanes[lane.0].health;
        if let Some(since) = health.silent_since.take() {
            health.look_at = Some(now + health.patience.unwrap_or(LEAST_PATIENCE));
            self.tell(now, Some(lane), EventKind::Restored { after: now.saturating_duration_since(since) });
        }
        self.watch_for_outage(now);
        self.wake_all_lanes();
        self.observe(now);
    }

    fn silence(&mut self, now: Instant, lane: LaneId, cause: Silence, silent_for: Duration) {
        let bytes_at_risk = self.scheduler.at_risk(lane.0);
        self.scheduler.silence(lane.0);
        let health = &mut self.lanes[lane.0].health;
        health.silent_since = Some(now);
        health.look_at = Some(now + health.patience.unwrap_or(LEAST_PATIENCE));
        self.tell(now, Some(lane), EventKind::Silenced { cause, silent_for, bytes_at_risk });
        self.watch_for_outage(now);
        self.wake_all_lanes();
        self.observe(now);
    }

    /// Notes when the last lane that can be used is gone, and when there is one again.
    pub(super) fn watch_for_outage(&mut self, now: Instant) {
        let usable = (0..self.lanes.len()).any(|lane| self.scheduler.is_usable(lane));
        if self.is_done() || self.failure.is_some() {
            return;
        }
        match self.outage_since {
            None if !usable => {
                self.outage_since = Some(now);
                self.tell(now, None, EventKind::Outage);
                if self.outage_limit.is_zero() {
                    self.handle_timeout(now);
                }
            }
            Some(since) if usable => {
                self.outage_since = None;
                self.tell(now, None, EventKind::Resumed { after: now.saturating_duration_since(since) });
            }
            _ => {}
        }
    }

    pub(super) fn tell(&mut self, at: Instant, lane: Option<LaneId>, kind: EventKind) {
        self.events.push_back(Event { at, lane, kind });
        self.wakes.supervisor = true;
    }

    fn fail_for_want_of_lanes(&mut self) {
        let delivered = self.incoming.bytes_in_order();
        let unacknowledged = self.scheduler.bytes_unacknowledged();
        self.fail(Failure::LanesLost { unacknowledged, delivered });
    }
}

/// How many round trips a lane may make no progress for: the third has had every acknowledgement that a single loss delays.
const PATIENCE: u32 = 3;
/// No lane is silent before that: a peer may hold an acknowledgement back for 40 ms (`TCP_DELACK_MIN` in Linux), and a busy machine schedules as it
/// likes.
const LEAST_PATIENCE: Duration = Duration::from_millis(60);
/// A lane with an overdue chunk is looked at as often, for the lane that takes it over may need the same.
const LONGEST_LOOK: Duration = Duration::from_millis(50);
/// A lane that is nearly silent is not looked at more often.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);
