//! The time of a stream by cause: why it does not send, why its lanes are not busy, and how long readable bytes wait for the application.
//!
//! Each event switches a clock from one cause to another, at the time that the driver gives. While the cause stays the same, that costs one
//! comparison.

use super::{Connection, Lane};
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds};
use std::time::{Duration, Instant};

/// For how long the sending side of a stream had to wait, by cause, and for how long readable bytes waited for the application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// All written bytes were sent, and the application had not finished.
    #[serde(rename = "nothing_to_send_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub nothing_to_send: Duration,
    /// Bytes waited, and the peer's window was full, or as many bytes waited for its acknowledgement as this end keeps: the peer's application reads more
    /// slowly, or a lane is late with the first missing bytes.
    #[serde(rename = "window_full_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub window_full: Duration,
    /// Bytes waited, the window had room, and every usable lane was busy: the links are the limit.
    #[serde(rename = "no_room_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub no_room: Duration,
    /// Bytes waited, the window had room, and there was no usable lane.
    #[serde(rename = "no_lane_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub no_lane: Duration,
    /// Bytes were readable, and the application had not read them. This overlaps with the other causes.
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
enum Cause {
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
enum Doing {
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

impl Connection {
    /// Switches the clocks if the application has ended or begun a stall.
    pub(super) fn observe_application(&mut self, now: Instant) {
        if self.clocks.sending.cause() != Some(self.cause() as usize) || self.clocks.unread.cause() != self.unread() {
            self.observe(now);
        } else {
            self.watch_for_standstill(now);
        }
    }

    /// Switches the clocks to the causes at `now`.
    pub(super) fn observe(&mut self, now: Instant) {
        self.watch_for_standstill(now);
        let (cause, unread) = (self.cause(), self.unread());
        let is_new = self.clocks.sending.cause() != Some(cause as usize);
        if is_new && cause != Cause::NothingToSend && self.scheduler.buffer().is_at_work() {
            self.stand_by(now);
        }
        self.clocks.sending.switch(now, Some(cause as usize));
        self.clocks.unread.switch(now, unread);
        for lane in self.lanes.iter_mut().filter(|lane| lane.up) {
            let doing = lane.doing(cause);
            lane.clock.0.switch(now, Some(doing as usize));
        }
    }

    /// The time that the stream waited up to now, by cause.
    pub(super) fn stalls(&self, now: Instant) -> Stalls {
        let [nothing_to_send, window_full, no_room, no_lane, _, _] = self.clocks.sending.at(now);
        let [not_read] = self.clocks.unread.at(now);
        Stalls { nothing_to_send, window_full, no_room, no_lane, not_read }
    }

    fn unread(&self) -> Option<usize> {
        self.incoming.is_readable().then_some(0)
    }

    fn cause(&self) -> Cause {
        if self.has_failed() || self.scheduler.buffer().is_complete() {
            return Cause::Drained;
        }
        if self.scheduler.buffer().lanes_worth_of_work() == 0 {
            return match (self.scheduler.unsent().bytes(), self.scheduler.unsent().is_finished()) {
                (0, false) => Cause::NothingToSend,
                (0, true) => Cause::Drained,
                _ => Cause::WindowFull,
            };
        }
        let usable = self.lanes.iter().enumerate().filter(|(index, _)| self.scheduler.lane(*index).is_usable());
        // `None` without a usable lane; else whether a usable lane is idle.
        match usable.map(|(_, lane)| lane.idle).reduce(|one, other| one || other) {
            None => Cause::NoLane,
            Some(true) => Cause::LeftToOthers,
            Some(false) => Cause::NoRoom,
        }
    }
}

impl Lane {
    /// The lane's time while it was up, by activity.
    pub(super) fn times(&self, now: Instant) -> LaneTimes {
        let [busy, nothing_to_send, window_full, left_to_others, stalled] = self.clock.0.at(now);
        LaneTimes { busy, nothing_to_send, window_full, left_to_others, stalled }
    }

    fn doing(&self, cause: Cause) -> Doing {
        match cause {
            _ if self.health.is_stalled() => Doing::Stalled,
            _ if !self.idle => Doing::Busy,
            Cause::NothingToSend | Cause::Drained => Doing::NothingToSend,
            Cause::WindowFull => Doing::WindowFull,
            Cause::NoRoom | Cause::NoLane | Cause::LeftToOthers => Doing::LeftToOthers,
        }
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
            // Drivers read their clocks before they wait for the lock, so `now` may lie before the last switch. No time counts twice.
            since = began.max(now);
        }
        self.running = cause.map(|cause| (cause, since));
    }

    fn at(&self, now: Instant) -> [Duration; N] {
        let mut spent = self.spent;
        if let Some((cause, since)) = self.running {
            spent[cause] += now.saturating_duration_since(since);
        }
        spent
    }
}

impl<const N: usize> Default for Clock<N> {
    fn default() -> Self {
        Self { spent: [Duration::ZERO; N], running: None }
    }
}

#[cfg(test)]
mod tests;
