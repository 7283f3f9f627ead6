//! Checks whether a lane makes progress.

use crate::link::LinkSample;
use std::time::{Duration, Instant};

/// The health of a lane.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// When to check progress next; `None` while only an event of the lane can change anything.
    check_at: Option<Instant>,
    /// How long the lane may make no progress before it is stalled.
    progress_timeout: Option<Duration>,
    stalled_since: Option<Instant>,
    /// The link under the lane is down: the lane is stalled until it is up, even if the transport
    /// reports no stall.
    link_is_down: bool,
}

/// The result of a check of a lane's progress.
#[derive(Debug, Clone, Copy)]
pub(super) enum CheckOutcome {
    /// The lane is still stalled.
    Stalled,
    /// The lane had stalled, and makes progress again.
    Restored,
    /// Nothing on the lane waits for an answer.
    Idle,
    /// The lane has stalled: it has made no progress for too long.
    Stalls {
        /// For how long.
        stalled_for: Duration,
    },
    /// The lane may make progress.
    Waits {
        /// When to check the lane again at the soonest.
        soonest: Instant,
        /// Whether the lane is slow to answer.
        is_slow: bool,
    },
}

impl Health {
    /// When to check progress next; `None` while only an event of the lane can change anything.
    pub(super) fn check_at(&self) -> Option<Instant> {
        self.check_at
    }

    /// Has the lane checked at `at`, or not at all.
    pub(super) fn set_check(&mut self, at: Option<Instant>) {
        self.check_at = at;
    }

    /// Has the lane checked by `at`. Returns whether that is earlier than before.
    pub(super) fn check_by(&mut self, at: Instant) -> bool {
        let is_earlier = self.check_at.is_none_or(|known| at < known);
        if is_earlier {
            self.check_at = Some(at);
        }
        is_earlier
    }

    /// Checks whether the lane makes progress. By its transport, it has made none for
    /// `stalled_for`, and by the scheduler none since `progress_at`; `None` if nothing is in
    /// flight.
    pub(super) fn check(
        &mut self,
        now: Instant,
        link: &LinkSample,
        stalled_for: Option<Duration>,
        progress_at: Option<Instant>,
    ) -> CheckOutcome {
        let (rtt, variation) = (link.rtt.unwrap_or_default(), link.rtt_variation.unwrap_or_default());
        let progress_timeout = (PROGRESS_ROUND_TRIPS * rtt + 4 * variation).max(MIN_PROGRESS_TIMEOUT);
        let stalled_for = stalled_for.unwrap_or_default();
        self.progress_timeout = Some(progress_timeout);
        if self.is_stalled() {
            if stalled_for < progress_timeout && !self.link_is_down {
                return CheckOutcome::Restored;
            }
            self.check_at = (!self.link_is_down).then_some(now + progress_timeout);
            return CheckOutcome::Stalled;
        }
        let Some(progress_at) = progress_at else { return CheckOutcome::Idle };
        let unanswered_for = now.saturating_duration_since(progress_at);
        // If acknowledgements come in but no chunk gets through, the lane or the peer is slow, not stalled.
        let stalled_for = stalled_for.min(unanswered_for);
        if stalled_for >= progress_timeout {
            return CheckOutcome::Stalls { stalled_for };
        }
        let soonest = now + (progress_timeout - stalled_for).clamp(SHORTEST_CHECK_INTERVAL, LONGEST_CHECK_INTERVAL);
        CheckOutcome::Waits { soonest, is_slow: unanswered_for >= LONGEST_CHECK_INTERVAL }
    }

    /// How long the lane may make no progress before it is stalled.
    pub(super) fn progress_timeout(&self) -> Duration {
        self.progress_timeout.unwrap_or(MIN_PROGRESS_TIMEOUT)
    }

    /// The soonest check of a lane on which a chunk now waits for an acknowledgement, unless the
    /// lane has a check by then.
    pub(super) fn soonest_check(&self, now: Instant) -> Option<Instant> {
        let soon = now + LONGEST_CHECK_INTERVAL;
        self.check_at.is_none_or(|at| at > soon).then_some(soon)
    }

    /// The lane stalls. Returns when to check it next; `None` if the link is down, and an event
    /// says when it is up again.
    pub(super) fn stall(&mut self, now: Instant) -> Option<Instant> {
        self.stalled_since = Some(now);
        self.check_at = None;
        (!self.link_is_down).then_some(now + self.progress_timeout())
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled_since.is_some()
    }

    /// A stalled lane makes progress again. Returns since when it was stalled.
    pub(super) fn restore(&mut self) -> Option<Instant> {
        // An acknowledgement means that the link is up. If it was sent just before the link went down, the
        // next check finds that.
        (self.link_is_down, self.check_at) = (false, None);
        self.stalled_since.take()
    }

    /// The link went down. Returns whether the lane stalls by that.
    pub(super) fn link_down(&mut self) -> bool {
        !std::mem::replace(&mut self.link_is_down, true) && !self.is_stalled()
    }

    /// The link is up again. Returns whether the lane is to be checked now.
    pub(super) fn link_up(&mut self) -> bool {
        std::mem::take(&mut self.link_is_down) && self.is_stalled()
    }

    /// Whether the link went down longer ago than a frame travels, so that a frame that arrives now
    /// shows that the link is up again, though no event said so.
    pub(super) fn is_link_long_down(&self, now: Instant) -> bool {
        self.link_is_down && self.stalled_since.is_some_and(|since| now >= since + self.progress_timeout())
    }

    pub(super) fn is_link_down(&self) -> bool {
        self.link_is_down
    }
}

/// A lane without progress for this number of round trips is stalled: a single loss delays an
/// acknowledgement by no more than two.
const PROGRESS_ROUND_TRIPS: u32 = 3;
/// No lane stalls sooner than this: a peer may delay an acknowledgement by 40 ms (`TCP_DELACK_MIN`
/// in Linux), and a busy machine may schedule threads late.
const MIN_PROGRESS_TIMEOUT: Duration = Duration::from_millis(60);
/// The longest time between two checks of a lane with an overdue chunk: the copy on another lane
/// may be overdue too.
const LONGEST_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The shortest time between two checks of a lane that is nearly stalled.
const SHORTEST_CHECK_INTERVAL: Duration = Duration::from_millis(5);
