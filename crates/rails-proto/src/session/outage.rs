//! The time without a lane that delivers, and its limits.

use super::EventKind;
use crate::countdown::Countdown;
use std::time::{Duration, Instant};

/// Whether the stream delivers, and for how long it may not.
#[derive(Debug)]
pub(super) struct Outage {
    /// How long the stream waits without a usable lane before it fails.
    limit: Duration,
    /// `None` while a usable lane delivers, or has nothing to deliver.
    ongoing: Option<Ongoing>,
}

/// A time in which the stream has delivered nothing, since it lost its last usable lane.
///
/// A lane that comes back proves nothing while bytes wait for their acknowledgement: a path that
/// swallows large packets lets every handshake pass.
#[derive(Debug)]
struct Ongoing {
    /// When the last usable lane was lost.
    since: Instant,
    /// The outage limit. It counts the time without a usable lane: a lane that came back has as
    /// long as it needs. A process that is stopped can neither hear of lanes nor dial them.
    limit: Countdown,
    /// The limit of a stream whose lanes the peer's kernel has closed or refuses, while it does so.
    shut: Option<Countdown>,
    /// Whether a lane is usable, and has delivered nothing yet.
    has_lane: bool,
    /// The scheduler's measure of delivery when the outage began.
    delivered: u64,
    /// The number of lanes that have joined since then.
    joined: u32,
}

/// How much the sending side delivers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery {
    /// Whether the stream has a usable lane.
    pub(super) has_lane: bool,
    /// The scheduler's measure of delivery.
    pub(super) delivered: u64,
    /// Whether the peer has acknowledged everything that was sent.
    pub(super) owes_nothing: bool,
}

impl Outage {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, ongoing: None }
    }

    /// How long the stream waits without a usable lane before it fails.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) fn is_ongoing(&self) -> bool {
        self.ongoing.is_some()
    }

    /// The number of lanes that have joined in the outage.
    pub(super) fn joined(&self) -> u32 {
        self.ongoing.as_ref().map_or(0, |outage| outage.joined)
    }

    /// Whether the time counts at whose end the stream fails. `is_any_up` says whether a lane is
    /// up, even if stalled.
    pub(super) fn is_counting(&self, is_any_up: bool) -> bool {
        // With an outage limit of zero, the stream still waits for a stalled lane.
        let counts = !self.limit.is_zero() || !is_any_up;
        counts && self.ongoing.as_ref().is_some_and(|outage| !outage.has_lane)
    }

    /// When to [check](Self::check) next.
    pub(super) fn check_at(&self, is_any_up: bool) -> Option<Instant> {
        let outage = self.ongoing.as_ref().filter(|_| self.is_counting(is_any_up))?;
        let limit = outage.limit.check_at();
        Some(outage.shut.map_or(limit, |shut| shut.check_at().min(limit)))
    }

    /// Counts the time up to `now`. Returns whether the outage has lasted too long.
    pub(super) fn check(&mut self, now: Instant, is_any_up: bool) -> bool {
        if !self.is_counting(is_any_up) {
            return false;
        }
        self.ongoing.as_mut().is_some_and(|outage| {
            let is_shut_for_long = outage.shut.as_mut().is_some_and(|shut| shut.count(now));
            outage.limit.count(now) || is_shut_for_long
        })
    }

    /// Notes when the last usable lane is gone, and when one delivers again. Returns the event, if
    /// there is one.
    pub(super) fn watch(&mut self, now: Instant, delivery: Delivery) -> Option<EventKind> {
        let Delivery { has_lane, delivered, owes_nothing } = delivery;
        match &mut self.ongoing {
            None if has_lane => {}
            None => {
                let limit = Countdown::new(now, self.limit);
                let (shut, joined) = (None, 0);
                self.ongoing = Some(Ongoing { since: now, limit, shut, has_lane: false, delivered, joined });
                return Some(EventKind::Outage);
            }
            Some(outage) if has_lane && (owes_nothing || delivered != outage.delivered) => {
                let after = now.saturating_duration_since(outage.since);
                self.ongoing = None;
                return Some(EventKind::Resumed { after });
            }
            Some(outage) if has_lane && !outage.has_lane => {
                outage.has_lane = true;
                outage.limit.interrupt(now);
            }
            Some(outage) if !has_lane && outage.has_lane => {
                outage.has_lane = false;
                outage.limit.resume(now);
            }
            Some(_) => {}
        }
        None
    }

    /// Notes in an outage whether the peer's kernel has closed or refuses every lane. Returns
    /// whether that changes the time of the next check.
    pub(super) fn note_peer(&mut self, now: Instant, is_shut: bool) -> bool {
        let limit = self.limit.min(SHUT_LIMIT);
        let Some(outage) = self.ongoing.as_mut().filter(|outage| outage.shut.is_some() != is_shut) else {
            return false;
        };
        outage.shut = is_shut.then(|| Countdown::new(now, limit));
        true
    }

    /// A lane has joined.
    pub(super) fn count_join(&mut self) {
        if let Some(outage) = &mut self.ongoing {
            outage.joined += 1;
        }
    }
}

