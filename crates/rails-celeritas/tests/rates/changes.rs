//! Paths and senders that change.

use crate::{
    bottleneck::{Bottleneck, Counts, Line},
    flows::{Pause, Plan, Source, adaptive},
    rivals::cubic,
};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

fn path(mbps: f64, queue: Duration) -> Bottleneck {
    Bottleneck::new(1, Line { bits_per_second: mbps * 1e6, queue, delay: 10 * MS, loss: 0.0 })
}

/// A small message every 20 ms for `time`, and then a large one.
fn small_then_large(time: Duration) -> Plan {
    let small = (0..time.as_millis() as u32 / 20).map(|index| (20 * MS * index, 2_500));
    Plan { source: Box::new(small.chain([(time, 40_000_000)])), ..Plan::endless() }
}

/// The small messages take 1 Mbit/s: that the rival fills the queue is no reason to allow more.
#[test]
fn unused_rate_is_no_evidence() {
    let mut path = path(100.0, 20 * MS);
    let rival = path.add(cubic);
    path.run(3 * S);
    let own = path.add(adaptive(small_then_large(20 * S)));
    path.run(20 * S);
    let first = path.run(250 * MS);
    assert!((50..500).contains(&first[own].sent), "{first:?}");
    let then = path.run(S);
    assert!(then[own].drops() < 0.01, "{then:?}");
    assert!(then[rival].mbps(S) > 60.0, "{then:?}");
}

/// The counts of a flow in the half second after a pause that ends at that time.
fn after(end: Duration, source: Source, pauses: Vec<Pause>) -> Counts {
    let mut path = path(100.0, 50 * MS);
    path.add(adaptive(Plan { source, pauses, ..Plan::endless() }));
    path.run(end);
    path.run(500 * MS)[0]
}

#[test]
fn short_pauses_of_an_end_cost_no_rate() {
    for (end, milliseconds) in [(0, 20), (0, 100), (0, 1_000), (1, 20), (1, 100), (1, 1_000)] {
        let pause = 2 * S..2 * S + milliseconds * MS;
        let counts = after(pause.end, Plan::endless().source, vec![(end, pause)]);
        assert!(counts.mbps(500 * MS) > 90.0, "end {end}, {milliseconds} ms: {counts:?}");
        assert_eq!(counts.dropped, 0, "end {end}, {milliseconds} ms");
    }
}

#[test]
fn idle_sender_neither_floods_nor_crawls() {
    for (idle, least) in [(20 * MS, 95.0), (100 * MS, 95.0), (3 * S, 95.0), (60 * S, 60.0)] {
        // The first message takes less than 3 s.
        let begin = 3 * S + idle;
        let counts = after(begin, Box::new([(Duration::ZERO, 30_000_000), (begin, 1 << 30)].into_iter()), Vec::new());
        assert!(counts.mbps(500 * MS) > least, "{idle:?}: {counts:?}");
        assert!(counts.drops() < 0.02, "{idle:?}: {counts:?}");
    }
}

/// The packets that are under way take 375 ms at the new rate: longer than a round trip, as none
/// leaves meanwhile.
#[test]
fn fall_by_ten_is_met_in_a_few_round_trips() {
    let mut path = path(50.0, S);
    path.add(adaptive(Plan::endless()));
    path.run(3 * S);
    path.line.bits_per_second = 5e6;
    path.run(60 * MS);
    let backlog = path.queued();
    assert!(backlog < 400 * MS, "{backlog:?}");
    path.run(backlog);
    assert!(path.queued() < 20 * MS, "{:?}", path.queued());
    path.run(100 * MS);
    for _ in 0..10 {
        let counts = path.run(200 * MS)[0];
        assert!((3.9..5.3).contains(&counts.mbps(200 * MS)) && path.queued() < 20 * MS, "{counts:?}");
    }
}

#[test]
fn rise_by_five_is_met_in_a_second() {
    let mut path = path(100.0, 20 * MS);
    path.add(adaptive(Plan::endless()));
    path.run(3 * S);
    path.line.bits_per_second = 500e6;
    path.run(S);
    let counts = path.run(S)[0];
    assert!(counts.mbps(S) > 470.0 && counts.drops() < 0.001, "{counts:?}");
}

#[test]
fn late_handshake_slows_no_flow() {
    for late in [1, 3, 8] {
        let mut path = path(200.0, 20 * MS);
        path.add(adaptive(Plan { late: late * S, ..Plan::endless() }));
        path.run(S);
        let counts = path.run(S)[0];
        assert!(counts.mbps(S) > 190.0, "{late} s: {counts:?}");
    }
}
