//! Conclusions about the peer from the ends of its lanes: it cannot be reached, or it is gone.
//!
//! A peer whose process was killed leaves its kernel, which closes or resets every connection at once and refuses new ones. This end takes the kernel at its
//! word, as TCP does. [`Config::outage_limit`](super::Config::outage_limit) is for a peer that cannot be reached. A middlebox can reset connections too, but then the end that dials
//! gets through again. The end that is dialled waits for that: 1.5 s and four round trips.

use super::{Connection, LaneId};
use std::time::{Duration, Instant};

/// How a lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneEnd {
    /// As it should: both ends have closed it.
    Closed,
    /// By this end's own will: nothing follows from it.
    Own,
    /// The peer's kernel closed or reset it, and no frame had said why.
    ByPeer,
    /// Otherwise: its connection timed out, or what came in on it was damaged.
    Lost,
}

/// What a peer answers that is dialled again and does not take the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Its kernel: nobody listens there.
    Connection,
    /// Its listener: it does not have the stream.
    Stream,
}

/// The lanes that there were, and those that are dialled for the first time, by number: as many as a stream has numbers.
#[derive(Debug, Default)]
pub(super) struct Paths(Vec<Path>);

#[derive(Debug)]
struct Path {
    number: u16,
    state: State,
    /// The round trip of the first packets.
    rtt: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is dialled for the first time.
    Dialled,
    /// And the first attempt since the stream was opened has failed: it says nothing of the peer, and is dialled on.
    Unreached,
    Up,
    /// It ended otherwise than by the peer, or the peer has it again as far as is known.
    Lost,
    ClosedByPeer,
    /// And the peer was dialled, and refused it.
    Refused,
}

impl Paths {
    pub(super) fn up(&mut self, number: u16, rtt: Option<Duration>) {
        let path = Path { number, state: State::Up, rtt: rtt.unwrap_or_default() };
        match self.0.iter_mut().find(|path| path.number == number) {
            Some(known) => *known = path,
            None => self.0.push(path),
        }
    }

    fn down(&mut self, number: u16, end: LaneEnd) {
        match end {
            LaneEnd::Closed | LaneEnd::Own => self.0.retain(|path| path.number != number),
            LaneEnd::ByPeer => self.set(number, State::ClosedByPeer),
            LaneEnd::Lost => self.set(number, State::Lost),
        }
    }

    fn dialled(&mut self, number: u16) {
        if self.0.iter().all(|path| path.number != number) {
            self.0.push(Path { number, state: State::Dialled, rtt: Duration::ZERO });
        }
    }

    fn dial_failed(&mut self, number: u16, refused: Option<Refused>) {
        let state = self.0.iter().find(|path| path.number == number).map(|path| path.state);
        match (state, refused) {
            (Some(State::Dialled), _) => self.set(number, State::Unreached),
            (Some(State::ClosedByPeer), Some(_)) | (Some(State::Lost), Some(Refused::Stream)) => {
                self.set(number, State::Refused);
            }
            _ => {}
        }
    }

    /// Whether every lane that was up is refused now, and no other has its first attempt before it.
    fn are_refused(&self) -> bool {
        let is_up = |path: &&Path| path.state != State::Unreached;
        let mut were_up = self.0.iter().filter(is_up).peekable();
        were_up.peek().is_some() && were_up.all(|path| path.state == State::Refused)
    }

    fn set(&mut self, number: u16, state: State) {
        if let Some(path) = self.0.iter_mut().find(|path| path.number == number) {
            path.state = state;
        }
    }

    fn are_closed_by_peer(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|path| path.state == State::ClosedByPeer)
    }
}

impl Connection {
    /// This end dials the lane of that number for the first time.
    pub fn dialled(&mut self, number: u16) {
        self.paths.dialled(number);
    }

    /// The peer was dialled for the lane of that number, and the lane did not come up; `refused` says so where the peer refused it. Where the peer has refused
    /// every lane that was up, and none of them timed out, the stream fails: no peer is left.
    pub fn dial_failed(&mut self, now: Instant, number: u16, refused: Option<Refused>) {
        self.paths.dial_failed(number, refused);
        if self.outage_ends().is_some() && self.paths.are_refused() {
            self.fail_for_want_of_lanes(now);
        }
    }

    /// How long this end waits for a usable lane.
    pub(super) fn outage_timeout(&self) -> Duration {
        if self.redials || !self.paths.are_closed_by_peer() {
            return self.outage_limit;
        }
        let rtt = self.paths.0.iter().map(|path| path.rtt).max().unwrap_or_default();
        self.outage_limit.min(REDIAL_GRACE + ROUND_TRIPS * rtt)
    }

    /// Notes how a lane ended. It still has its place.
    pub(super) fn note_end(&mut self, lane: LaneId, end: LaneEnd) {
        let number = self.lanes[lane.0].number;
        let is_up = |(index, other): (usize, &super::lane::Lane)| index != lane.0 && other.up && other.number == number;
        // Another connection may have taken its place.
        if !self.lanes.iter().enumerate().any(is_up) {
            self.paths.down(number, if self.lanes[lane.0].leaving { LaneEnd::Own } else { end });
        }
    }
}

