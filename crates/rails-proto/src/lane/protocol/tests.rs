use super::*;
use crate::{
    parameters::ACK_TIMER,
    scheduler::LaneTraits,
    session::{Session, fixture},
    stream_number::StreamNumber,
    violation::Violation,
    wire::{DataHeader, Frame, ResetReason},
};
use std::time::Duration;

const LINGER: Duration = Duration::from_secs(2);
const FAREWELL: Duration = Duration::from_secs(1);

/// Creates one end of a stream, with a lane that has nothing to send.
fn end(now: Instant) -> (Session, LaneProtocol<Vec<u8>>) {
    let mut session = fixture::end(1 << 16, 1 << 20, LINGER);
    let lane = session.lane_up(now, LaneTraits::default()).unwrap();
    let mut protocol = LaneProtocol::new(lane, None, None);
    assert_eq!(protocol.transmit(now, &mut session, true), Next::Idle);
    (session, protocol)
}

/// Wakes the lane as a driver does after every call.
fn wake(session: &mut Session, protocol: &mut LaneProtocol<Vec<u8>>) -> Option<Instant> {
    if session.take_wakes().lanes().any(|lane| lane == protocol.lane) {
        protocol.wake();
    }
    protocol.poll_timeout(session)
}

fn sample() -> TransportSample {
    TransportSample::default()
}

/// Has the lane receive a chunk of ten bytes.
fn arrive(now: Instant, session: &mut Session, protocol: &mut LaneProtocol<Vec<u8>>, offset: u64) {
    let payload = Bytes::from_static(b"ten bytes!");
    let header = DataHeader::of(StreamNumber::FIRST, offset, std::slice::from_ref(&payload), false);
    let bytes = [&Frame::Data(header).encode()[..], &payload].concat();
    protocol.receive(now, session, |buffers| {
        buffers[0][..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    });
}

#[test]
fn acknowledgement_after_a_delay() {
    let now = Instant::now();
    let (mut session, mut protocol) = end(now);
    arrive(now, &mut session, &mut protocol, 0);
    assert_eq!(wake(&mut session, &mut protocol), Some(now + ACK_TIMER));
    assert_eq!(protocol.transmit(now, &mut session, true), Next::Idle);
    protocol.handle_timeout(now + ACK_TIMER, &mut session, sample);
    assert_eq!(protocol.transmit(now + ACK_TIMER, &mut session, true), Next::Submit { unsent_limit: None });
}

#[test]
fn room_for_a_chunk() {
    let now = Instant::now();
    let (mut session, mut protocol) = end(now);
    let mut submit = |session: &mut Session, has_room| {
        protocol.wake();
        let next = protocol.transmit(now, session, has_room);
        let (control, payload) = protocol.outgoing();
        let length = control.len() + payload.iter().map(Bytes::len).sum::<usize>();
        protocol.submitted(length);
        next
    };
    session.write(now, StreamNumber::FIRST, vec![1; 40 << 10].into());
    assert!(matches!(submit(&mut session, false), Next::Submit { .. }), "nothing is in flight yet");
    while submit(&mut session, true) != Next::Idle {}
    assert_eq!(submit(&mut session, false), Next::Idle, "there is nothing to send");
    session.write(now, StreamNumber::FIRST, vec![1; 1 << 10].into());
    assert_eq!(submit(&mut session, false), Next::AwaitRoom);
    assert!(matches!(submit(&mut session, true), Next::Submit { .. }));
    session.write(now, StreamNumber::FIRST, vec![1; 1 << 10].into());
    session.abort(now);
    assert!(matches!(submit(&mut session, false), Next::Submit { .. }), "a reset goes out at once");
}

#[test]
fn replacement_by_another_connection() {
    let now = Instant::now();
    let (mut session, mut protocol) = end(now);
    session.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
    wake(&mut session, &mut protocol);
    assert!(protocol.end().is_none(), "the new lane has another number");
    session.lane_up(now, LaneTraits::default()).unwrap();
    wake(&mut session, &mut protocol);
    assert!(matches!(protocol.end(), Some(Err(LaneError::Replaced))));
    assert_eq!(protocol.transmit(now, &mut session, true), Next::Idle);
}

#[test]
fn removal_of_a_lane_that_is_being_replaced() {
    let now = Instant::now();
    let (mut session, protocol) = end(now);
    let other = session.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
    let new = session.lane_up(now, LaneTraits::default()).unwrap();
    assert!(session.leave_by_number(now, 0));
    let is_leaving = [protocol.lane, new, other].map(|lane| session.is_leaving(lane));
    assert_eq!(is_leaving, [true, true, false]);
    assert!(!session.leave_by_number(now, 2), "there is no such lane");
}

#[test]
fn linger_of_an_abandoned_lane() {
    let now = Instant::now();
    let (mut session, mut protocol) = end(now);
    session.drop_application(now, 0);
    wake(&mut session, &mut protocol);
    assert_eq!(linger(&mut session, &mut protocol), now + LINGER + FAREWELL);
    assert!(session.needs_no_lane());
}

/// Handles the lane's timeouts to the end of its linger time. The stream needs no timer of its
/// own for that.
fn linger(session: &mut Session, protocol: &mut LaneProtocol<Vec<u8>>) -> Instant {
    loop {
        let at = protocol.poll_timeout(session).expect("it lingers");
        protocol.handle_timeout(at, session, sample);
        if let Some(end) = protocol.end() {
            assert!(matches!(end, Err(LaneError::Lingering)), "{end:?}");
            return at;
        }
    }
}

#[test]
fn linger_of_a_process_that_was_stopped() {
    let now = Instant::now();
    let (mut session, mut protocol) = end(now);
    session.write(now, StreamNumber::FIRST, Bytes::from_static(b"kept"));
    session.drop_application(now, 0);
    wake(&mut session, &mut protocol);
    let goes_on = now + 60 * LINGER;
    protocol.handle_timeout(goes_on, &mut session, sample);
    assert!(protocol.end().is_none() && session.failure().is_none());
    let lingered = linger(&mut session, &mut protocol) - goes_on;
    assert!(lingered > LINGER / 2 && session.failure().is_some(), "{lingered:?}");
}

#[test]
fn farewell_after_a_violation() {
    let now = Instant::now();
    for is_heard in [true, false] {
        let (mut session, mut protocol) = end(now);
        arrive(now, &mut session, &mut protocol, 1 << 20);
        wake(&mut session, &mut protocol);
        assert!(protocol.end().is_none(), "the lane still tells the peer");
        assert_eq!(protocol.transmit(now, &mut session, true), Next::Submit { unsent_limit: None });
        assert_eq!(protocol.outgoing().0, Frame::Reset(ResetReason::Violation).encode());
        if is_heard {
            let bytes = protocol.outgoing().0.len();
            protocol.submitted(bytes);
            assert_eq!(protocol.transmit(now, &mut session, true), Next::Close);
            protocol.close_sending(Ok(()));
        } else {
            protocol.handle_timeout(now + FAREWELL, &mut session, sample);
        }
        assert!(matches!(protocol.end(), Some(Err(LaneError::Violation(Violation::BeyondWindow { .. })))));
    }
}
