//! The rules over plain views, without a scheduler. A [`Snapshot`] holds a view and its chunks in
//! flight.

use super::{reinjection::slower, *};
use crate::{parameters::ACK_DELAY, record::Snapshot};

const MS: Duration = Duration::from_millis(1);
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// An idle lane that carries `megabytes` megabytes per second, and whose chunks take a round trip
/// of `rtt` milliseconds.
fn lane(megabytes: u32, rtt: u32) -> LaneView {
    LaneView {
        usable: true,
        promising: true,
        rate: Some(f64::from(megabytes) * 1e6),
        rtt: Some(rtt * MS),
        service: Some(rtt * MS),
        ..LaneView::default()
    }
}

/// A slow lane in slot 0, and a fast one in slot 1.
fn slow_and_fast() -> Vec<LaneView> {
    vec![lane(1, 40), lane(100, 2)]
}

fn snapshot(lanes: Vec<LaneView>) -> Snapshot {
    Snapshot { longest_chunk: 256 * KIB, lanes, ..Snapshot::default() }
}

fn waiting(lanes: Vec<LaneView>, bytes: usize) -> Snapshot {
    Snapshot { waiting: Some(bytes), ..snapshot(lanes) }
}

/// A chunk at offset 7 that the lane in slot 0 took `age` ago.
fn chunk(age: Duration) -> ChunkView {
    ChunkView { offset: 7, lane: 0, age, expected: age, remaining: None }
}

fn decide(snapshot: &Snapshot, lane: usize) -> Decision {
    Adaptive.decide(&snapshot.view(), lane)
}

const SOONER: Decision = Decision::Wait(Wait::SoonerElsewhere);
const NOTHING: Decision = Decision::Wait(Wait::NothingToSend);

#[test]
fn a_chunk_is_five_milliseconds_of_a_lane() {
    let length = |rate| Adaptive.longest_chunk(&LaneView { rate, ..LaneView::default() }, 256 * KIB);
    assert_eq!(length(None), FIRST_CHUNK);
    assert_eq!([1e4, 20e6, 1e9].map(|rate| length(Some(rate))), [16 * KIB, 100_000, 256 * KIB]);
}

/// The rule of ECF: 16 KiB take 36 ms on the slow lane. The fast one delivers 64 KiB before that,
/// and 32 MiB only long after.
#[test]
fn slow_lane_leaves_bytes_to_a_faster_one() {
    let few = waiting(slow_and_fast(), 64 * KIB);
    assert_eq!([0, 1].map(|lane| decide(&few, lane)), [SOONER, Decision::New(64 * KIB)]);
    let many = waiting(slow_and_fast(), 32 * MIB);
    assert_eq!([0, 1].map(|lane| decide(&many, lane)), [Decision::New(16 * KIB), Decision::New(256 * KIB)]);
}

/// The fast lane delivers the bytes sooner although it has no room yet, as long as few bytes are in
/// flight on it.
#[test]
fn slow_lane_waits_until_a_faster_one_has_room() {
    let behind = |in_flight| {
        let mut lanes = slow_and_fast();
        (lanes[1].in_flight, lanes[1].chunks) = (in_flight, 1);
        decide(&waiting(lanes, 64 * KIB), 0)
    };
    assert_eq!([1 << 20, 8 << 20].map(behind), [SOONER, Decision::New(16 * KIB)]);
    let mut lanes = slow_and_fast();
    lanes[1].promising = false;
    assert_eq!(decide(&waiting(lanes, 64 * KIB), 0), Decision::New(16 * KIB), "the fast lane will never ask");
}

#[test]
fn a_stream_with_one_lane() {
    let only = || vec![lane(1, 400)];
    assert_eq!(decide(&snapshot(only()), 0), NOTHING);
    assert_eq!(decide(&waiting(only(), 100), 0), Decision::New(100));
    assert_eq!(decide(&waiting(only(), 0), 0), Decision::New(0), "the end of the stream is left to send");
    let requeued = Some(Requeued { bytes: 300, first: 200 });
    assert_eq!(decide(&Snapshot { requeued, ..waiting(only(), 100) }, 0), Decision::Requeue(16 * KIB));
    let view = snapshot(only());
    assert!(!view.view().is_slower(0, Duration::MAX) && slower(&view.view(), 0).is_none());
}

/// An overdue chunk that the peer needs next goes before new bytes, and behind those of a lost
/// lane.
#[test]
fn reinjection_of_an_overdue_chunk() {
    let overdue = snapshot(slow_and_fast()).view().overdue_after(0);
    let at = |age| Snapshot { first: Some(chunk(age)), ..waiting(slow_and_fast(), 32 * MIB) };
    assert_eq!(decide(&at(overdue - MS), 1), Decision::New(256 * KIB));
    assert_eq!(decide(&at(overdue), 1), Decision::Reinject(7));
    let requeued = Some(Requeued { bytes: 300, first: 200 });
    assert_eq!(decide(&Snapshot { requeued, ..at(overdue) }, 1), Decision::Requeue(256 * KIB));
}

