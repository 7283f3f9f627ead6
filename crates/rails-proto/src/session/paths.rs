//! Conclusions about the peer from the ends of its lanes: it is unreachable, or its process is
//! gone.
//!
//! A lane that the peer's kernel closes or resets is no goodbye: a middlebox can cut every lane of
//! a stream that goes on, and so does a peer that gives a lane up and dials it again. So an end
//! without a lane waits: ten seconds where the peer's kernel has ended or refuses every lane, and
//! [`Config::outage_limit`](super::Config::outage_limit) in any case. The end that dials may know
//! more: when the peer's process has died, the peer's kernel refuses every new connection, and this
//! end believes the kernel, as TCP does.

/// How a lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneEnd {
    /// Both ends have closed the lane, as they should.
    Closed,
    /// This end ended the lane: that says nothing about the peer.
    Own,
    /// The peer's kernel closed or reset the lane, and no frame had given a reason.
    ByPeer,
    /// The lane's connection timed out, or its bytes arrived damaged.
    Lost,
}

/// The part of the peer that refused a lane which this end dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The peer's kernel: no socket listens there.
    Connection,
    /// The peer's listener: it does not have the stream.
    Stream,
}

/// The stream's lanes so far, and those that this end dials for the first time, by number: at most
/// as many as a stream has numbers.
#[derive(Debug, Default)]
pub(super) struct Paths(Vec<Path>);

#[derive(Debug)]
struct Path {
    number: u16,
    state: PathState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathState {
    /// This end dials the lane for the first time.
    Dialled,
    /// The lane's first attempt has failed. That says nothing about the peer, and this end goes on
    /// dialling.
    Unreached,
    Up,
    /// The lane was lost, and the peer's kernel did not close it.
    Lost,
    /// The lane was lost, and the peer's kernel refuses the connections that this end has tried
    /// since.
    LostAndRefused,
    ClosedByPeer,
    /// The peer refused the lane when this end dialled again.
    Refused,
}

impl Paths {
    /// The lane of that number has joined.
    pub(super) fn up(&mut self, number: u16) {
        let path = Path { number, state: PathState::Up };
        match self.0.iter_mut().find(|path| path.number == number) {
            Some(known) => *known = path,
            None => self.0.push(path),
        }
    }

    /// The lane of that number has ended, and no connection has taken its place.
    pub(super) fn down(&mut self, number: u16, end: LaneEnd) {
        match end {
            LaneEnd::Closed | LaneEnd::Own => self.0.retain(|path| path.number != number),
            LaneEnd::ByPeer => self.set(number, PathState::ClosedByPeer),
            LaneEnd::Lost => self.set(number, PathState::Lost),
        }
    }

    /// This end dials the lane of that number for the first time.
    pub(super) fn dialled(&mut self, number: u16) {
        if self.0.iter().all(|path| path.number != number) {
            self.0.push(Path { number, state: PathState::Dialled });
        }
    }

    /// This end dialled the lane of that number, and the lane did not come up; `refused` says which
    /// part of the peer refused it, if it did.
    pub(super) fn dial_failed(&mut self, number: u16, refused: Option<Refused>) {
        let state = self.0.iter().find(|path| path.number == number).map(|path| path.state);
        match (state, refused) {
            (Some(PathState::Dialled), _) => self.set(number, PathState::Unreached),
            (Some(PathState::ClosedByPeer), Some(_))
            | (Some(PathState::Lost | PathState::LostAndRefused), Some(Refused::Stream)) => {
                self.set(number, PathState::Refused);
            }
            (Some(PathState::Lost), Some(Refused::Connection)) => self.set(number, PathState::LostAndRefused),
            (Some(PathState::LostAndRefused), None) => self.set(number, PathState::Lost),
            _ => {}
        }
    }

    /// Whether the peer now refuses every lane that was up, and no other lane still waits for its
    /// first attempt.
    pub(super) fn are_refused(&self) -> bool {
        self.are_all(|state| state == PathState::Refused)
    }

    /// Whether the peer's kernel has closed or refuses every lane that was up, and no other lane
    /// still waits for its first attempt.
    pub(super) fn are_shut(&self) -> bool {
        self.are_all(|state| matches!(state, PathState::ClosedByPeer | PathState::LostAndRefused | PathState::Refused))
    }

    fn are_all(&self, are: impl Fn(PathState) -> bool) -> bool {
        let was_up = |path: &&Path| path.state != PathState::Unreached;
        let mut were_up = self.0.iter().filter(was_up).peekable();
        were_up.peek().is_some() && were_up.all(|path| are(path.state))
    }

    fn set(&mut self, number: u16, state: PathState) {
        if let Some(path) = self.0.iter_mut().find(|path| path.number == number) {
            path.state = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{fixture::pass, *},
        *,
    };
    use crate::wire::{Ack, DataHeader};
    use bytes::Bytes;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);
    const LIMIT: Duration = Duration::from_secs(10);

