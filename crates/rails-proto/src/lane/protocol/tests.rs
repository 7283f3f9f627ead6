use super::*;
use crate::{
    connection::{Config, Connection},
    parameters::{ACK_TIMER, TransportParameters},
    policy::Policy,
    scheduler::LaneTraits,
    violation::Violation,
    wire::{DataHeader, Frame, ResetReason},
};
use std::time::Duration;

const LINGER: Duration = Duration::from_secs(2);
const FAREWELL: Duration = Duration::from_secs(1);

/// Creates one end of a stream, with a lane that has nothing to send.
fn end(now: Instant) -> (Connection, LaneProtocol<Vec<u8>>) {
    let parameters = TransportParameters { longest_chunk: 1 << 16, window: 1 << 20 };
    let (longest_chunk, send_buffer) = (1 << 16, 1 << 20);
    let config = Config {
        longest_chunk,
        send_buffer,
        max_unacknowledged: parameters.window,
        parameters,
        outage_limit: LINGER,
        linger: LINGER,
    };
    let mut connection = Connection::new(config, Policy::default().build(), parameters);
    let lane = connection.lane_up(now, LaneTraits::default()).unwrap();
    let mut protocol = LaneProtocol::new(lane, None, None);
    assert_eq!(protocol.transmit(now, &mut connection, true), Next::Idle);
    (connection, protocol)
}

/// Wakes the lane as a driver does after every call.
fn wake(connection: &mut Connection, protocol: &mut LaneProtocol<Vec<u8>>) -> Option<Instant> {
    if connection.take_wakes().lanes().any(|lane| lane == protocol.lane) {
        protocol.wake();
    }
    protocol.poll_timeout(connection)
}

fn sample() -> TransportSample {
    TransportSample::default()
}

/// Has the lane receive a chunk of ten bytes.
fn arrive(now: Instant, connection: &mut Connection, protocol: &mut LaneProtocol<Vec<u8>>, offset: u64) {
    let payload = Bytes::from_static(b"ten bytes!");
    let header = DataHeader::of(offset, std::slice::from_ref(&payload), false);
    let bytes = [&Frame::Data(header).encode()[..], &payload].concat();
    protocol.receive(now, connection, |buffers| {
        buffers[0][..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    });
}

#[test]
fn acknowledgement_after_a_delay() {
    let now = Instant::now();
    let (mut connection, mut protocol) = end(now);
    arrive(now, &mut connection, &mut protocol, 0);
    assert_eq!(wake(&mut connection, &mut protocol), Some(now + ACK_TIMER));
    assert_eq!(protocol.transmit(now, &mut connection, true), Next::Idle);
    protocol.handle_timeout(now + ACK_TIMER, &mut connection, sample);
    assert_eq!(protocol.transmit(now + ACK_TIMER, &mut connection, true), Next::Submit { unsent_limit: None });
}

#[test]
fn room_for_a_chunk() {
    let now = Instant::now();
    let (mut connection, mut protocol) = end(now);
    let mut submit = |connection: &mut Connection, has_room| {
        protocol.wake();
        let next = protocol.transmit(now, connection, has_room);
        let (control, payload) = protocol.outgoing();
        let length = control.len() + payload.iter().map(Bytes::len).sum::<usize>();
        protocol.submitted(length);
        next
    };
    connection.write(now, vec![1; 40 << 10].into());
    assert!(matches!(submit(&mut connection, false), Next::Submit { .. }), "nothing is in flight yet");
    while submit(&mut connection, true) != Next::Idle {}
    assert_eq!(submit(&mut connection, false), Next::Idle, "there is nothing to send");
    connection.write(now, vec![1; 1 << 10].into());
    assert_eq!(submit(&mut connection, false), Next::AwaitRoom);
    assert!(matches!(submit(&mut connection, true), Next::Submit { .. }));
    connection.write(now, vec![1; 1 << 10].into());
    connection.abort(now);
    assert!(matches!(submit(&mut connection, false), Next::Submit { .. }), "a reset goes out at once");
}

#[test]
fn replacement_by_another_connection() {
    let now = Instant::now();
    let (mut connection, mut protocol) = end(now);
    connection.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
    wake(&mut connection, &mut protocol);
    assert!(protocol.end().is_none(), "the new lane has another number");
    connection.lane_up(now, LaneTraits::default()).unwrap();
    wake(&mut connection, &mut protocol);
    assert!(matches!(protocol.end(), Some(Err(LaneError::Replaced))));
    assert_eq!(protocol.transmit(now, &mut connection, true), Next::Idle);
}

#[test]
fn removal_of_a_lane_that_is_being_replaced() {
    let now = Instant::now();
    let (mut connection, protocol) = end(now);
    let other = connection.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).unwrap();
    let new = connection.lane_up(now, LaneTraits::default()).unwrap();
    assert!(connection.leave_by_number(now, 0));
    let is_leaving = [protocol.lane, new, other].map(|lane| connection.is_leaving(lane));
    assert_eq!(is_leaving, [true, true, false]);
    assert!(!connection.leave_by_number(now, 2), "there is no such lane");
}

#[test]
fn linger_of_an_abandoned_lane() {
    let now = Instant::now();
    let (mut connection, mut protocol) = end(now);
    connection.drop_application(now, 0);
    wake(&mut connection, &mut protocol);
    assert_eq!(linger(&mut connection, &mut protocol), now + LINGER + FAREWELL);
    assert!(connection.needs_no_lane());
}

/// Handles the lane's timeouts to the end of its linger time. The stream needs no timer of its
/// own for that.
fn linger(connection: &mut Connection, protocol: &mut LaneProtocol<Vec<u8>>) -> Instant {
    loop {
        let at = protocol.poll_timeout(connection).expect("it lingers");
        protocol.handle_timeout(at, connection, sample);
        if let Some(end) = protocol.end() {
            assert!(matches!(end, Err(LaneError::Lingering)), "{end:?}");
            return at;
        }
    }
}

#[test]
fn linger_of_a_process_that_was_stopped() {
    let now = Instant::now();
    let (mut connection, mut protocol) = end(now);
    connection.write(now, Bytes::from_static(b"kept"));
    connection.drop_application(now, 0);
    wake(&mut connection, &mut protocol);
    let goes_on = now + 60 * LINGER;
    protocol.handle_timeout(goes_on, &mut connection, sample);
    assert!(protocol.end().is_none() && connection.failure().is_none());
    let lingered = linger(&mut connection, &mut protocol) - goes_on;
    assert!(lingered > LINGER / 2 && connection.failure().is_some(), "{lingered:?}");
}

#[test]
fn farewell_after_a_violation() {
    let now = Instant::now();
    for is_heard in [true, false] {
        let (mut connection, mut protocol) = end(now);
        arrive(now, &mut connection, &mut protocol, 1 << 20);
        wake(&mut connection, &mut protocol);
        assert!(protocol.end().is_none(), "the lane still tells the peer");
        assert_eq!(protocol.transmit(now, &mut connection, true), Next::Submit { unsent_limit: None });
        assert_eq!(protocol.outgoing().0, Frame::Reset(ResetReason::Violation).encode());
        if is_heard {
            let bytes = protocol.outgoing().0.len();
            protocol.submitted(bytes);
            assert_eq!(protocol.transmit(now, &mut connection, true), Next::Close);
            protocol.close_sending(Ok(()));
        } else {
            protocol.handle_timeout(now + FAREWELL, &mut connection, sample);
        }
        assert!(matches!(protocol.end(), Some(Err(LaneError::Violation(Violation::BeyondWindow { .. })))));
    }
}