/// A chunk is sent again only if a copy arrives much sooner, and only by a lane that has nothing
/// new to send.
#[test]
fn reinjection_from_a_slower_lane() {
    let left = |remaining| {
        let late = ChunkView { remaining: Some(remaining), ..chunk(MS) };
        Snapshot { oldest: vec![late], ..snapshot(slow_and_fast()) }
    };
    // The copy takes 2 ms, counted twice, and has to gain 50 ms.
    assert_eq!([54 * MS, 55 * MS].map(|remaining| decide(&left(remaining), 1)), [NOTHING, Decision::Reinject(7)]);
    let busy = Snapshot { waiting: Some(100), ..left(1_000 * MS) };
    assert_eq!(decide(&busy, 1), Decision::New(100));
}

#[test]
fn reinjection_at_the_lowest_offset() {
    let mut view = snapshot(vec![lane(1, 40), lane(100, 2), lane(1, 40)]);
    let late = |lane, offset| ChunkView { lane, offset, ..chunk(1_000 * MS) };
    view.oldest = vec![late(0, 900), late(2, 300)];
    assert_eq!(slower(&view.view(), 1).map(|chunk| chunk.offset), Some(300));
}

#[test]
fn time_after_which_a_chunk_is_overdue() {
    let after = |slow: LaneView| snapshot(vec![slow, lane(100, 20)]).view().overdue_after(0);
    let of_service = |service| after(LaneView { service: Some(service), rtt: Some(MS), ..lane(1, 1) });
    assert_eq!([MS, 80 * MS, 900 * MS].map(of_service), [60 * MS, 160 * MS, 200 * MS], "twice the time of a chunk");
    assert_eq!(after(lane(1, 300)), 600 * MS, "four round trips are more than 200 ms");
    let bound = LaneView { service_is_bound: true, rtt: None, ..lane(1, 1) };
    assert_eq!(after(bound), 80 * MS, "four times the time on the other lane");
    let unknown = LaneView { service: None, rtt: None, ..lane(1, 1) };
    assert_eq!(snapshot(vec![unknown]).view().overdue_after(0), UNKNOWN_SERVICE);
}

#[test]
fn arrival_on_a_lane() {
    let fast = lane(100, 2);
    assert_eq!(fast.arrival(100_000), Some(2 * MS), "half a round trip, and a millisecond");
    assert_eq!(LaneView { in_flight: 200_000, ..fast }.arrival(100_000), Some(4 * MS));
    let unseen = LaneView { rate: None, service: None, ..fast };
    assert_eq!((unseen.arrival(100_000), unseen.would_take()), (Some(MS), Some(2 * MS + ACK_DELAY)));
    let first = LaneView { in_flight: 1, chunks: 1, ..unseen };
    assert_eq!((first.arrival(1), first.would_take()), (None, None), "its first chunk is on its way");
    assert_eq!(LaneView { rate: Some(0.0), ..fast }.arrival(1), Some(Duration::MAX));
}

#[test]
fn static_turns_in_any_order_of_asking() {
    let usable = || LaneView { usable: true, ..LaneView::default() };
    let after = |lane, bytes| {
        let view = Snapshot { streak: Some(Streak { lane, bytes }), ..waiting(vec![usable(); 3], MIB) };
        [0, 1, 2].map(|lane| Static::equal().decide(&view.view(), lane))
    };
    let (rest, turn) = (Decision::New(156 * KIB), Decision::New(256 * KIB));
    let other = Decision::Wait(Wait::OutOfTurn);
    assert_eq!(after(0, 100 << 10), [rest, other, other]);
    assert_eq!(after(0, 256 << 10), [other, turn, other]);
    assert_eq!(after(2, 256 << 10), [turn, other, other]);
    let view = waiting(vec![usable(), LaneView::default(), usable()], MIB);
    let streak = Some(Streak { lane: 0, bytes: 256 << 10 });
    let decision = Static::equal().decide(&Snapshot { streak, ..view }.view(), 2);
    assert_eq!(decision, turn, "the lane in slot 1 is not usable");
}

#[test]
fn weighted_turns_follow_the_weights() {
    let lanes = [4, 1, 0].map(|weight| LaneView { usable: true, weight, ..LaneView::default() });
    let turn = |last: usize| {
        let streak = Some(Streak { lane: last, bytes: 256 << 10 });
        let view = Snapshot { streak, ..waiting(lanes.to_vec(), MIB) };
        Static::weighted().decide(&view.view(), (last + 1) % 3)
    };
    assert_eq!([2, 0, 1].map(turn), [256, 64, 64].map(|kib| Decision::New(kib * KIB)));
}