/// How long a stream waits whose lanes the peer's kernel has closed or refuses, unless its outage
/// limit is shorter: a middlebox that was started again has come back by then, and so has a peer
/// that dials.
const SHUT_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::{
        super::{fixture::pass, *},
        *,
    };
    use crate::wire::Ack;

    const MS: Duration = Duration::from_millis(1);
    const LIMIT: Duration = Duration::from_secs(900);
    /// The round trips with which a stall ends the use of a lane soonest.
    const ROUND_TRIPS: LinkSample = LinkSample { rtt: Some(MS), rtt_variation: None, min_rtt: Some(MS) };

    fn session() -> Session {
        fixture::end(1 << 16, 1 << 20, LIMIT)
    }

    fn join(session: &mut Session, now: Instant) -> LaneId {
        let lane = session.lane_up(now, LaneTraits { rtt: Some(MS), ..LaneTraits::default() }).unwrap();
        while let Transmit::Send(_) = session.poll_transmit(now, lane, &mut Vec::new()) {}
        lane
    }

    /// The lane carries chunks, and the peer's kernel acknowledges nothing.
    fn stall(session: &mut Session, now: Instant, lane: LaneId) {
        session.check_progress(now, lane, &ROUND_TRIPS, Some(Duration::from_secs(1)));
        assert!(session.is_stalled(lane));
    }

    fn kinds(session: &mut Session) -> Vec<EventKind> {
        std::iter::from_fn(|| session.poll_event())
            .map(|event| event.kind)
            .filter(|kind| matches!(kind, EventKind::Outage | EventKind::Resumed { .. }))
            .collect()
    }

    /// A path that swallows large packets lets each handshake pass.
    #[test]
    fn lanes_that_join_in_vain_end_no_outage() {
        let (mut session, mut now) = (session(), Instant::now());
        session.write(now, StreamNumber::FIRST, vec![0; 1 << 17].into());
        let mut lane = join(&mut session, now);
        let mut out = Duration::ZERO;
        let failure = loop {
            now += 1_000 * MS;
            stall(&mut session, now, lane);
            assert!(session.is_black_hole(lane));
            now += 8_000 * MS;
            pass(&mut session, now);
            if let Some(failure) = session.failure() {
                break failure.clone();
            }
            out += 8_000 * MS;
            let successor = join(&mut session, now);
            session.lane_down(now, lane, LaneEnd::Own);
            lane = successor;
        };
        assert!(out < LIMIT && out + 8_000 * MS >= LIMIT, "{out:?}");
        assert_eq!(kinds(&mut session), [EventKind::Outage]);
        assert!(failure.suggests_large_packets_lost(), "{failure:?}");
        let words = failure.to_string();
        assert!(words.contains("112 lanes joined meanwhile") && words.contains("tcp_mtu_probing=1"), "{words}");
    }

    #[test]
    fn acknowledged_bytes_end_an_outage() {
        let (mut session, now) = (session(), Instant::now());
        session.write(now, StreamNumber::FIRST, vec![0; 1 << 16].into());
        let lane = join(&mut session, now);
        session.lane_down(now + 5 * MS, lane, LaneEnd::Lost);
        let back = now + LIMIT;
        let lane = join(&mut session, back);
        assert_eq!((session.poll_timeout(), session.failure()), (None, None), "no limit runs");
        pass(&mut session, back + LIMIT);
        assert_eq!((kinds(&mut session), session.failure()), (vec![EventKind::Outage], None));
        let ack = Ack { chunks: 1, limit: 1 << 20, complete: false };
        session.handle_ack(back + LIMIT, lane, &ack).unwrap();
        assert_eq!(kinds(&mut session), [EventKind::Resumed { after: 2 * LIMIT - 5 * MS }]);
        assert!(!session.is_black_hole(lane));
    }

    /// A lane that is back before the limit has as long as it needs, and no more once it has gone
    /// too.
    #[test]
    fn a_lane_that_came_back_has_its_time() {
        let (mut session, now) = (session(), Instant::now());
        session.write(now, StreamNumber::FIRST, vec![0; 1 << 16].into());
        let lane = join(&mut session, now);
        session.lane_down(now, lane, LaneEnd::Lost);
        pass(&mut session, now + LIMIT - MS);
        let lane = join(&mut session, now + LIMIT - MS);
        pass(&mut session, now + 2 * LIMIT);
        assert_eq!(session.failure(), None);
        session.lane_down(now + 2 * LIMIT, lane, LaneEnd::Lost);
        pass(&mut session, now + 2 * LIMIT + 2 * MS);
        let failure = session.failure().expect("the limit is over");
        assert!(!failure.suggests_large_packets_lost(), "one lane shows little: {failure}");
    }

    #[test]
    fn an_idle_stream_resumes_with_its_lane() {
        let (mut session, now) = (session(), Instant::now());
        let lane = join(&mut session, now);
        session.lane_down(now, lane, LaneEnd::Lost);
        join(&mut session, now + 7 * MS);
        assert_eq!(kinds(&mut session), [EventKind::Outage, EventKind::Resumed { after: 7 * MS }]);
    }

    #[test]
    fn a_peer_that_closes_or_refuses_gets_less_time() {
        let fails_after = |end: LaneEnd, refused: Option<Refused>| {
            let (mut session, now) = (session(), Instant::now());
            let lane = join(&mut session, now);
            session.lane_down(now, lane, end);
            session.dial_failed(now, 0, refused);
            while session.failure().is_none() {
                let at = session.poll_timeout().expect("an outage has a limit");
                session.handle_timeout(at);
                if session.failure().is_some() {
                    return at - now;
                }
            }
            Duration::ZERO
        };
        assert_eq!(fails_after(LaneEnd::Lost, None), LIMIT);
        assert_eq!(fails_after(LaneEnd::Lost, Some(Refused::Connection)), SHUT_LIMIT);
        assert_eq!(fails_after(LaneEnd::ByPeer, None), SHUT_LIMIT);
        assert_eq!(fails_after(LaneEnd::ByPeer, Some(Refused::Connection)), Duration::ZERO);
    }

    /// A middlebox refuses connections for a while.
    #[test]
    fn a_peer_that_is_silent_again_gets_its_time_back() {
        let (mut session, now) = (session(), Instant::now());
        let lane = join(&mut session, now);
        session.lane_down(now, lane, LaneEnd::Lost);
        session.dial_failed(now, 0, Some(Refused::Connection));
        pass(&mut session, now + SHUT_LIMIT - MS);
        session.dial_failed(now + SHUT_LIMIT - MS, 0, None);
        pass(&mut session, now + LIMIT - MS);
        assert_eq!(session.failure(), None);
        pass(&mut session, now + LIMIT);
        assert!(session.failure().is_some());
    }
}
