//! Links that go down for a moment while only one end learns of it, and lanes that look slow
//! afterwards.

use crate::{
    application::Habits,
    network::{LaneSpec, Stop},
    pair::{Outcome, Scenario},
};
use bytes::Bytes;
use rails_proto::{
    parameters::TransportParameters,
    policy::Policy,
    session::{Config, EventKind, LaneId, LaneTraits, LinkSample, Session, Transmit},
    stream_number::{self, StreamNumber},
    wire::Ack,
};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// When the links go down, and for how long.
const DOWN: Duration = ms(100);
const FOR: Duration = ms(400);

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The handshake of a redialled lane often waits for ARP, and then measures a round trip of a
/// second. With that estimate alone, the lane would get nothing, and no measurement would correct
/// it.
#[test]
fn a_lane_that_seemed_slow_is_tried_and_used() {
    for writes in [
        Habits::bulk(64 * MIB),
        Habits { longest_write: 20_000, bursts: Some((20_000, ms(2))), ..Habits::bulk(24 * MIB) },
    ] {
        let mut lanes = vec![LaneSpec::steady(400, ms(1), 256 << 10); 2];
        lanes[1].seems = Some(ms(2_000));
        let outcome = Scenario { habits: [writes, Habits::bulk(0)], ..Scenario::one_way(0, lanes) }.run();
        assert!(outcome.carried[1][0] > 4 * MIB, "{outcome:?}");
    }
}

/// An event reports a lane that is as slow as it seems, and the lane costs next to nothing.
#[test]
fn a_lane_that_is_slow_is_tried_at_little_cost() {
    let lanes = [LaneSpec::steady(100, ms(1), 256 << 10), LaneSpec::steady(2, ms(500), 64 << 10)];
    // So few bytes wait that the fast lane always delivers them sooner.
    let scenario = Scenario { send_buffer: 256 << 10, ..Scenario::one_way(64 * MIB, lanes.to_vec()) };
    let alone = Scenario { lanes: lanes[..1].to_vec(), ..scenario.clone() };
    let [alone, both] = [alone, scenario].map(|scenario| scenario.run());
    assert!((1..64 * MIB / 100).contains(&both.duplicated[1]), "{both:?}");
    let told = both.events[0].iter().filter(|(_, kind)| matches!(kind, EventKind::Unused { .. }));
    assert_eq!(told.count(), 1, "{:?}", both.events);
    let [both, alone] = [both, alone].map(|outcome| outcome.read_end[1].expect("all bytes are read"));
    assert!(both < alone + ms(20), "{both:?} with the slow lane, {alone:?} without");
}

/// A lane without further checks would stay unused, and no event would report it.
#[test]
fn a_lane_that_stalled_while_unused_is_tried() {
    let parameters = TransportParameters::one_stream(64 << 10, MIB);
    let (longest_chunk, send_buffer) = (64 << 10, 1 << 20);
    let config = Config {
        longest_chunk,
        send_buffer,
        max_unacknowledged: parameters.window,
        parameters,
        side: stream_number::Side::Initiator,
        outage_limit: DOWN,
        linger: DOWN,
    };
    let mut session = Session::new(config, Policy::Adaptive.build(), parameters);
    let start = Instant::now();
    let send = |session: &mut Session, at: Duration, lane: LaneId| {
        matches!(session.poll_transmit(start + at, lane, &mut Vec::new()), Transmit::Send(Some(_)))
    };
    let [fast, slow] = [(0, ms(1)), (1, ms(2_000))].map(|(number, rtt)| {
        let traits = LaneTraits { number, weight: 1, rtt: Some(rtt) };
        session.lane_up(start, traits).expect("there are two lanes")
    });
    session.write(start, StreamNumber::FIRST, Bytes::from(vec![0; 64 << 10]));
    let mut chunks = 0;
    while send(&mut session, ms(0), fast) {
        chunks += 1;
    }
    session
        .handle_ack(start + ms(5), fast, &Ack { chunks, limit: MIB, complete: false })
        .expect("the chunks were sent");
    for at in [ms(10), ms(30)] {
        assert!(!send(&mut session, at, slow));
        session.write(start, StreamNumber::FIRST, Bytes::from_static(b"sooner there by the other"));
        assert!(send(&mut session, at, fast));
        assert!(session.lane_timeouts(slow).progress.is_some(), "after {at:?}");
        session.link_down(start + at, slow);
        session.link_up(start + at + ms(1), slow);
        session.check_progress(start + at + ms(1), slow, &LinkSample::default(), None);
        assert!(!session.is_stalled(slow));
    }
}

