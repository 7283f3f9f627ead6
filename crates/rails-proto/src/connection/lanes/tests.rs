use super::*;
use crate::{
    connection::{Config, Connection, LinkSample, Transmit},
    parameters::TransportParameters,
    policy::Policy,
    scheduler::LaneTraits,
};
use bytes::Bytes;

const MS: Duration = Duration::from_millis(1);

/// A stream with idle lanes.
fn connection<const N: usize>(now: Instant) -> (Connection, [LaneId; N]) {
    let parameters = TransportParameters { longest_chunk: 1000, window: 1_000_000 };
    let (outage_limit, linger) = (100 * MS, 100 * MS);
    let config = Config {
        longest_chunk: 1000,
        send_buffer: 1 << 20,
        max_unacknowledged: parameters.window,
        parameters,
        outage_limit,
        linger,
    };
    let mut connection = Connection::new(config, Policy::Adaptive.build(), parameters);
    let lanes = std::array::from_fn(|number| {
        let traits = LaneTraits { number: number as u16, ..LaneTraits::default() };
        connection.lane_up(now, traits).expect("there is room")
    });
    for lane in lanes {
        assert!(matches!(connection.poll_transmit(now, lane, &mut Vec::new()), Transmit::Idle));
    }
    let _ = connection.take_wakes();
    (connection, lanes)
}

/// Has `lane` send a message, and go idle.
fn send(connection: &mut Connection, now: Instant, lane: LaneId) {
    connection.write(now, Bytes::from_static(b"message"));
    assert!(matches!(connection.poll_transmit(now, lane, &mut Vec::new()), Transmit::Send(Some(_))));
    assert!(matches!(connection.poll_transmit(now, lane, &mut Vec::new()), Transmit::Idle));
}

fn woken(connection: &mut Connection) -> (Vec<LaneId>, bool) {
    let wakes = connection.take_wakes();
    (wakes.lanes().collect(), wakes.supervisor)
}

#[test]
fn a_message_that_is_sent_at_once_wakes_no_other_lane() {
    let now = Instant::now();
    let (mut connection, [one, other]) = connection(now);
    connection.write(now, Bytes::from_static(b"message"));
    let urgent = connection.take_urgent_wakes();
    assert_eq!((urgent.lanes().collect(), urgent.supervisor), (vec![one], false));
    assert!(matches!(connection.poll_transmit(now, one, &mut Vec::new()), Transmit::Send(Some(_))));
    assert!(matches!(connection.poll_transmit(now, one, &mut Vec::new()), Transmit::Idle));
    assert_eq!(woken(&mut connection), (vec![one], false), "its own check");
    assert_eq!((connection.poll_timeout(), connection.progress_check_at(other)), (None, None));
    // Without an answer, the lane's own check calls the others.
    let at = connection.progress_check_at(one).expect("a chunk is in flight");
    connection.check_progress(at, one, &LinkSample::default(), None);
    let (lanes, supervisor) = woken(&mut connection);
    assert!(lanes.contains(&other) && supervisor);
    assert!(connection.poll_timeout().is_some() && connection.progress_check_at(other).is_some());
}

#[test]
fn a_lane_with_bytes_in_flight_keeps_its_check() {
    let now = Instant::now();
    let (mut connection, [one, other]) = connection(now);
    send(&mut connection, now, one);
    let _ = connection.take_wakes();
    let check = Some(now + 300 * MS);
    connection.lanes[one].set_check(check);
    assert!(matches!(connection.poll_transmit(now, other, &mut Vec::new()), Transmit::Idle));
    let _ = connection.take_urgent_wakes();
    assert!(matches!(connection.poll_transmit(now, one, &mut Vec::new()), Transmit::Idle));
    assert_eq!(connection.progress_check_at(one), check);
}

#[test]
fn bytes_not_taken_at_once_wake_the_others() {
    let now = Instant::now();
    let (mut connection, [one, other]) = connection(now);
    connection.write(now, Bytes::from_static(b"message"));
    let urgent = connection.take_urgent_wakes();
    assert_eq!((urgent.lanes().collect(), urgent.supervisor), (vec![one], false));
    assert_eq!(woken(&mut connection), (vec![other], true), "the first lane has not come");
}

#[test]
fn a_lane_at_rest_keeps_no_check() {
    let now = Instant::now();
    let (mut connection, [lane]) = connection(now);
    send(&mut connection, now, lane);
    connection.rest(lane);
    assert!(connection.progress_check_at(lane).is_some(), "the chunk is in flight");
    let ack = crate::wire::Ack { chunks: 1, limit: 1_000_000, complete: false };
    connection.handle_ack(now + MS, lane, &ack).expect("the chunk was sent");
    connection.rest(lane);
    assert_eq!(connection.progress_check_at(lane), None);
    send(&mut connection, now + 2 * MS, lane);
    assert!(woken(&mut connection).0.contains(&lane), "the check is announced anew");
}
