//! What a wire did with the frames it was given.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Side;

/// What a wire has done since it was made, each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounters {
    /// Of what A sends.
    pub from_a: LineCounters,
    /// Of what B sends.
    pub from_b: LineCounters,
}

impl WireCounters {
    /// Of what that side sends.
    pub fn from(&self, side: Side) -> &LineCounters {
        match side {
            Side::A => &self.from_a,
            Side::B => &self.from_b,
        }
    }

    /// The frames that either direction lost for no reason the wire was given. A measurement over a wire is void unless
    /// this is 0.
    pub fn unplanned_drops(&self) -> u64 {
        self.from_a.unplanned_drops() + self.from_b.unplanned_drops()
    }
}

/// One direction of a wire. Frames are counted once: carried, dropped for one reason, or under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCounters {
    /// Frames that were delivered.
    pub frames: u64,
    /// Their bytes, Ethernet headers included.
    pub bytes: u64,
    /// Frames that were accepted and have yet to arrive.
    pub under_way: u64,
    /// Frames lost by the probability of loss.
    pub lost: u64,
    /// Frames for which the queue had no room.
    pub queue_full: u64,
    /// Frames that arrived at an interface that is down.
    pub interface_down: u64,
    /// Frames that the kernel dropped before the wire could take them: the wire's thread was too late, or the machine
    /// is too slow for what is sent. Not planned.
    pub overrun: u64,
    /// Frames that the kernel refused at the other end. Not planned.
    pub refused: u64,
    /// The most that a frame was delivered after the instant at which it was due. A thread that is late also takes
    /// frames late, and at once what came spread out; where this comes near the queue's length, the queue may have been
    /// full for that reason alone.
    pub greatest_lateness: Duration,
}

impl LineCounters {
    /// The frames that went for no reason the wire was given.
    pub fn unplanned_drops(&self) -> u64 {
        self.overrun + self.refused
    }
}
