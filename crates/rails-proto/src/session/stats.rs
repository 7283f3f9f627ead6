//! The statistics of a session and its lanes.

use super::{LaneId, LaneProgress, LaneTimes, Session, Stalls, stalls::Cause};
use crate::{
    scheduler::{ByteCount, Reissued, Unsent},
    stream_number::StreamNumber,
};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The use of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WindowUse {
    /// The window's size.
    pub size_bytes: u64,
    /// For the peer's window: the bytes between its reader and the last byte sent, as far as this
    /// end knows. For this end's window: the bytes between its reader and the last byte that
    /// has arrived.
    pub used_bytes: u64,
    /// The maximum so far.
    pub max_used_bytes: u64,
}

/// Bytes that have arrived and cannot be read, because bytes before them are missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Reordered {
    /// Bytes that wait now.
    pub bytes: u64,
    /// The maximum so far.
    pub max_bytes: u64,
}

/// The statistics of a session up to now.
#[derive(Debug, Clone, Copy)]
pub struct SessionStats {
    /// Bytes that the application has written, and how many of them the peer has read as far as
    /// this end knows.
    pub sent: (u64, u64),
    /// Bytes that the application has read.
    pub read: u64,
    /// Bytes and chunks that this end has sent more than once.
    pub reissued: Reissued,
    /// Bytes that arrived more than once, and the chunks that held such bytes.
    pub duplicated: ByteCount,
    /// Bytes that this end keeps for the peer: those that wait for a lane, and those from the first
    /// unacknowledged one to the last that a lane has taken. At most
    /// [`Config::send_buffer`](super::Config::send_buffer) and
    /// [`Config::max_unacknowledged`](super::Config::max_unacknowledged) together, and one message.
    pub kept: u64,
    /// The peer's window.
    pub sending: WindowUse,
    /// This end's window.
    pub receiving: WindowUse,
    /// Bytes that wait for missing ones. `None` if the stream carries messages, whose bytes go into
    /// place in any order.
    pub reordered: Option<Reordered>,
    /// The time that the session waited, by cause.
    pub stalls: Stalls,
}

/// The statistics of one connection of a lane, since it joined.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LaneConnectionStats {
    /// Bytes and chunks that the lane sent after another lane had taken them.
    pub reissued: Reissued,
    /// Bytes that arrived on the lane and had arrived before, and the chunks that held such bytes.
    pub duplicated: ByteCount,
    /// The lane's time, by activity.
    pub times: LaneTimes,
    /// Bytes in flight on the lane.
    pub in_flight: u64,
    /// Bytes per second that the lane carried while it was busy; `None` if the peer has
    /// acknowledged none yet.
    pub rate: Option<f64>,
    /// How long a chunk takes from the moment the lane takes it to its acknowledgement; `None`
    /// before the first acknowledgement.
    pub service: Option<Duration>,
    /// Whether an event has reported the lane as [unused](super::EventKind::Unused), and it has not
    /// been used since.
    pub unused: bool,
}

impl WindowUse {
    /// The share in use now, from 0 to 1.
    pub fn share(&self) -> f64 {
        part(self.used_bytes, self.size_bytes)
    }

    /// The maximum share so far, from 0 to 1.
    pub fn max_share(&self) -> f64 {
        part(self.max_used_bytes, self.size_bytes)
    }
}

/// Sums two connections of a lane. The speed is that of the second.
impl std::ops::AddAssign for LaneConnectionStats {
    fn add_assign(&mut self, other: Self) {
        self.reissued += other.reissued;
        self.duplicated += other.duplicated;
        self.times += other.times;
        self.in_flight += other.in_flight;
        self.rate = other.rate.or(self.rate);
        self.service = other.service.or(self.service);
        self.unused = other.unused;
    }
}

impl Session {
    /// The session's statistics up to now.
    pub fn stats(&self, now: Instant) -> SessionStats {
        SessionStats {
            sent: self.sent(),
            read: self.receiving.bytes_read(),
            reissued: self.scheduler.flight().reissued(),
            duplicated: self.receiving.duplicated(),
            kept: self.scheduler.buffer().bytes_kept(),
            sending: WindowUse {
                size_bytes: self.scheduler.window().peer(),
                used_bytes: self.scheduler.buffer().window_used(),
                max_used_bytes: self.max_window_used,
            },
            receiving: self.receiving.window_use(),
            reordered: self.receiving.reordered(),
            stalls: self.clocks.stalls(now),
        }
    }

    /// The statistics of `lane`, which is up, since it joined.
    pub fn lane_stats(&self, now: Instant, lane: LaneId) -> LaneConnectionStats {
        let lane_view = self.scheduler.flight().lane_view(lane.0);
        let state = &self.lanes[lane];
        LaneConnectionStats {
            reissued: self.scheduler.lane(lane.0).reissued(),
            duplicated: state.duplicates(),
            times: state.times(now),
            in_flight: lane_view.in_flight,
            rate: lane_view.rate,
            service: lane_view.service,
            unused: state.is_unused(),
        }
    }

    /// The progress of the lanes that are up, for the report of a standstill.
    pub fn lane_progress(&self, now: Instant) -> impl Iterator<Item = LaneProgress> + '_ {
        self.lanes.progress(now, &self.scheduler)
    }

    /// How many bytes the application has written, and how many of them the peer has read as far as
    /// this end knows.
    pub fn sent(&self) -> (u64, u64) {
        let streams = self.scheduler.streams();
        let written = match self.many {
            Some(_) => streams.used() + streams.bytes() as u64,
            None => streams.unsent(StreamNumber::FIRST).map_or(0, Unsent::bytes_written),
        };
        (written, self.scheduler.window().consumed())
    }

    /// How many bytes lanes have taken more than once.
    pub fn bytes_sent_again(&self) -> u64 {
        self.scheduler.flight().reissued().total().bytes
    }

    /// How many bytes the application has read, and how many arrived more than once.
    pub fn received(&self) -> (u64, u64) {
        (self.receiving.bytes_read(), self.receiving.duplicated().bytes)
    }

    /// Switches the clocks if the application has ended or begun a stall.
    pub(super) fn observe_application(&mut self, now: Instant) {
        if self.turn.is_none() && self.clocks.run_for(self.cause(), self.receiving.is_any_readable()) {
            self.watch_for_standstill(now);
        } else {
            self.observe(now);
        }
    }

    /// Switches the clocks to the causes at `now`.
    pub(super) fn observe(&mut self, now: Instant) {
        if let Some(turn) = &mut self.turn {
            turn.is_unobserved = true;
            return;
        }
        self.watch_for_standstill(now);
        let cause = self.cause();
        let is_new = self.clocks.switch(now, cause, self.receiving.is_any_readable());
        if is_new && cause != Cause::NothingToSend && self.scheduler.buffer().is_at_work() {
            self.lanes.stand_by(now, &self.scheduler);
        }
        self.lanes.observe(now, cause);
    }

    fn cause(&self) -> Cause {
        if self.has_failed() || self.is_delivered() {
            return Cause::Drained;
        }
        Cause::of(&self.scheduler, || self.lanes.is_any_usable_idle(&self.scheduler))
    }
}

fn part(used: u64, size: u64) -> f64 {
    if size == 0 { 0.0 } else { used as f64 / size as f64 }
}
