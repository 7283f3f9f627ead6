//! Named scenarios.

use crate::{
    application::Habits,
    network::{LaneSpec, Stop},
    pair::{Outcome, Scenario},
};
use rails_proto::{
    policy::Policy,
    session::{EventKind, Failure},
};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn lanes(megabits: &[u64]) -> Vec<LaneSpec> {
    megabits.iter().map(|rate| LaneSpec::steady(*rate, ms(1), 256 << 10)).collect()
}

/// Megabits per second that the second end's application received.
fn goodput(scenario: &Scenario, outcome: &Outcome) -> f64 {
    let seconds = outcome.read_end[1].expect("the second end has read everything").as_secs_f64();
    scenario.habits[0].total as f64 * 8e-6 / seconds
}

fn measure(scenario: &Scenario) -> f64 {
    let outcome = scenario.run();
    let rate = goodput(scenario, &outcome);
    println!("{rate:.1} Mbit/s, duplicated {}, carried {:?}", outcome.duplicated[1], outcome.carried);
    rate
}

#[test]
fn equal_lanes_add_up() {
    assert!(measure(&Scenario::one_way(64 * MIB, lanes(&[400, 400]))) >= 0.98 * 800.0);
}

#[test]
fn unequal_lanes_carry_what_each_can() {
    assert!(measure(&Scenario::one_way(64 * MIB, lanes(&[400, 100]))) >= 0.95 * 500.0);
    assert!(measure(&Scenario::one_way(64 * MIB, lanes(&[400, 40]))) >= 0.95 * 440.0);
}

#[test]
fn fast_lane_beside_a_very_slow_one() {
    for total in [4, 16, 64] {
        assert!(measure(&Scenario::one_way(total * MIB, lanes(&[400, 4]))) >= 0.95 * 400.0);
    }
}

#[test]
fn static_shares_are_as_slow_as_the_slowest_lane() {
    let scenario = Scenario { policy: Policy::Static, ..Scenario::one_way(64 * MIB, lanes(&[400, 100])) };
    let rate = measure(&scenario);
    assert!((0.95 * 200.0..1.05 * 200.0).contains(&rate));
}

#[test]
fn both_directions_at_once() {
    let habits = [Habits::bulk(16 * MIB), Habits::bulk(16 * MIB)];
    let outcome = Scenario { habits, ..Scenario::one_way(0, lanes(&[400, 100])) }.run();
    assert!(outcome.read_end.iter().all(|end| end.is_some_and(|end| end < ms(400))), "{outcome:?}");
}

#[test]
fn a_near_and_a_far_lane() {
    // The far lane holds as many bytes as it carries in 50 ms.
    let far = LaneSpec::steady(400, ms(50), 4 << 20);
    let scenario = Scenario::one_way(64 * MIB, vec![LaneSpec::steady(400, ms(1), 256 << 10), far]);
    assert!(measure(&scenario) >= 0.85 * 800.0);
}

#[test]
fn a_window_of_exactly_one_chunk() {
    let lanes = lanes(&[400, 400]);
    let scenario = Scenario { window: 64 << 10, longest_chunk: 64 << 10, ..Scenario::one_way(4 * MIB, lanes) };
    measure(&scenario);
}

#[test]
fn a_window_of_one_byte() {
    let scenario = Scenario { window: 1, longest_chunk: 1, ..Scenario::one_way(100, lanes(&[400, 400])) };
    measure(&scenario);
}

#[test]
fn all_lanes_but_one_break() {
    let mut lanes = lanes(&[400, 400, 400, 100]);
    for (index, lane) in lanes[..3].iter_mut().enumerate() {
        lane.breaks = Some((ms(50 + 50 * index as u64), [ms(200), ms(3)]));
    }
    let outcome = Scenario::one_way(32 * MIB, lanes).run();
    assert_eq!(outcome.failures, [None, None]);
    assert!(outcome.carried.iter().all(|carried| carried[0] > 0));
}

#[test]
fn all_lanes_break() {
    let mut lanes = lanes(&[400, 100]);
    lanes.iter_mut().for_each(|lane| lane.breaks = Some((ms(50), [ms(10), ms(300)])));
    let outcome = Scenario::one_way(32 * MIB, lanes).run();
    for failure in outcome.failures {
        assert!(matches!(failure, Some(Failure::LanesLost { .. })), "{failure:?}");
    }
}

