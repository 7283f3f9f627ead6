use super::*;
use crate::{
    scheduler::LaneTraits,
    session::{LinkSample, Session, Transmit, fixture},
    stream_number::StreamNumber,
};
use bytes::Bytes;

const MS: Duration = Duration::from_millis(1);

/// A stream with idle lanes.
fn session<const N: usize>(now: Instant) -> (Session, [LaneId; N]) {
    let mut session = fixture::end(1000, 1_000_000, 100 * MS);
    let lanes = std::array::from_fn(|number| {
        let traits = LaneTraits { number: number as u16, ..LaneTraits::default() };
        session.lane_up(now, traits).expect("there is room")
    });
    for lane in lanes {
        assert!(matches!(session.poll_transmit(now, lane, &mut Vec::new()), Transmit::Idle));
    }
    let _ = session.take_wakes();
    (session, lanes)
}

/// Has `lane` send a message, and go idle.
fn send(session: &mut Session, now: Instant, lane: LaneId) {
    session.write(now, StreamNumber::FIRST, Bytes::from_static(b"message"));
    assert!(matches!(session.poll_transmit(now, lane, &mut Vec::new()), Transmit::Send(Some(_))));
    assert!(matches!(session.poll_transmit(now, lane, &mut Vec::new()), Transmit::Idle));
}

fn woken(session: &mut Session) -> (Vec<LaneId>, bool) {
    let wakes = session.take_wakes();
    (wakes.lanes().collect(), wakes.supervisor)
}

#[test]
fn a_message_that_is_sent_at_once_wakes_no_other_lane() {
    let now = Instant::now();
    let (mut session, [one, other]) = session(now);
    session.write(now, StreamNumber::FIRST, Bytes::from_static(b"message"));
    let urgent = session.take_urgent_wakes();
    assert_eq!((urgent.lanes().collect(), urgent.supervisor), (vec![one], false));
    assert!(matches!(session.poll_transmit(now, one, &mut Vec::new()), Transmit::Send(Some(_))));
    assert!(matches!(session.poll_transmit(now, one, &mut Vec::new()), Transmit::Idle));
    assert_eq!(woken(&mut session), (vec![one], false), "its own check");
    assert_eq!((session.poll_timeout(), session.progress_check_at(other)), (None, None));
    // Without an answer, the lane's own check calls the others.
    let at = session.progress_check_at(one).expect("a chunk is in flight");
    session.check_progress(at, one, &LinkSample::default(), None);
    let (lanes, supervisor) = woken(&mut session);
    assert!(lanes.contains(&other) && supervisor);
    assert!(session.poll_timeout().is_some() && session.progress_check_at(other).is_some());
}

#[test]
fn a_lane_with_bytes_in_flight_keeps_its_check() {
    let now = Instant::now();
    let (mut session, [one, other]) = session(now);
    send(&mut session, now, one);
    let _ = session.take_wakes();
    let check = Some(now + 300 * MS);
    session.lanes[one].set_check(check);
    assert!(matches!(session.poll_transmit(now, other, &mut Vec::new()), Transmit::Idle));
    let _ = session.take_urgent_wakes();
    assert!(matches!(session.poll_transmit(now, one, &mut Vec::new()), Transmit::Idle));
    assert_eq!(session.progress_check_at(one), check);
}

#[test]
fn bytes_not_taken_at_once_wake_the_others() {
    let now = Instant::now();
    let (mut session, [one, other]) = session(now);
    session.write(now, StreamNumber::FIRST, Bytes::from_static(b"message"));
    let urgent = session.take_urgent_wakes();
    assert_eq!((urgent.lanes().collect(), urgent.supervisor), (vec![one], false));
    assert_eq!(woken(&mut session), (vec![other], true), "the first lane has not come");
}

#[test]
fn a_lane_at_rest_keeps_no_check() {
    let now = Instant::now();
    let (mut session, [lane]) = session(now);
    send(&mut session, now, lane);
    session.rest(lane);
    assert!(session.progress_check_at(lane).is_some(), "the chunk is in flight");
    let ack = crate::wire::Ack { chunks: 1, limit: 1_000_000, complete: false };
    session.handle_ack(now + MS, lane, &ack).expect("the chunk was sent");
    session.rest(lane);
    assert_eq!(session.progress_check_at(lane), None);
    send(&mut session, now + 2 * MS, lane);
    assert!(woken(&mut session).0.contains(&lane), "the check is announced anew");
}
