//! Where the time of a stream goes: what keeps it from sending, its lanes from being busy, and what has arrived from being read.
//!
//! A clock is switched from one cause to the other where something happened, at the time that the driver says; while the cause stays the same
//! that is one comparison.

use super::{Connection, Lane};
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds};
use std::time::{Duration, Instant};

/// For how long the sending side of a stream had to wait, by cause, and how long what had arrived waited for the application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// The application had written nothing that was not sent yet, and had not finished.
    #[serde(rename = "nothing_to_send_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub nothing_to_send: Duration,
    /// Bytes waited, and the peer's window was full: its application does not read as fast, or a lane is late with what comes first.
    #[serde(rename = "window_full_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub window_full: Duration,
    /// Bytes waited that the window had room for, and every lane that can be used was busy: the links are the limit.
    #[serde(rename = "no_room_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub no_room: Duration,
    /// Bytes waited that the window had room for, and there was no lane that could be used.
    #[serde(rename = "no_lane_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub no_lane: Duration,
    /// Something could be read, and the application had not read all of it. Not exclusive of those above.
    #[serde(rename = "not_read_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub not_read: Duration,
}

/// What a lane did with its time while it was up. The five are exclusive, and there is nothing else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LaneTimes {
    /// It was sending, or waited for room in its socket.
    #[serde(rename = "busy_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub busy: Duration,
    /// It stood idle, for there was nothing to send.
    #[serde(rename = "nothing_to_send_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub nothing_to_send: Duration,
    /// It stood idle, for the peer's window was full.
    #[serde(rename = "window_full_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub window_full: Duration,
    /// It stood idle, and what waited was left to other lanes that are faster, or have a smaller share up to now.
    #[serde(rename = "left_to_others_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub left_to_others: Duration,
    /// It had stalled, and nothing was given to it.
    #[serde(rename = "stalled_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub stalled: Duration,
}

/// What the sending side of a stream is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    NothingToSend,
    WindowFull,
    NoRoom,
    NoLane,
    /// A lane stands idle that does not take what waits, or is about to.
    LeftToOthers,
    /// Everything is on its way, and the end as well; or the stream is over.
    Drained,
}

/// What a lane does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Busy,
    NothingToSend,
    WindowFull,
    LeftToOthers,
    Stalled,
}

/// Adds up for how long something had which of `N` causes.
#[derive(Debug)]
struct Clock<const N: usize> {
    spent: [Duration; N],
    /// The cause now, and since when.
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
    /// Notes the time where the application has ended or begun a stall.
    pub(super) fn observe_application(&mut self, now: Instant) {
        if self.clocks.sending.cause() != Some(self.cause() as usize) || self.clocks.unread.cause() != self.unread() {
            self.observe(now);
        } else {
            self.watch_for_standstill(now);
        }
    }

    /// Notes the time at which things are as they are.
    pub(super) fn observe(&mut self, now: Instant) {
        self.watch_for_standstill(now);
        let (cause, unread) = (self.cause(), self.unread());
        if self.clocks.sending.cause() != Some(cause as usize) && self.scheduler.waiting() > 0 {
            self.stand_by(now);
        }
        self.clocks.sending.switch(now, Some(cause as usize));
        self.clocks.unread.switch(now, unread);
        for lane in self.lanes.iter_mut().filter(|lane| lane.up) {
            let doing = lane.doing(cause);
            lane.clock.0.switch(now, Some(doing as usize));
        }
    }

    /// What the stream waited for up to now.
    pub(super) fn stalls(&self, now: Instant) -> Stalls {
        let [nothing_to_send, window_full, no_room, no_lane, _, _] = self.clocks.sending.at(now);
        let [not_read] = self.clocks.unread.at(now);
        Stalls { nothing_to_send, window_full, no_room, no_lane, not_read }
    }

    fn unread(&self) -> Option<usize> {
        self.incoming.is_readable().then_some(0)
    }

    fn cause(&self) -> Cause {
        if self.failure.is_some() || self.scheduler.is_complete() {
            return Cause::Drained;
        }
        if self.scheduler.waiting() == 0 {
            return match (self.scheduler.bytes_waiting(), self.scheduler.is_finished()) {
                (0, false) => Cause::NothingToSend,
                (0, true) => Cause::Drained,
                _ => Cause::WindowFull,
            };
        }
        let usable = self.lanes.iter().enumerate().filter(|(index, _)| self.scheduler.is_usable(*index));
        // `None` of no lane, or whether one of them stands idle.
        match usable.map(|(_, lane)| lane.idle).reduce(|one, other| one || other) {
            None => Cause::NoLane,
            Some(true) => Cause::LeftToOthers,
            Some(false) => Cause::NoRoom,
        }
    }
}

impl Lane {
    /// What it did while it was up.
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
            // Drivers read their clocks before they wait for the lock, so a time may lie before the last one: nothing is counted twice.
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