#[test]
fn a_lane_breaks_and_comes_back() {
    let mut lanes = lanes(&[400, 400, 400]);
    lanes[1].breaks = Some((ms(100), [ms(30), ms(60)]));
    lanes[2].opens = ms(200);
    let outcome = Scenario::one_way(64 * MIB, lanes).run();
    assert!(outcome.carried[2][0] > 16 * MIB, "{outcome:?}");
}

/// Without the successor, the accepting end would not learn for twenty seconds that the connection
/// is gone.
#[test]
fn a_connection_gives_way_to_its_successor() {
    let mut lanes = lanes(&[400, 400]);
    lanes[0].breaks = Some((ms(100), [ms(10), ms(20_000)]));
    lanes[0].returns = Some(ms(100));
    let outcome = Scenario::one_way(32 * MIB, lanes).run();
    let ended = |(_, kind): &&(Duration, EventKind)| matches!(kind, EventKind::Ended { .. });
    let (at, _) = outcome.events[1].iter().find(ended).expect("the lane has ended");
    assert!(*at < ms(250), "{outcome:?}");
    assert!(outcome.carried[2][0] > 4 * MIB, "{outcome:?}");
}

#[test]
fn acknowledgements_lost_with_their_lane() {
    let mut lanes = lanes(&[400, 400]);
    lanes[0].delay = ms(40);
    lanes[0].breaks = Some((ms(100), [ms(1), ms(1)]));
    // Bytes that the peer has read are known to have arrived, also where the acknowledgement comes
    // on another lane.
    let habits = [Habits::bulk(16 * MIB), Habits { stall: Some((0, ms(300))), ..Habits::bulk(0) }];
    let outcome = Scenario { habits, ..Scenario::one_way(0, lanes) }.run();
    assert!(outcome.duplicated[1] > 0, "{outcome:?}");
}

/// The transport of a process that is stopped goes on: its lanes are up, and no limit runs.
#[test]
fn a_process_that_is_stopped_for_a_minute() {
    for end in 0..2 {
        let outage_limit = ms(500);
        let pauses = vec![(ms(100), ms(60_000), end)];
        let outcome = Scenario { outage_limit, pauses, ..Scenario::one_way(64 * MIB, lanes(&[400, 100])) }.run();
        assert!(outcome.read_end.iter().all(Option::is_some), "{outcome:?}");
        let outage = |(_, kind): &(Duration, EventKind)| matches!(kind, EventKind::Outage | EventKind::Stalled { .. });
        assert!(!outcome.events.iter().flatten().any(outage), "{outcome:?}");
        let stood = |(_, kind): &(Duration, EventKind)| matches!(kind, EventKind::Standstill { .. });
        assert_eq!(outcome.events.map(|events| events.iter().any(stood)), [end == 1, false], "the sender waits for it");
    }
}

/// The process is stopped in an outage, which ends long before the process goes on.
#[test]
fn an_outage_of_a_process_that_is_stopped() {
    for seed in 0..8 {
        for end in 0..2 {
            let mut lanes = lanes(&[400]);
            lanes[0].stops = vec![(ms(100), ms(1_000), Stop::BothWays)];
            let outage_limit = ms(5_000);
            let pauses = vec![(ms(600), ms(30_000), end)];
            let outcome = Scenario { seed, outage_limit, pauses, ..Scenario::one_way(64 * MIB, lanes) }.run();
            assert_eq!(outcome.failures, [None, None]);
        }
    }
}

/// A lane that carries nothing any more, without an error.
#[test]
fn stalled_lane_beside_a_busy_one() {
    let mut lanes = lanes(&[400, 400]);
    lanes[0].changes = vec![(ms(100), 0)];
    let scenario = Scenario { window: MIB, ..Scenario::one_way(32 * MIB, lanes) };
    let outcome = scenario.run();
    assert!(outcome.read_end[1].is_some_and(|end| end < ms(2_000)), "{outcome:?}");
}

/// A stalled lane, with so few bytes to send that the other lane sleeps.
#[test]
fn stalled_lane_beside_an_idle_one() {
    for stalled in 0..2 {
        let mut lanes = lanes(&[400, 400]);
        lanes[stalled].changes = vec![(ms(100), 0)];
        let habits = Habits { longest_write: 1000, bursts: Some((1000, ms(30))), ..Habits::bulk(20_000) };
        let scenario = Scenario { habits: [habits, Habits::bulk(0)], ..Scenario::one_way(0, lanes) };
        let outcome = scenario.run();
        assert!(outcome.read_end[1].is_some_and(|end| end < ms(2_000)), "{outcome:?}");
    }
}

