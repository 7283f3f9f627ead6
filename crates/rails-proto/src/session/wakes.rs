//! The wakes that the driver performs after a call: idle lanes with work, and tasks that wait for
//! the stream.

use super::LaneId;
use crate::stream_number::StreamNumber;

/// The lanes and tasks to wake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wakes {
    lanes: LaneWakes,
    /// The task that waits to read.
    pub reader: bool,
    /// The task that waits to write, to finish or for the end.
    pub writer: bool,
    /// The task that takes the events and keeps the time.
    pub supervisor: bool,
    /// Tasks that wait for a stream of a session with many:
    /// [`Session::take_stream_wakes`](super::Session::take_stream_wakes) names the streams.
    pub streams: bool,
    /// Tasks that wait for a stream of the peer.
    pub accept: bool,
    /// Tasks that wait until they may open a stream.
    pub open: bool,
    /// Tasks that wait for a datagram.
    pub datagrams: bool,
}

/// The tasks to wake that wait for a stream of a session with many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamWake {
    /// The stream.
    pub stream: StreamNumber,
    /// The task that waits to read.
    pub reader: bool,
    /// The task that waits to write, or for the end of the sending side.
    pub writer: bool,
}

/// The lanes to wake, as sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LaneWakes {
    /// The lanes that have something to send.
    woken: u64,
    /// The lanes with an earlier timeout than they know.
    timers: u64,
    /// The lanes that are to stand by.
    standing_by: u64,
}

impl Wakes {
    /// The lanes to wake: first those that have something to send, then those with an earlier
    /// [timeout](super::Session::lane_timeouts) than they know.
    pub fn lanes(self) -> impl Iterator<Item = LaneId> {
        let LaneWakes { woken, timers, standing_by } = self.lanes;
        members(woken).chain(members((timers | standing_by) & !woken))
    }

    /// Whether there is nothing to wake.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// Takes the tasks to wake, together with these lanes.
    pub(super) fn take_with(&mut self, lanes: LaneWakes) -> Self {
        Self { lanes, ..std::mem::take(self) }
    }
}

impl LaneWakes {
    /// Takes all wakes, without those that matter only to a stream that waits for more than one
    /// lane.
    pub(super) fn take_urgent(&mut self) -> Self {
        let later = Self { standing_by: self.standing_by, ..Self::default() };
        Self { standing_by: 0, ..std::mem::replace(self, later) }
    }

    /// Whether a lane is to stand by, of which a driver does not know yet.
    pub(super) fn have_standing_by(&self) -> bool {
        self.standing_by != 0
    }

    /// `lane` has something to send.
    pub(super) fn wake(&mut self, lane: LaneId) {
        self.woken |= 1 << lane.0;
    }

    /// `lane` has an earlier timeout than it knows.
    pub(super) fn set_timer(&mut self, lane: LaneId) {
        self.timers |= 1 << lane.0;
    }

    /// Has `lane`, which is idle, stand by for the others: it has an earlier timeout than it knows.
    pub(super) fn stand_by(&mut self, lane: LaneId) {
        self.standing_by |= 1 << lane.0;
    }

    /// Takes the lanes that were to stand by, and have no other timeout.
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

/// With fewer bytes in flight, a socket has room under any limit, since this is half of the least
/// limit of unsent bytes. The driver of such a lane need not ask its socket.
pub(crate) const NEEDS_NO_ROOM: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use crate::{
        lane::{LaneProtocol, Next},
        scheduler::LaneTraits,
        session::{LaneId, fixture},
        stream_number::StreamNumber,
        wire::DataHeader,
    };
    use bytes::Bytes;
    use std::time::{Duration, Instant};

    #[test]
    fn answer_on_the_lane_of_the_latest_arrival() {
        let now = Instant::now();
        let mut session = fixture::end(1 << 10, 1 << 16, Duration::from_secs(1));
        for number in 0..3 {
            let lane = session.lane_up(now, LaneTraits { number, ..LaneTraits::default() }).unwrap();
            let mut protocol = LaneProtocol::<Vec<u8>>::new(lane, None, None);
            assert_eq!(protocol.transmit(now, &mut session, true), Next::Idle);
        }
        for (offset, lane) in [(0, 1), (1, 2), (2, 0)] {
            let byte = Bytes::from_static(b"1");
            let header = DataHeader::of(StreamNumber::FIRST, offset, std::slice::from_ref(&byte), false);
            session.handle_data(now, LaneId(lane), &header, byte.clone()).unwrap();
            let _ = session.take_wakes();
            session.write(now, StreamNumber::FIRST, byte);
            let wakes = session.take_wakes();
            assert_eq!((wakes.lanes.woken, wakes.lanes().next()), (1 << lane, Some(LaneId(lane))));
            let mut control = Vec::new();
            let _ = session.poll_transmit(now, LaneId(lane), &mut control);
            let _ = session.poll_transmit(now, LaneId(lane), &mut control);
        }
    }
}