    /// Creates one end with `lanes` lanes.
    fn end(lanes: u16, now: Instant) -> (Session, Vec<LaneId>) {
        let mut session = fixture::end(1 << 16, 1 << 20, LIMIT);
        let traits = |number| LaneTraits { number, weight: 1, rtt: Some(20 * MS) };
        let lanes = (0..lanes).map(|number| session.lane_up(now, traits(number)).unwrap()).collect();
        (session, lanes)
    }

    fn has_failed(session: &Session) -> bool {
        matches!(session.failure(), Some(Failure::LanesLost { .. }))
    }

    #[test]
    fn a_peer_that_closed_and_refuses_every_lane_is_gone() {
        let now = Instant::now();
        for refused in [Refused::Connection, Refused::Stream] {
            let (mut session, lanes) = end(2, now);
            lanes.iter().for_each(|lane| session.lane_down(now, *lane, LaneEnd::ByPeer));
            session.dial_failed(now, 0, Some(refused));
            assert!(!has_failed(&session), "this end has not dialled the other path yet");
            assert!(session.poll_timeout().is_some(), "the outage limit runs");
            session.dial_failed(now, 1, None);
            assert!(!has_failed(&session), "the peer itself has not refused");
            session.dial_failed(now, 1, Some(refused));
            assert!(has_failed(&session));
        }
    }

    #[test]
    fn a_refusal_of_one_lane_leaves_the_stream() {
        let now = Instant::now();
        let (mut session, lanes) = end(2, now);
        session.lane_down(now, lanes[0], LaneEnd::ByPeer);
        session.dial_failed(now, 0, Some(Refused::Stream));
        assert!(!has_failed(&session));
        session.lane_down(now, lanes[1], LaneEnd::ByPeer);
        assert!(!has_failed(&session), "this end has not dialled the second lane again");
        session.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
        session.dial_failed(now, 0, Some(Refused::Stream));
        assert!(!has_failed(&session));
    }

    #[test]
    fn first_dial_of_a_path_is_waited_for() {
        let now = Instant::now();
        let (mut session, lanes) = end(1, now);
        session.dialled(0);
        session.dialled(1);
        session.lane_down(now, lanes[0], LaneEnd::ByPeer);
        session.dial_failed(now, 0, Some(Refused::Connection));
        assert!(!has_failed(&session), "the other address has not answered yet");
        session.dial_failed(now, 1, None);
        assert!(has_failed(&session), "the other address does not answer either");

        let (mut session, lanes) = end(1, now);
        session.dialled(1);
        session.lane_down(now, lanes[0], LaneEnd::ByPeer);
        session.dial_failed(now, 0, Some(Refused::Connection));
        session.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
        session.dial_failed(now, 0, Some(Refused::Connection));
        assert!(!has_failed(&session), "the other address came up");
    }

    #[test]
    fn a_stalled_lane_outweighs_refused_connections() {
        let now = Instant::now();
        let (mut session, lanes) = end(2, now);
        session.lane_down(now, lanes[0], LaneEnd::Lost);
        session.lane_down(now, lanes[1], LaneEnd::ByPeer);
        session.dial_failed(now, 0, Some(Refused::Connection));
        session.dial_failed(now, 1, Some(Refused::Connection));
        assert!(!has_failed(&session));
        session.dial_failed(now, 0, Some(Refused::Stream));
        assert!(has_failed(&session), "the peer's listener says that it does not have the stream");
    }

    #[test]
    fn an_end_without_a_lane_waits_for_its_limit() {
        let now = Instant::now();
        for ends in [[LaneEnd::ByPeer; 2], [LaneEnd::Lost; 2], [LaneEnd::Lost, LaneEnd::ByPeer]] {
            let (mut session, lanes) = end(2, now);
            session.lane_down(now, lanes[0], ends[0]);
            assert_eq!(session.poll_timeout(), None, "a lane is up");
            session.lane_down(now, lanes[1], ends[1]);
            assert!(session.poll_timeout().is_some(), "{ends:?}");
            pass(&mut session, now + LIMIT - MS);
            assert!(!has_failed(&session), "{ends:?}");
            pass(&mut session, now + LIMIT);
            assert!(has_failed(&session), "{ends:?}");
        }
    }

    /// Creates one end that has every byte and the end of both directions, of which the peer may
    /// not have heard.
    fn done(now: Instant) -> (Session, LaneId) {
        let (mut session, lanes) = end(1, now);
        session.finish(now, StreamNumber::FIRST);
        while session.poll_transmit(now, lanes[0], &mut Vec::new()) != Transmit::Idle {}
        session.handle_ack(now, lanes[0], &Ack { chunks: 1, limit: 1 << 20, complete: true }).unwrap();
        session.handle_data(now, lanes[0], &DataHeader::of(StreamNumber::FIRST, 0, &[], true), Bytes::new()).unwrap();
        assert!(session.is_done() && !session.has_delivered());
        (session, lanes[0])
    }