#[test]
fn bytes_to_a_reader_that_pauses() {
    let habits = [Habits::bulk(32 * MIB), Habits { stall: Some((8 * MIB, ms(5_000))), ..Habits::bulk(0) }];
    let outcome = Scenario { habits, ..Scenario::one_way(0, lanes(&[400, 100])) }.run();
    assert!(outcome.read_end[1].is_some_and(|end| end > ms(5_000) && end < ms(6_000)), "{outcome:?}");
}

#[test]
fn tiny_writes_to_a_reader_that_pauses() {
    let writes = Habits { longest_write: 3, bursts: Some((50, ms(1))), ..Habits::bulk(20_000) };
    let reads = Habits { stall: Some((10, ms(2_000))), ..Habits::bulk(0) };
    let outcome = Scenario { habits: [writes, reads], ..Scenario::one_way(0, lanes(&[10, 100])) }.run();
    assert_eq!(outcome.failures, [None, None]);
}

/// Another lane takes over the chunks of a stalled lane and stalls too, and then the third takes
/// them over.
#[test]
fn two_stalled_lanes_of_three() {
    let mut lanes = lanes(&[400, 400, 10]);
    lanes[0].changes = vec![(ms(50), 0)];
    lanes[1].changes = vec![(ms(100), 0)];
    let outcome = Scenario { window: MIB, ..Scenario::one_way(2 * MIB, lanes) }.run();
    assert!(outcome.read_end[1].is_some_and(|end| end < ms(10_000)), "{outcome:?}");
}

/// `total` messages of up to `longest` bytes.
fn messages(total: u64, longest: usize) -> Habits {
    Habits { messages: true, longest_write: longest, ..Habits::bulk(total) }
}

/// The messages have a megabyte and a half on average, and half of them are large.
#[test]
fn large_and_small_messages_use_both_lanes() {
    let habits = [messages(200, 4 << 20), messages(0, 4 << 20)];
    let outcome = Scenario { habits, ..Scenario::one_way(0, lanes(&[400, 400])) }.run();
    let carried: Vec<u64> = outcome.carried.iter().map(|carried| carried[0]).collect();
    let seconds = outcome.read_end[1].expect("all was received").as_secs_f64();
    let rate = carried.iter().sum::<u64>() as f64 * 8e-6 / seconds;
    println!("{rate:.1} Mbit/s, {carried:?}");
    assert!(rate >= 0.95 * 800.0 && carried.iter().all(|carried| *carried > 10 * MIB), "{rate} {carried:?}");
}

/// The parts that the stalled and the broken lane had begun still arrive in their messages.
#[test]
fn messages_beside_stalled_and_broken_lanes() {
    let mut lanes = lanes(&[400, 400, 400]);
    lanes[0].changes = vec![(ms(30), 0)];
    lanes[1].breaks = Some((ms(40), [ms(20), ms(5)]));
    let habits = [messages(100, 4 << 20), messages(100, 4 << 20)];
    let outcome = Scenario { habits, ..Scenario::one_way(0, lanes) }.run();
    assert!(outcome.read_end.iter().all(|end| end.is_some_and(|end| end < ms(5_000))), "{outcome:?}");
}

#[test]
fn messages_to_a_receiver_that_pauses() {
    let receiver = Habits { stall: Some((100, ms(3_000))), ..messages(0, 1 << 20) };
    let habits = [messages(300, 1 << 20), receiver];
    let outcome = Scenario { habits, window: 2 * MIB, ..Scenario::one_way(0, lanes(&[400, 100])) }.run();
    assert!(outcome.read_end[1].is_some_and(|end| end > ms(3_000) && end < ms(6_000)), "{outcome:?}");
}

/// The lane comes back with a part that another lane has delivered meanwhile.
#[test]
fn return_of_a_stalled_lane_into_whole_messages() {
    let mut lanes = lanes(&[400, 400]);
    lanes[0].changes = vec![(ms(30), 0), (ms(600), 400_000_000)];
    let habits = [Habits { bursts: Some((20, ms(100))), ..messages(300, 2 << 20) }, messages(0, 2 << 20)];
    let outcome = Scenario { habits, ..Scenario::one_way(0, lanes) }.run();
    assert!(outcome.duplicated[1] > 0 && outcome.failures == [None, None], "{outcome:?}");
}
