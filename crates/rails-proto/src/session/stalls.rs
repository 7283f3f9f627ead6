//! The time of a stream by cause: why it does not send, why its lanes are not busy, and how long
//! readable bytes wait for the application.
//!
//! Each event switches a clock from one cause to another, at the time that the driver gives. While
//! the cause stays the same, that costs one comparison.

use crate::scheduler::Scheduler;
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds};
use std::time::{Duration, Instant};

/// For how long the sending side of a stream had to wait, by cause, and for how long readable bytes
/// waited for the application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// All written bytes were sent, and the application had not finished.
    #[serde(rename = "nothing_to_send_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub nothing_to_send: Duration,
    /// Bytes waited, and the peer's window was full, or as many bytes waited for its
    /// acknowledgement as this end keeps: the peer's application reads more slowly, or a lane
    /// is late with the first missing bytes.
    #[serde(rename = "window_full_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub window_full: Duration,
    /// Bytes waited, the window had room, and every usable lane was busy: the links are the limit.
    #[serde(rename = "no_room_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub no_room: Duration,
    /// Bytes waited, the window had room, and there was no usable lane.
    #[serde(rename = "no_lane_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub no_lane: Duration,
    /// Bytes were readable, and the application had not read them. This overlaps with the other
    /// causes.
    #[serde(rename = "not_read_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub not_read: Duration,
}

/// The time of a lane while it was up. The five activities exclude each other and cover all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LaneTimes {
    /// The lane was sending, or waited for room in its socket.
    #[serde(rename = "busy_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub busy: Duration,
    /// The lane was idle: there was nothing to send.
    #[serde(rename = "nothing_to_send_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub nothing_to_send: Duration,
    /// The lane was idle: the peer's window was full.
    #[serde(rename = "window_full_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub window_full: Duration,
    /// The lane was idle: the policy left the waiting bytes to other lanes.
    #[serde(rename = "left_to_others_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub left_to_others: Duration,
    /// The lane had stalled, and the scheduler gave it nothing.
    #[serde(rename = "stalled_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub stalled: Duration,
}

/// Why the sending side of a stream does not send more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    NothingToSend,
    WindowFull,
    NoRoom,
    NoLane,
    /// An idle lane leaves the waiting bytes to others, or is about to take them.
    LeftToOthers,
    /// All bytes and the end were sent, or the stream is over.
    Drained,
}

/// The activity of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Busy,
    NothingToSend,
    WindowFull,
    LeftToOthers,
    Stalled,
}

/// Adds up the time for each of `N` causes.
#[derive(Debug)]
struct Clock<const N: usize> {
    spent: [Duration; N],
    /// The present cause, and when it began.
    running: Option<(usize, Instant)>,
}

/// The clocks of a stream.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    sending: Clock<6>,
    unread: Clock<1>,
}

/// The clock of a lane.
#[derive(Debug, Default)]
pub(super) struct LaneClock(Clock<5>);

impl Clocks {
    /// Whether the clocks run for these causes: why the sending side does not send more, and
    /// whether bytes wait for the application.
    pub(super) fn run_for(&self, cause: Cause, is_readable: bool) -> bool {
        self.sending.cause() == Some(cause as usize) && self.unread.cause().is_some() == is_readable
    }

    /// Switches the clocks to these causes at `now`. Returns whether the sending side has another
    /// cause than before.
    pub(super) fn switch(&mut self, now: Instant, cause: Cause, is_readable: bool) -> bool {
        let is_new = self.sending.cause() != Some(cause as usize);
        self.sending.switch(now, Some(cause as usize));
        self.unread.switch(now, is_readable.then_some(0));
        is_new
    }

    /// The time that the stream waited up to now, by cause.
    pub(super) fn stalls(&self, now: Instant) -> Stalls {
        let [nothing_to_send, window_full, no_room, no_lane, _, _] = self.sending.at(now);
        let [not_read] = self.unread.at(now);
        Stalls { nothing_to_send, window_full, no_room, no_lane, not_read }
    }
}

impl Cause {
    /// Why the sending side of a stream does not send more. `is_usable_lane_idle` says whether a
    /// usable lane is idle; `None` without a usable lane.
    pub(super) fn of(scheduler: &Scheduler, is_usable_lane_idle: impl FnOnce() -> Option<bool>) -> Self {
        if scheduler.buffer().lanes_worth_of_work() == 0 {
            return match (scheduler.streams().bytes(), scheduler.streams().are_finished()) {
                (0, false) => Self::NothingToSend,
                (0, true) => Self::Drained,
                _ => Self::WindowFull,
            };
        }
        match is_usable_lane_idle() {
            None => Self::NoLane,
            Some(true) => Self::LeftToOthers,
            Some(false) => Self::NoRoom,
        }
    }
}

impl LaneClock {
    /// Switches to the activity of a lane at `now`, while the stream does not send more for that
    /// cause.
    pub(super) fn switch(&mut self, now: Instant, cause: Cause, is_stalled: bool, is_idle: bool) {
        let doing = match cause {
            _ if is_stalled => Activity::Stalled,
            _ if !is_idle => Activity::Busy,
            Cause::NothingToSend | Cause::Drained => Activity::NothingToSend,
            Cause::WindowFull => Activity::WindowFull,
            Cause::NoRoom | Cause::NoLane | Cause::LeftToOthers => Activity::LeftToOthers,
        };
        self.0.switch(now, Some(doing as usize));
    }

    /// For how long the lane was idle and left waiting bytes to others.
    pub(super) fn left_to_others(&self, now: Instant) -> Duration {
        self.0.of(Activity::LeftToOthers as usize, now)
    }

    /// The lane's time while it was up, by activity.
    pub(super) fn times(&self, now: Instant) -> LaneTimes {
        let [busy, nothing_to_send, window_full, left_to_others, stalled] = self.0.at(now);
        LaneTimes { busy, nothing_to_send, window_full, left_to_others, stalled }
    }
}

impl LaneTimes {
    /// The time that the lane was up.
    pub fn total(&self) -> Duration {
        self.busy + self.nothing_to_send + self.window_full + self.left_to_others + self.stalled
    }
}

impl std::ops::AddAssign for LaneTimes {
    fn add_assign(&mut self, other: Self) {
        self.busy += other.busy;
        self.nothing_to_send += other.nothing_to_send;
        self.window_full += other.window_full;
        self.left_to_others += other.left_to_others;
        self.stalled += other.stalled;
    }
}

impl<const N: usize> Clock<N> {
    fn cause(&self) -> Option<usize> {
        self.running.map(|(cause, _)| cause)
    }

    fn switch(&mut self, now: Instant, cause: Option<usize>) {
        if self.cause() == cause {
            return;
        }
        let mut since = now;
        if let Some((before, began)) = self.running {
            self.spent[before] += now.saturating_duration_since(began);
            // Drivers read their clocks before they wait for the lock, so `now` may lie before the last switch.
            // No time counts twice.
            since = began.max(now);
        }
        self.running = cause.map(|cause| (cause, since));
    }

    fn at(&self, now: Instant) -> [Duration; N] {
        std::array::from_fn(|cause| self.of(cause, now))
    }

    fn of(&self, cause: usize, now: Instant) -> Duration {
        let running = self.running.filter(|(running, _)| *running == cause);
        self.spent[cause] + running.map_or(Duration::ZERO, |(_, since)| now.saturating_duration_since(since))
    }
}

impl<const N: usize> Default for Clock<N> {
    fn default() -> Self {
        Self { spent: [Duration::ZERO; N], running: None }
    }
}

#[cfg(test)]
mod tests;