/// The bytes that each end writes: none, a few now and then, or many.
fn habits() -> Vec<[Habits; 2]> {
    let nothing = Habits::bulk(0);
    let little = Habits { longest_write: 1000, bursts: Some((1000, ms(1000))), ..Habits::bulk(3000) };
    // Enough bytes that the transfer still runs when the links are back.
    let much = Habits { bursts: Some((2 * MIB, ms(50))), ..Habits::bulk(64 * MIB) };
    let either = |one: &Habits, other: &Habits| [[one.clone(), other.clone()], [other.clone(), one.clone()]];
    let both = |one: &Habits| [one.clone(), one.clone()];
    [either(&nothing, &little), either(&nothing, &much)]
        .concat()
        .into_iter()
        .chain([both(&little), both(&much)])
        .collect()
}

/// Lanes of which the first `flapping` have a link that goes down; `end` learns of it.
fn lanes(count: usize, flapping: usize, end: usize) -> Vec<LaneSpec> {
    let mut lanes = vec![LaneSpec::steady(400, ms(1), 256 << 10); count];
    lanes[..flapping].iter_mut().for_each(|lane| lane.stops = vec![(DOWN, FOR, Stop::LinkDown(end))]);
    lanes
}

/// Asserts that each stalled lane was usable again soon after the links were back.
fn assert_all_are_back(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.failures, [None, None], "{what}");
    for events in &outcome.events {
        let count = |is: fn(&EventKind) -> bool| events.iter().filter(|(_, kind)| is(kind)).count();
        let stalled = count(|kind| matches!(kind, EventKind::Stalled { .. }));
        let restored = count(|kind| matches!(kind, EventKind::Restored { .. }));
        assert_eq!(stalled, restored, "{what}: {events:?}");
        let last = events.iter().rfind(|(_, kind)| matches!(kind, EventKind::Restored { .. }));
        assert!(last.is_none_or(|(at, _)| *at < DOWN + FOR + ms(200)), "{what}: {events:?}");
    }
}

#[test]
fn a_link_that_flaps_at_one_end_costs_no_lane() {
    for (count, flapping) in [(1, 1), (2, 1), (2, 2), (64, 1), (64, 64)] {
        for end in 0..2 {
            for habits in habits().into_iter().filter(|habits| count < 64 || habits[0].total + habits[1].total < MIB) {
                let what =
                    format!("{flapping} of {count} lanes, told to {end}, {} and {}", habits[0].total, habits[1].total);
                let outcome = Scenario { habits, ..Scenario::one_way(0, lanes(count, flapping, end)) }.run();
                let told = outcome.events[end].iter().filter(|(_, kind)| matches!(kind, EventKind::Stalled { .. }));
                assert!(told.count() >= flapping, "{what}");
                assert_all_are_back(&outcome, &what);
            }
        }
    }
}

#[test]
fn a_lane_taken_out_while_its_link_is_down_leaves() {
    for (end, leaver) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for habits in habits() {
            let mut lanes = lanes(3, 2, end);
            lanes[0].leaves = Some((DOWN + FOR / 2, leaver));
            let what = format!("told to {end}, taken out by {leaver}, {} and {}", habits[0].total, habits[1].total);
            let outcome = Scenario { habits, ..Scenario::one_way(0, lanes) }.run();
            assert_eq!(outcome.failures, [None, None], "{what}");
            for events in &outcome.events {
                let left =
                    events.iter().position(|(_, kind)| matches!(kind, EventKind::Leaving)).expect("the lane leaves");
                let ended = events.iter().position(|(_, kind)| matches!(kind, EventKind::Ended { .. }));
                assert!(
                    ended.is_some_and(|ended| ended > left && events[ended].0 < DOWN + FOR + ms(200)),
                    "{what}: {events:?}"
                );
            }
        }
    }
}