/// How long the end that is dialled waits for a lane when the peer's kernel has closed all: the peer dials at once, and a SYN that is lost is sent again after
/// 1 s.
const REDIAL_GRACE: Duration = Duration::from_millis(1500);
/// And as many round trips: for the connection and for the handshake there are three, and one is how much later the peer may have heard of it.
const ROUND_TRIPS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::{super::*, *};
    use crate::policy::Policy;

    const MS: Duration = Duration::from_millis(1);
    const LIMIT: Duration = Duration::from_secs(10);

    /// One end with that many lanes.
    fn end(redials: bool, lanes: u16, now: Instant) -> (Connection, Vec<LaneId>) {
        let parameters = TransportParameters { longest_chunk: 1 << 16, window: 1 << 20 };
        let config = Config {
            longest_chunk: 1 << 16,
            send_buffer: 1 << 20,
            parameters,
            outage_limit: LIMIT,
            linger: LIMIT,
            redials,
        };
        let mut connection = Connection::new(config, Policy::default().build(), parameters);
        let traits = |number| LaneTraits { number, weight: 1, rtt: Some(20 * MS) };
        let lanes = (0..lanes).map(|number| connection.lane_up(now, traits(number)).unwrap()).collect();
        (connection, lanes)
    }

    fn has_failed(connection: &Connection) -> bool {
        matches!(connection.failure(), Some(Failure::LanesLost { .. }))
    }

    #[test]
    fn a_peer_that_closed_and_refuses_every_lane_is_gone() {
        let now = Instant::now();
        for refused in [Refused::Connection, Refused::Stream] {
            let (mut connection, lanes) = end(true, 2, now);
            lanes.iter().for_each(|lane| connection.lane_down(now, *lane, LaneEnd::ByPeer));
            connection.dial_failed(now, 0, Some(refused));
            assert!(!has_failed(&connection), "the other path was not tried yet");
            assert_eq!(connection.poll_timeout(), Some(now + LIMIT));
            connection.dial_failed(now, 1, None);
            assert!(!has_failed(&connection), "that was not the peer's word");
            connection.dial_failed(now, 1, Some(refused));
            assert!(has_failed(&connection));
        }
    }

    #[test]
    fn a_refusal_of_one_lane_leaves_the_stream() {
        let now = Instant::now();
        let (mut connection, lanes) = end(true, 2, now);
        connection.lane_down(now, lanes[0], LaneEnd::ByPeer);
        connection.dial_failed(now, 0, Some(Refused::Stream));
        assert!(!has_failed(&connection));
        connection.lane_down(now, lanes[1], LaneEnd::ByPeer);
        assert!(!has_failed(&connection), "the second has not been dialled again");
        connection.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
        connection.dial_failed(now, 0, Some(Refused::Stream));
        assert!(!has_failed(&connection));
    }

    #[test]
    fn first_dial_of_a_path_is_waited_for() {
        let now = Instant::now();
        let (mut connection, lanes) = end(true, 1, now);
        connection.dialled(0);
        connection.dialled(1);
        connection.lane_down(now, lanes[0], LaneEnd::ByPeer);
        connection.dial_failed(now, 0, Some(Refused::Connection));
        assert!(!has_failed(&connection), "the other address was not heard yet");
        connection.dial_failed(now, 1, None);
        assert!(has_failed(&connection), "it does not answer either");

        let (mut connection, lanes) = end(true, 1, now);
        connection.dialled(1);
        connection.lane_down(now, lanes[0], LaneEnd::ByPeer);
        connection.dial_failed(now, 0, Some(Refused::Connection));
        connection.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
        connection.dial_failed(now, 0, Some(Refused::Connection));
        assert!(!has_failed(&connection), "it came up");
    }

    #[test]
    fn a_stalled_lane_outweighs_refused_connections() {
        let now = Instant::now();
        let (mut connection, lanes) = end(true, 2, now);
        connection.lane_down(now, lanes[0], LaneEnd::Lost);
        connection.lane_down(now, lanes[1], LaneEnd::ByPeer);
        connection.dial_failed(now, 0, Some(Refused::Connection));
        connection.dial_failed(now, 1, Some(Refused::Connection));
        assert!(!has_failed(&connection));
        connection.dial_failed(now, 0, Some(Refused::Stream));
        assert!(has_failed(&connection), "the peer's listener says that it does not have the stream");
    }

    #[test]
    fn the_accepting_end_waits_briefly_for_a_redial() {
        let now = Instant::now();
        let (mut connection, lanes) = end(false, 2, now);
        connection.lane_down(now, lanes[0], LaneEnd::ByPeer);
        assert_eq!(connection.poll_timeout(), None, "a lane is up");
        connection.lane_down(now, lanes[1], LaneEnd::ByPeer);
        let grace = REDIAL_GRACE + 80 * MS;
        assert_eq!(connection.poll_timeout(), Some(now + grace));
        connection.lane_up(now + grace / 2, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
        connection.handle_timeout(now + grace);
        assert!(!has_failed(&connection), "somebody in between had cut them");
    }

    #[test]
    fn the_accepting_end_waits_its_limit_in_silence() {
        let now = Instant::now();
        let (mut connection, lanes) = end(false, 2, now);
        connection.lane_down(now, lanes[0], LaneEnd::Lost);
        connection.lane_down(now, lanes[1], LaneEnd::ByPeer);
        assert_eq!(connection.poll_timeout(), Some(now + LIMIT));
    }

    #[test]
    fn a_lane_that_was_taken_out_or_replaced_says_nothing() {
        let now = Instant::now();
        let (mut connection, lanes) = end(false, 2, now);
        connection.leave(now, lanes[0]);
        connection.lane_down(now, lanes[0], LaneEnd::Lost);
        let successor = connection.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
        connection.lane_down(now, lanes[1], LaneEnd::Lost);
        connection.lane_down(now, successor, LaneEnd::ByPeer);
        assert_eq!(connection.poll_timeout(), Some(now + REDIAL_GRACE));
    }
}