    #[test]
    fn a_done_stream_that_was_reset_waits_for_a_redial() {
        let now = Instant::now();
        for drops in [false, true] {
            let (mut session, lane) = done(now);
            if drops {
                session.drop_application(now, 0);
            }
            session.lane_down(now, lane, LaneEnd::ByPeer);
            pass(&mut session, now + Duration::from_secs(2) - MS);
            assert!(!session.has_delivered(), "a middlebox may have reset the lane");
            pass(&mut session, now + Duration::from_secs(2));
            assert!(session.has_delivered() && session.failure().is_none());
        }
    }

    #[test]
    fn a_lane_that_leaves_tells_no_end_of_the_stream() {
        let now = Instant::now();
        let (mut session, leaver) = done(now);
        session.leave(now, leaver);
        let other = session.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
        session.lane_down(now, leaver, LaneEnd::Closed);
        assert!(!session.needs_no_lane(), "the other lane has still to tell the peer");
        session.lane_down(now, other, LaneEnd::Closed);
        assert!(session.needs_no_lane());
        // The last lane may leave as well.
        let (mut session, leaver) = done(now);
        session.leave(now, leaver);
        session.lane_down(now, leaver, LaneEnd::Closed);
        pass(&mut session, now + Duration::from_secs(2) - MS);
        assert!(!session.needs_no_lane(), "the peer may return to hear of the end");
        pass(&mut session, now + Duration::from_secs(2));
        assert!(session.needs_no_lane() && session.failure().is_none());
    }

    #[test]
    fn a_done_stream_waits_longer_on_a_slow_path() {
        let now = Instant::now();
        for (rtt, redial) in [(700 * MS, 4300 * MS), (100 * LIMIT, LIMIT)] {
            let (mut session, lane) = done(now);
            session.lane_up(now, LaneTraits { rtt: Some(rtt), ..LaneTraits::default() }).unwrap();
            let slow = session.lanes().find(|other| *other != lane).unwrap();
            session.lane_down(now, lane, LaneEnd::Own);
            session.lane_down(now, slow, LaneEnd::ByPeer);
            pass(&mut session, now + redial - MS);
            assert!(!session.has_delivered(), "a redial takes so long");
            pass(&mut session, now + redial);
            assert!(session.has_delivered() && session.failure().is_none());
        }
    }

    #[test]
    fn a_peer_that_returns_late_is_told_of_the_end() {
        let now = Instant::now();
        let (mut session, lane) = done(now);
        session.lane_down(now, lane, LaneEnd::ByPeer);
        let late = now + Duration::from_secs(2) - MS;
        pass(&mut session, late);
        let lane = session.lane_up(late, LaneTraits::default()).unwrap();
        pass(&mut session, late + LIMIT);
        assert!(!session.needs_no_lane(), "the lane has still to tell the peer");
        session.lane_down(late + LIMIT, lane, LaneEnd::Closed);
        assert!(session.needs_no_lane() && session.failure().is_none());
    }

    #[test]
    fn a_done_stream_that_is_refused_has_ended() {
        let now = Instant::now();
        let (mut session, lane) = done(now);
        session.lane_down(now, lane, LaneEnd::ByPeer);
        session.dial_failed(now, 0, Some(Refused::Connection));
        assert!(session.has_delivered() && session.failure().is_none());
    }

    #[test]
    fn a_lane_in_time_ends_the_wait() {
        let now = Instant::now();
        let (mut session, lanes) = end(1, now);
        session.lane_down(now, lanes[0], LaneEnd::ByPeer);
        session.lane_up(now + LIMIT - MS, LaneTraits::default()).unwrap();
        assert_eq!(session.poll_timeout(), None);
        session.handle_timeout(now + LIMIT);
        assert!(!has_failed(&session), "a middlebox had cut the lane");
    }

    #[test]
    fn a_lane_that_was_taken_out_or_replaced_says_nothing() {
        let now = Instant::now();
        let (mut session, lanes) = end(2, now);
        session.leave(now, lanes[0]);
        session.lane_down(now, lanes[0], LaneEnd::Lost);
        let successor = session.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
        session.lane_down(now, lanes[1], LaneEnd::Lost);
        session.lane_down(now, successor, LaneEnd::ByPeer);
        session.dial_failed(now, 1, Some(Refused::Connection));
        assert!(has_failed(&session), "of the lanes that were to stay, the peer's kernel has refused all");
    }
}
