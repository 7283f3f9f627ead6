//! What a connection and its lanes have done, as figures.

use super::{Connection, LaneId, LaneTimes, Stalls};
use crate::scheduler::{ByteCount, Reissued};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How much of a window is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WindowUse {
    /// Its size.
    pub size_bytes: u64,
    /// From what has been read up to the last byte that was let out (of the peer's window) or has arrived (of this end's), as far as
    /// this end knows.
    pub used_bytes: u64,
    /// The most that this was.
    pub most_used_bytes: u64,
}

/// Bytes that have arrived and cannot be read, because others before them have not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Reordered {
    /// Now.
    pub bytes: u64,
    /// The most that there were.
    pub most_bytes: u64,
}

/// What a connection has done up to now.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Bytes that were written, and how many of them the peer is known to have read.
    pub sent: (u64, u64),
    /// Bytes that were read.
    pub read: u64,
    /// What was sent once more.
    pub reissued: Reissued,
    /// What arrived once more: bytes, and chunks with such bytes in them.
    pub duplicated: ByteCount,
    /// The peer's window.
    pub sending: WindowUse,
    /// This end's window.
    pub receiving: WindowUse,
    /// How much waits for what comes before it. `None` of messages: their bytes lie where they belong, whatever the order.
    pub reordered: Option<Reordered>,
    /// What it waited for.
    pub stalls: Stalls,
}

/// What a lane has done since it joined.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LaneFigures {
    /// What it sent that another lane had been given before.
    pub reissued: Reissued,
    /// What arrived on it and had arrived before: bytes, and chunks with such bytes in them.
    pub duplicated: ByteCount,
    /// What it did with its time.
    pub times: LaneTimes,
    /// Bytes that it was given and that are not acknowledged.
    pub in_flight: u64,
    /// Bytes per second that it was seen to carry while it was busy; `None` where none have arrived yet.
    pub rate: Option<f64>,
    /// How long a chunk takes from being taken to being acknowledged; `None` where none was yet.
    pub service: Option<Duration>,
    /// Whether it was told to be [unused](super::EventKind::Unused), and has not been used since.
    pub unused: bool,
}

/// The most that was in use of each window.
#[derive(Debug, Default)]
pub(super) struct Peaks {
    pub(super) sending: u64,
    pub(super) receiving: u64,
}

impl WindowUse {
    /// The part that is in use now, from 0 to 1.
    pub fn share(&self) -> f64 {
        part(self.used_bytes, self.size_bytes)
    }

    /// The largest part that was in use, from 0 to 1.
    pub fn most_share(&self) -> f64 {
        part(self.most_used_bytes, self.size_bytes)
    }
}

/// Of two connections of a lane: what they did is added up, and what is known of the second's speed holds.
impl std::ops::AddAssign for LaneFigures {
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

impl Connection {
    /// What it has done up to now.
    pub fn figures(&self, now: Instant) -> Figures {
        Figures {
            sent: self.sent(),
            read: self.incoming.bytes_read(),
            reissued: self.scheduler.reissued(),
            duplicated: ByteCount { bytes: self.incoming.bytes_duplicated(), chunks: self.duplicates.chunks },
            sending: WindowUse {
                size_bytes: self.scheduler.bounds().0,
                used_bytes: self.scheduler.window_used(),
                most_used_bytes: self.peaks.sending,
            },
            receiving: WindowUse {
                size_bytes: self.parameters.window,
                used_bytes: self.incoming.window_used(),
                most_used_bytes: self.peaks.receiving,
            },
            reordered: self.incoming.reordered(),
            stalls: self.stalls(now),
        }
    }

    /// What `lane`, which is up, has done since it joined.
    pub fn lane_figures(&self, now: Instant, lane: LaneId) -> LaneFigures {
        let lane_view = self.scheduler.lane_view(lane.0);
        let state = &self.lanes[lane.0];
        LaneFigures {
            reissued: self.scheduler.reissued_by(lane.0),
            duplicated: state.duplicates,
            times: state.times(now),
            in_flight: lane_view.in_flight,
            rate: lane_view.rate,
            service: lane_view.service,
            unused: state.unused.told,
        }
    }

    /// A chunk has come in on `lane`: notes whether it was there before, and how full the window is.
    pub(super) fn count_arrival(&mut self, now: Instant, lane: LaneId) {
        let duplicated = self.incoming.bytes_duplicated();
        // Messages begin to count where bytes had nothing to count.
        let again = duplicated.saturating_sub(self.duplicates.bytes);
        self.duplicates.bytes = duplicated;
        if again > 0 {
            self.duplicates.chunks += 1;
            self.lanes[lane.0].duplicates.add(again);
        } else {
            self.has_moved(now, now);
        }
        self.peaks.receiving = self.peaks.receiving.max(self.incoming.window_used());
    }
}

fn part(used: u64, size: u64) -> f64 {
    if size == 0 { 0.0 } else { used as f64 / size as f64 }
}
