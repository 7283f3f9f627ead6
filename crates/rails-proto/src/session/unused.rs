//! The probes that renew the estimates of a lane which gets nothing while the stream is at work.

use crate::policy::probe_interval;
use std::time::{Duration, Instant};

/// The probes of a lane to which the scheduler gives nothing.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// When the next probe is due, while the stream is at work.
    next_probe_at: Option<Instant>,
    /// The number of probes since the lane was last used.
    probes: u32,
    /// Whether the lane gets a probe when it asks next.
    due: bool,
    /// How long the lane had left waiting bytes to others when it was last used.
    left_before: Duration,
    /// Whether an event has reported the lane as unused.
    is_reported: bool,
}

impl Unused {
    /// Notes that the policy gave the lane something. The lane has left waiting bytes to others for
    /// `left_to_others` so far.
    pub(super) fn used(&mut self, left_to_others: Duration) {
        *self = Self { left_before: left_to_others, ..Self::default() };
    }

    /// Sets a time for the next probe: the stream is at work.
    pub(super) fn begin(&mut self, now: Instant) {
        self.next_probe_at.get_or_insert(now + probe_interval(self.probes));
    }

    /// Ends the probes: the stream is not at work any more, or does not need the lane.
    pub(super) fn end(&mut self) {
        self.next_probe_at = None;
    }

    /// Starts the probes afresh: the lane had stalled and makes progress again.
    pub(super) fn begin_anew(&mut self) {
        (self.next_probe_at, self.probes) = (None, 0);
    }

    /// Has the lane get a probe when it asks next, if one is due. Returns whether one is.
    pub(super) fn probe_if_due(&mut self, now: Instant) -> bool {
        let is_due = self.next_probe_at.is_some_and(|at| now >= at);
        if is_due {
            self.probes += 1;
            self.due = true;
            self.next_probe_at = Some(now + probe_interval(self.probes));
        }
        is_due
    }

    /// Whether the lane, which asks and gets nothing else, gets a probe now.
    pub(super) fn take_probe(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    /// Returns for how long the lane has not been used, if an event is to report it. It has left
    /// waiting bytes to others for `left_to_others` so far.
    pub(super) fn report(&mut self, left_to_others: Duration) -> Option<Duration> {
        let unused_for = left_to_others.saturating_sub(self.left_before);
        (unused_for >= REPORT_AFTER && !std::mem::replace(&mut self.is_reported, true)).then_some(unused_for)
    }

    /// Whether an event has reported the lane as unused.
    pub(super) fn is_reported(&self) -> bool {
        self.is_reported
    }
}

/// An event reports a lane that has left waiting bytes to others for this time.
const REPORT_AFTER: Duration = Duration::from_secs(2);
