//! The sending half of a lane.

use super::{StreamAccess, outgoing::Outgoing};
use crate::connection::{LaneId, LaneTimeouts, NEEDS_NO_ROOM, Transmit};
use std::time::Instant;

/// The sending half of a lane. It asks the stream for the next chunk, and puts it into frames.
#[derive(Debug)]
pub(super) struct Sender {
    lane: LaneId,
    in_flight: u64,
    unsent: Option<UnsentLimit>,
}

/// The driver's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The driver gives the connection the [outgoing](super::LaneProtocol::outgoing) bytes.
    Submit {
        /// The bytes that may wait unsent in the connection from now on, if that has changed.
        unsent_limit: Option<u64>,
    },
    /// The driver waits until the connection has room, and then calls again and says so.
    AwaitRoom,
    /// The driver waits until the stream wakes the lane or a timeout comes.
    Idle,
    /// The driver [closes the sending side](super::LaneProtocol::close_sending): nothing follows.
    Close,
}

impl Sender {
    /// Creates the half of a lane that has joined. At most `max_unsent` bytes may wait unsent in
    /// the connection, if that can be limited.
    pub(super) fn new(lane: LaneId, max_unsent: Option<u64>) -> Self {
        let unsent = max_unsent.map(|max| UnsentLimit { max, current: max });
        Self { lane, in_flight: 0, unsent }
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Decides the next step, and puts the bytes into `outgoing`, of which all is submitted.
    /// Returns the lane's timeouts too.
    pub(super) fn next<S: StreamAccess>(
        &mut self,
        now: Instant,
        stream: &mut S,
        outgoing: &mut Outgoing,
        has_room: bool,
    ) -> (Next, LaneTimeouts) {
        let lane = self.lane;
        let control = outgoing.frames();
        let (transmit, chunk_length, timeouts);
        (transmit, chunk_length, self.in_flight, timeouts) = stream.with(|connection| {
            let may_take = has_room || !connection.needs_room(lane);
            let transmit = may_take.then(|| connection.poll_transmit(now, lane, control));
            let in_flight = connection.in_flight(lane);
            let is_much = in_flight >= NEEDS_NO_ROOM && matches!(transmit, Some(Transmit::Send(Some(_))));
            let chunk_length = is_much.then(|| connection.chunk_length(lane));
            (transmit, chunk_length, in_flight, connection.lane_timeouts(lane))
        });
        let next = match transmit {
            None => Next::AwaitRoom,
            Some(Transmit::Idle) => Next::Idle,
            Some(Transmit::Close) => Next::Close,
            Some(Transmit::Send(chunk)) => {
                outgoing.put(chunk);
                let unsent_limit =
                    self.unsent.as_mut().zip(chunk_length).and_then(|(limit, length)| limit.follow(length));
                Next::Submit { unsent_limit }
            }
        };
        (next, timeouts)
    }
}

/// The bytes that may wait unsent in the connection. No other lane can take them, so they must be
/// few on a slow lane.
#[derive(Debug)]
struct UnsentLimit {
    /// The limit that the connection began with, and the greatest that this end sets.
    max: u64,
    current: u64,
}

impl UnsentLimit {
    /// Sets the limit to two chunks: the connection sends one while the other waits, so that the
    /// lane is never idle, and it has room for a whole chunk as soon as the one before is on
    /// its way. A limit somewhat too high costs less than a system call.
    fn follow(&mut self, chunk_length: usize) -> Option<u64> {
        let wanted = (2 * chunk_length as u64).min(self.max);
        let is_large = wanted > self.current + self.current / 8
            || wanted < self.current / 2
            || wanted == self.max && self.current < self.max;
        is_large.then(|| {
            self.current = wanted;
            wanted
        })
    }
}
