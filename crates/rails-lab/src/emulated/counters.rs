//! The counts of an emulated link's frames.

use crate::Side;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The counts of an emulated link since it was made, by direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmulatedCounters {
    /// The counts of frames that A sends.
    pub from_a: LineCounters,
    /// The counts of frames that B sends.
    pub from_b: LineCounters,
    /// Whether the link's thread has a real-time class (`CAP_SYS_NICE`). Without one a busy machine
    /// delays the thread.
    pub is_realtime: bool,
}

impl EmulatedCounters {
    /// The counts of frames that the side sends.
    pub fn from(&self, side: Side) -> &LineCounters {
        match side {
            Side::A => &self.from_a,
            Side::B => &self.from_b,
        }
    }

    /// The frames that either direction lost for a reason other than the link's settings. A
    /// measurement over an emulated link is void unless this is 0.
    pub fn unplanned_drops(&self) -> u64 {
        self.from_a.unplanned_drops() + self.from_b.unplanned_drops()
    }
}

/// One direction of an emulated link. Each frame counts once: delivered, dropped for one reason, or
/// under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCounters {
    /// Frames that were delivered.
    pub frames: u64,
    /// Bytes of these frames, Ethernet headers included.
    pub bytes: u64,
    /// Frames that were accepted and are still under way.
    pub under_way: u64,
    /// Frames lost by the probability of loss.
    pub lost: u64,
    /// Frames for which the queue had no room.
    pub queue_full: u64,
    /// Frames that left or arrived while an end was down.
    pub interface_down: u64,
    /// Frames that the kernel dropped before the link could take them: the link's thread was too
    /// late, or the machine is too slow for the offered rate. Not planned.
    pub overrun: u64,
    /// Frames that the kernel refused at the other end. Not planned.
    pub refused: u64,
    /// The longest delay of a delivery past its due instant. A late thread also takes frames late,
    /// and in a burst; if this delay is near the queue's length, the queue may have been full for
    /// that reason alone.
    pub max_lateness: Duration,
}

impl LineCounters {
    /// The frames that went for a reason other than the link's settings.
    pub fn unplanned_drops(&self) -> u64 {
        self.overrun + self.refused
    }
}

/// Separates the drops at an emulated link's ends during outages, while an end was down, from other
/// drops.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    is_down: [bool; 2],
    /// The ends' counts of drops when the present outage began, if there is one.
    began: Option<[u64; 2]>,
    before: [u64; 2],
}

impl Outages {
    /// An end goes down, or comes up; `dropped` is the count of the two ends by then.
    pub(crate) fn set(&mut self, side: Side, is_down: bool, dropped: [u64; 2]) {
        self.is_down[side as usize] = is_down;
        if is_down {
            self.began.get_or_insert(dropped);
        } else if !self.is_down.contains(&true) {
            self.before = self.dropped(dropped);
            self.began = None;
        }
    }

    /// The part of `dropped` that fell into outages.
    pub(crate) fn dropped(&self, dropped: [u64; 2]) -> [u64; 2] {
        let began = self.began.unwrap_or(dropped);
        [0, 1].map(|end| self.before[end] + dropped[end].saturating_sub(began[end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drops_while_an_end_is_down_are_the_outages() {
        let mut outages = Outages::default();
        assert_eq!(outages.dropped([5, 5]), [0, 0]);
        outages.set(Side::B, true, [5, 5]);
        outages.set(Side::A, true, [7, 5]);
        assert_eq!(outages.dropped([8, 6]), [3, 1]);
        outages.set(Side::B, false, [9, 6]);
        assert_eq!(outages.dropped([9, 7]), [4, 2], "one end is down still");
        outages.set(Side::A, false, [9, 7]);
        assert_eq!(outages.dropped([100, 100]), [4, 2]);
        outages.set(Side::A, true, [100, 100]);
        assert_eq!(outages.dropped([101, 100]), [5, 2]);
    }
}
