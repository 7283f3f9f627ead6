//! The sending half of a lane.

use super::outgoing::Outgoing;
use crate::session::{LaneId, LaneTimeouts, NEEDS_NO_ROOM, Session, Transmit};
use std::time::Instant;

/// The sending half of a lane. It asks the stream for the next chunk, and puts it into frames.
#[derive(Debug)]
pub(super) struct Sender {
    lane: LaneId,
    in_flight: u64,
    unsent: Option<UnsentLimit>,
}

/// The next step of a lane, as the stream has decided it.
#[derive(Debug)]
pub(super) struct Asked {
    /// `None` if the lane is to wait for room first.
    transmit: Option<Transmit>,
    /// The longest chunk of a lane with much in flight.
    chunk_length: Option<usize>,
    /// Whether the lane asks again after the step.
    pub(super) asks: bool,
    pub(super) timeouts: LaneTimeouts,
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

    /// Decides the next step under the stream's lock. Control frames are put into `control`.
    pub(super) fn ask(&mut self, now: Instant, session: &mut Session, control: &mut Vec<u8>, has_room: bool) -> Asked {
        let lane = self.lane;
        let may_take = has_room || !session.needs_room(lane);
        let transmit = may_take.then(|| session.poll_transmit(now, lane, control));
        self.in_flight = session.in_flight(lane);
        let is_much = self.in_flight >= NEEDS_NO_ROOM && matches!(transmit, Some(Transmit::Send(Some(_))));
        let chunk_length = is_much.then(|| session.chunk_length(lane));
        // A small message is mostly all that there is to send.
        let rests = match transmit {
            Some(Transmit::Send(_)) => session.rests(now, lane),
            Some(Transmit::Idle) => true,
            Some(Transmit::Close) | None => false,
        };
        Asked { transmit, chunk_length, asks: !rests, timeouts: session.lane_timeouts(lane) }
    }

    /// Puts the bytes of a step into `outgoing`, of which all is submitted.
    pub(super) fn take(&mut self, asked: Asked, outgoing: &mut Outgoing) -> Next {
        match asked.transmit {
            None => Next::AwaitRoom,
            Some(Transmit::Idle) => Next::Idle,
            Some(Transmit::Close) => Next::Close,
            Some(Transmit::Send(chunk)) => {
                outgoing.put(chunk);
                let limit = self.unsent.as_mut().zip(asked.chunk_length);
                Next::Submit { unsent_limit: limit.and_then(|(limit, length)| limit.follow(length)) }
            }
        }
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
