//! Streams that stand still, and report it.

use crate::{
    application::Habits,
    contrary::Contrary,
    network::{LaneSpec, Stop},
    pair::{Outcome, Scenario},
    properties::{for_each_seed, scenarios},
};
use rails_proto::session::{EventKind, StandstillCause};
use std::time::Duration;

const MIB: u64 = 1 << 20;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn lanes(count: usize) -> Vec<LaneSpec> {
    vec![LaneSpec::steady(400, ms(1), 256 << 10); count]
}

/// The causes that an end reported, each with the length of the standstill so far, and the lengths
/// of the standstills that ended.
fn told(outcome: &Outcome, end: usize) -> (Vec<(StandstillCause, Duration)>, Vec<Duration>) {
    let events = || outcome.events[end].iter().map(|(_, kind)| *kind);
    let stood = events().filter_map(|kind| match kind {
        EventKind::Standstill { cause, stood_for } => Some((cause, stood_for)),
        _ => None,
    });
    let moved = events().filter_map(|kind| if let EventKind::Moved { after } = kind { Some(after) } else { None });
    (stood.collect(), moved.collect())
}

fn seconds(stood: &[(StandstillCause, Duration)]) -> Vec<(StandstillCause, u64)> {
    stood.iter().map(|(cause, stood)| (*cause, stood.as_secs())).collect()
}

/// Cuts only the way there, or only the way back.
#[test]
fn a_cut_in_one_direction_is_told_until_it_ends() {
    for end in 0..2 {
        let mut lanes = lanes(1);
        lanes[0].stops = vec![(ms(100), ms(5_500), Stop::OneWay(end))];
        let outcome = Scenario::one_way(64 * MIB, lanes).run();
        let (stood, moved) = told(&outcome, 0);
        let lost = StandstillCause::NoLane;
        assert_eq!(seconds(&stood), [(lost, 1), (lost, 2), (lost, 4)], "{end}: {outcome:?}");
        assert!(moved.len() == 1 && moved[0] > ms(5_000) && moved[0] < ms(6_500), "{end}: {moved:?}");
        assert_eq!(told(&outcome, 1), (vec![], vec![]), "the reader has everything that arrived");
    }
}

/// The transport acknowledges, and the peer does not: its program hangs, or its frames are lost.
#[test]
fn a_peer_that_acknowledges_nothing_is_told() {
    let mut lanes = lanes(1);
    // Everything arrives before the rate drops, and no answer gets back.
    lanes[0].changes = vec![(Duration::from_micros(2_500), 0), (ms(3_500), 400_000_000)];
    let outcome = Scenario::one_way(32 << 10, lanes).run();
    let (stood, moved) = told(&outcome, 0);
    let causes = [(StandstillCause::NotAcknowledged, 1), (StandstillCause::NotAcknowledged, 2)];
    assert_eq!(seconds(&stood), causes, "{outcome:?}");
    assert!(moved.len() == 1 && moved[0] > ms(3_000), "{outcome:?}");
}

#[test]
fn a_peer_that_does_not_read_is_told_as_just_that() {
    let read = |total: u64| Habits { stall: Some((total, ms(3_500))), ..Habits::bulk(0) };
    let outcome = Scenario { habits: [Habits::bulk(64 * MIB), read(8 * MIB)], ..Scenario::one_way(0, lanes(2)) }.run();
    let (stood, moved) = told(&outcome, 0);
    let unread = StandstillCause::PeerDoesNotRead;
    assert_eq!(seconds(&stood), [(unread, 1), (unread, 2)], "{outcome:?}");
    assert!(moved.len() == 1 && moved[0] > ms(2_500), "{moved:?}");
    assert_eq!(told(&outcome, 1), (vec![], vec![]), "only the reader's own application is slow");
}

#[test]
fn a_stream_with_a_whole_lane_says_nothing() {
    let mut lanes = lanes(2);
    lanes[0].stops = vec![(ms(100), ms(5_000), Stop::BothWays)];
    let outcome = Scenario::one_way(64 * MIB, lanes).run();
    assert_eq!([told(&outcome, 0), told(&outcome, 1)], [(vec![], vec![]), (vec![], vec![])]);
}

/// The stream has nothing to send and awaits nothing, though the application pauses and the peer
/// has not finished.
#[test]
fn an_idle_stream_says_nothing() {
    let rests = Habits { longest_write: 1_000, bursts: Some((1_000, ms(20_000))), ..Habits::bulk(3_000) };
    for habits in [[rests.clone(), Habits::bulk(0)], [Habits::bulk(0), rests]] {
        let outcome = Scenario { habits, ..Scenario::one_way(0, lanes(2)) }.run();
        assert!(outcome.read_end.iter().all(Option::is_some), "{outcome:?}");
        assert_eq!([told(&outcome, 0), told(&outcome, 1)], [(vec![], vec![]), (vec![], vec![])]);
    }
}

/// A chunk of half a megabyte takes four seconds, in which the kernel acknowledges packet after
/// packet.
#[test]
fn a_slow_lane_that_moves_says_nothing() {
    let lanes = vec![LaneSpec::steady(1, ms(1), 64 << 10)];
    let policy = rails_proto::policy::Policy::Static;
    let outcome = Scenario { policy, longest_chunk: 512 << 10, ..Scenario::one_way(2 * MIB, lanes) }.run();
    // The reader's own end waits for an acknowledgement, which follows a chunk.
    assert_eq!(told(&outcome, 0), (vec![], vec![]));
}

/// The window is full behind a chunk of 256 KiB that takes two seconds on the slow lane, though
/// packet after packet gets through.
#[test]
fn a_full_window_behind_one_lane_is_told() {
    let mut lanes = lanes(2);
    lanes[1] = LaneSpec::steady(1, ms(1), 64 << 10);
    let scenario = Scenario::one_way(48 * MIB, lanes);
    let outcome = Scenario { contrary: Some(Contrary::greedy(scenario.longest_chunk)), ..scenario }.run();
    let [(stood, moved), (awaited, arrived)] = [0, 1].map(|end| told(&outcome, end));
    let (late, missing) = (StandstillCause::LaneLate { number: 1 }, StandstillCause::BytesMissing);
    assert!(stood.len() > 1 && seconds(&stood).iter().all(|told| *told == (late, 1)), "{outcome:?}");
    assert!(awaited.len() > 1 && seconds(&awaited).iter().all(|told| *told == (missing, 1)), "{outcome:?}");
    assert_eq!([moved.len(), arrived.len()], [stood.len(), awaited.len()]);
}

/// Each warning comes after a second at least, and after twice the time of the warning before it,
/// until the stream makes progress.
#[test]
fn warnings_grow_rarer_in_any_scenario() {
    for_each_seed("warnings_grow_rarer_in_any_scenario", 1, scenarios, |scenario| {
        for events in scenario.check().events {
            let mut last = None;
            for (_, kind) in events {
                match kind {
                    EventKind::Standstill { stood_for, .. } => {
                        let least = last.map_or(ms(1_000), |last: Duration| 2 * last);
                        assert!(stood_for >= least, "after {last:?} again after {stood_for:?}");
                        last = Some(stood_for);
                    }
                    EventKind::Moved { after } => {
                        assert!(last.take().is_some_and(|last| after >= last), "no event reported the standstill");
                    }
                    _ => {}
                }
            }
        }
    });
}
