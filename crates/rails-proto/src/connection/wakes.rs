//! The wakes that the driver performs after a call: idle lanes with work, and tasks that wait for the stream.

use super::{
    Connection, LaneId,
    lane::{LIMITS_PER_WINDOW, part},
};
use std::time::Instant;

/// The lanes and tasks to wake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wakes {
    lanes: u64,
    timers: u64,
    /// The lanes that are to stand by.
    standing_by: u64,
    /// The task that waits to read.
    pub reader: bool,
    /// The task that waits to write, to finish or for the end.
    pub writer: bool,
    /// The task that takes the events and keeps the time.
    pub supervisor: bool,
}

impl Connection {
    /// The application has read: lanes tell the peer the new limit when it has moved enough.
    pub(super) fn tell_the_limit(&mut self) {
        if self.incoming.is_complete() {
            return;
        }
        let limit = self.incoming.limit();
        let worth = part(self.incoming.window(), LIMITS_PER_WINDOW);
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.up && limit - lane.last_ack.limit >= worth && lane.call() {
                self.wakes.lanes |= 1 << index;
            }
        }
    }

    /// Until a chunk has arrived, waiting bytes go to the lane that `near` gives, if it is as good as the others: the lane of the writer's own thread.
    pub fn prefer(&mut self, near: impl FnOnce() -> Option<LaneId>) {
        if self.answering.is_none() {
            self.answering = near().map(|lane| lane.0);
        }
    }

    /// Wakes as many idle lanes as there is work for.
    pub(super) fn wake_idle_lanes(&mut self, now: Instant) {
        self.wakes.writer |= self.scheduler.unsent().is_writer_worth_waking();
        let mut work = self.scheduler.buffer().lanes_worth_of_work();
        if work == 0 {
            return;
        }
        // A lane that another call has woken, and that has room, takes a chunk too: to wake another lane costs more than it saves.
        for (index, _) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.called) {
            if work > 0 && self.scheduler.lane(index).in_flight() < NEEDS_NO_ROOM && self.scheduler.wants(now, index) {
                work -= 1;
            }
        }
        // The lane of the latest arrival comes first: an answer carries its acknowledgement.
        for index in self.answering.into_iter().chain(0..self.lanes.len()) {
            let Some(lane) = self.lanes.get_mut(index).filter(|lane| lane.up && lane.idle) else { continue };
            if work > 0 && self.scheduler.wants(now, index) {
                lane.call();
                self.wakes.lanes |= 1 << index;
                work -= 1;
            }
        }
    }

    /// Wakes a lane if it is idle.
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
    /// The lanes to wake: first those that have something to send, then those with an earlier
    /// [timeout](Connection::lane_timeouts) than they know.
    pub fn lanes(self) -> impl Iterator<Item = LaneId> {
        members(self.lanes).chain(members((self.timers | self.standing_by) & !self.lanes))
    }

    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Takes all wakes but those that only a stream needs which waits for more than one lane.
    pub(super) fn take_urgent(&mut self) -> Self {
        let later = Self { standing_by: self.standing_by, ..Self::default() };
        Self { standing_by: 0, ..std::mem::replace(self, later) }
    }

    /// `lane` has an earlier timeout than it knows.
    pub(super) fn set_timer(&mut self, lane: LaneId) {
        self.timers |= 1 << lane.0;
    }

    /// `lane`, which is idle, has an earlier timeout than it knows, for the sake of the others.
    pub(super) fn stand_by(&mut self, lane: LaneId) {
        self.standing_by |= 1 << lane.0;
    }

    /// Gives the lanes that have no other timeout, and need none for the sake of the others.
    pub(super) fn stand_down(&mut self) -> impl Iterator<Item = LaneId> + use<> {
        members(std::mem::take(&mut self.standing_by) & !self.timers)
    }

    /// `lane` knows its timeouts.
    pub(super) fn unset_timer(&mut self, lane: LaneId) {
        self.timers &= !(1 << lane.0);
        self.standing_by &= !(1 << lane.0);
    }
}

/// The lanes in a set of lanes.
fn members(set: u64) -> impl Iterator<Item = LaneId> {
    let rest = |set: &u64| Some(set & (set - 1)).filter(|set| *set > 0);
    std::iter::successors(Some(set).filter(|set| *set > 0), rest).map(|set| LaneId(set.trailing_zeros() as usize))
}

/// With fewer bytes in flight, a socket has room under any limit: this is half of the least limit of unsent bytes. The driver of such a
/// lane need not ask its socket.
pub(crate) const NEEDS_NO_ROOM: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use crate::{
        connection::{Config, Connection, LaneId},
        lane::{LaneProtocol, Next},
        parameters::TransportParameters,
        policy::Policy,
        scheduler::LaneTraits,
        wire::DataHeader,
    };
    use bytes::Bytes;
    use std::time::{Duration, Instant};

    #[test]
    fn answer_on_the_lane_of_the_latest_arrival() {
        let now = Instant::now();
        let parameters = TransportParameters { longest_chunk: 1 << 10, window: 1 << 16 };
        let limit = Duration::from_secs(1);
        let config = Config {
            longest_chunk: 1 << 10,
            send_buffer: 1 << 16,
            max_unacknowledged: parameters.window,
            parameters,
            outage_limit: limit,
            linger: limit,
        };
        let mut connection = Connection::new(config, Policy::default().build(), parameters);
        for number in 0..3 {
            let lane = connection.lane_up(now, LaneTraits { number, ..LaneTraits::default() }).unwrap();
            let mut protocol = LaneProtocol::<Vec<u8>>::new(lane, None, None);
            assert_eq!(protocol.transmit(now, &mut connection, true), Next::Idle);
        }
        for (offset, lane) in [(0, 1), (1, 2), (2, 0)] {
            let byte = Bytes::from_static(b"1");
            let header = DataHeader::of(offset, std::slice::from_ref(&byte), false);
            connection.handle_data(now, LaneId(lane), &header, byte.clone()).unwrap();
            let _ = connection.take_wakes();
            connection.write(now, byte);
            let wakes = connection.take_wakes();
            assert_eq!((wakes.lanes, wakes.lanes().next()), (1 << lane, Some(LaneId(lane))));
            let mut control = Vec::new();
            let _ = connection.poll_transmit(now, LaneId(lane), &mut control);
            let _ = connection.poll_transmit(now, LaneId(lane), &mut control);
        }
    }
}
