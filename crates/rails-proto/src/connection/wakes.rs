//! The wakes that the driver owes after a call: of idle lanes that have work, and of the tasks that wait for the stream.

use super::{
    Connection, LaneId,
    lane::{LIMITS_PER_WINDOW, part},
};
use std::time::Instant;

/// Who is to be woken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wakes {
    lanes: u64,
    timers: u64,
    /// The task that waits to read.
    pub reader: bool,
    /// The task that waits to write, to finish or for the end.
    pub writer: bool,
    /// The task that takes the events and keeps the time.
    pub supervisor: bool,
}

impl Connection {
    /// The application has read: the lanes tell the peer once it is worth a frame.
    pub(super) fn tell_the_limit(&mut self) {
        if self.incoming.is_complete() {
            return;
        }
        let limit = self.incoming.limit();
        let worth = part(self.parameters.window, LIMITS_PER_WINDOW);
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.up && limit - lane.last_ack.limit >= worth && lane.call() {
                self.wakes.lanes |= 1 << index;
            }
        }
    }

    /// Wakes as many idle lanes as there is work for.
    pub(super) fn wake_idle_lanes(&mut self, now: Instant) {
        self.wakes.writer |= self.scheduler.has_much_room();
        let mut work = self.scheduler.waiting();
        if work == 0 {
            return;
        }
        // One that was woken for something else, and will not have to wait for room, takes something too: waking another costs more than it saves.
        for (index, _) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.called) {
            if work > 0 && self.scheduler.in_flight(index) < NEEDS_NO_ROOM && self.scheduler.wants(now, index) {
                work -= 1;
            }
        }
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if work > 0 && lane.up && lane.idle && self.scheduler.wants(now, index) {
                lane.call();
                self.wakes.lanes |= 1 << index;
                work -= 1;
            }
        }
    }

    /// Wakes a lane that stands idle.
    pub(super) fn wake(&mut self, lane: LaneId) {
        if self.lanes[lane.0].call() {
            self.wakes.lanes |= 1 << lane.0;
        }
    }

    pub(super) fn wake_all_lanes(&mut self) {
        for (index, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.up) {
            lane.call();
            self.wakes.lanes |= 1 << index;
        }
    }
}

impl Wakes {
    /// The lanes to be woken: there is something to send, or one of their [timeouts](Connection::lane_timeouts) comes earlier than they were told.
    pub fn lanes(self) -> impl Iterator<Item = LaneId> {
        members(self.lanes | self.timers)
    }

    /// `lane` is to be told of an earlier timeout.
    pub(super) fn set_timer(&mut self, lane: LaneId) {
        self.timers |= 1 << lane.0;
    }

    /// `lane` is told of its timeouts.
    pub(super) fn unset_timer(&mut self, lane: LaneId) {
        self.timers &= !(1 << lane.0);
    }
}

/// The lanes in a set of lanes.
fn members(set: u64) -> impl Iterator<Item = LaneId> {
    let rest = |set: &u64| Some(set & (set - 1)).filter(|set| *set > 0);
    std::iter::successors(Some(set).filter(|set| *set > 0), rest).map(|set| LaneId(set.trailing_zeros() as usize))
}

/// So few bytes in flight that a socket has room whatever its limits are: half of the least that may wait unsent. The driver of a lane with fewer
/// need not ask its socket.
pub const NEEDS_NO_ROOM: u64 = 16 << 10;
