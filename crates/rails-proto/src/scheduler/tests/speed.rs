//! Slow and late lanes.

use super::*;
use crate::policy::{FIRST_CHUNK, UNKNOWN_SERVICE};

#[test]
fn reinjection_from_a_much_slower_lane() {
    let mut scheduler = scheduler(Policy::Adaptive);
    let after = |milliseconds| now() + Duration::from_millis(milliseconds);
    scheduler.write(ONLY, Bytes::from(vec![1; 40]));
    let _ = [scheduler.take(now(), 0), scheduler.take(now(), 1)];
    scheduler.handle_ack(after(10), 0, &ack(1, 100)).unwrap();
    let slow = scheduler.take(after(90), 1).unwrap();
    scheduler.handle_ack(after(100), 1, &ack(1, 100)).unwrap();
    scheduler.take(after(100), 0).unwrap();
    let again = scheduler.take(after(101), 0);
    assert_eq!(again.as_ref(), Some(&slow), "20 ms are less than the 89 that are left");
    assert_eq!(scheduler.take(after(101), 0), None, "two lanes have the chunk already");
    assert_eq!(scheduler.take(after(101), 1), None, "the slow lane takes nothing over");
    scheduler.finish(ONLY);
    assert!(scheduler.take(after(102), 0).unwrap().fin);
    scheduler.handle_ack(after(110), 0, &Ack { chunks: 4, limit: 100, complete: true }).unwrap();
    assert!(scheduler.buffer().is_complete(ONLY), "the slow lane's copy is not waited for");
}

#[test]
fn a_slow_lane_is_given_short_chunks() {
    let mut scheduler = one_stream(Policy::Adaptive.build(), 256 << 10, 64 << 20, 64 << 20, 64 << 20);
    (0..2).for_each(|lane| scheduler.lane_up(lane, LaneTraits::default()));
    scheduler.write(ONLY, Bytes::from(vec![0; 60 << 20]));
    assert_eq!(scheduler.chunk_length(0), FIRST_CHUNK);
    for round in 1..100 {
        let at = now() + Duration::from_millis(10) * round;
        // 100 MB/s on lane 0; a tenth of it on lane 1.
        while scheduler.lane(0).in_flight() + scheduler.chunk_length(0) as u64 <= 1_000_000 {
            scheduler.take(at - Duration::from_millis(10), 0).unwrap();
        }
        while scheduler.lane(1).in_flight() + scheduler.chunk_length(1) as u64 <= 100_000 {
            scheduler.take(at - Duration::from_millis(10), 1).unwrap();
        }
        for lane in 0..2 {
            let all = scheduler.lane(lane).transmissions().next_number();
            scheduler.handle_ack(at, lane, &ack(all, 64 << 20)).unwrap();
        }
        if unsent(&scheduler).bytes() < 2 << 20 {
            break;
        }
    }
    assert_eq!(scheduler.chunk_length(0), 256 << 10);
    let slow = scheduler.chunk_length(1);
    assert!((40 << 10..80 << 10).contains(&slow), "5 ms at some 10 MB/s are about 50 KiB, not {slow}");
}

#[test]
fn reinjection_of_an_overdue_chunk() {
    let mut scheduler = scheduler(Policy::Adaptive);
    scheduler.write(ONLY, Bytes::from(vec![1; 10]));
    scheduler.take(now(), 1).unwrap();
    let at = scheduler.overdue_at(1).unwrap();
    assert_eq!(at, now() + UNKNOWN_SERVICE);
    assert_eq!(scheduler.take(at - Duration::from_millis(1), 0), None);
    assert_eq!(scheduler.take(at, 0).unwrap().offset, 0);
    assert_eq!(scheduler.overdue_at(1), None, "the other is to be watched now");
    assert!(scheduler.overdue_at(0).is_some());
}

/// If other lanes take over every chunk of a lane, its estimate must not stay as fast as it once
/// was: the lane would get long chunks for ever.
#[test]
fn late_copies_tell_how_slow_a_lane_is() {
    let mut scheduler = one_stream(Policy::Adaptive.build(), 256 << 10, 64 << 20, 64 << 20, 64 << 20);
    (0..2).for_each(|lane| scheduler.lane_up(lane, LaneTraits::default()));
    let length = FIRST_CHUNK as u64;
    scheduler.write(ONLY, Bytes::from(vec![0; FIRST_CHUNK]));
    scheduler.take(now(), 1).unwrap();
    let overdue = scheduler.overdue_at(1).unwrap();
    assert_eq!(scheduler.take(overdue, 0).unwrap().offset, 0);
    let limit = (64 << 20) + length;
    scheduler.handle_ack(overdue + Duration::from_millis(1), 0, &ack(1, limit)).unwrap();
    assert_eq!(
        (scheduler.flight().at_risk(1), scheduler.lane(1).in_flight()),
        (0, length),
        "another lane has delivered the chunk"
    );
    assert_eq!(scheduler.flight().lane_view(1).rate, None);
    let late = now() + Duration::from_secs(1);
    scheduler.handle_ack(late, 1, &ack(1, limit)).unwrap();
    assert_eq!(scheduler.lane(1).in_flight(), 0);
    assert!(scheduler.flight().lane_view(1).rate.unwrap() < 1.1 * length as f64, "the chunk took a second");
}

/// The past rate of a stuck lane does not count, though no acknowledgement corrects the estimate.
#[test]
fn nothing_is_left_to_a_stuck_lane() {
    let mut scheduler = one_stream(Policy::Adaptive.build(), 256 << 10, 64 << 20, 64 << 20, 64 << 20);
    (0..3).for_each(|lane| scheduler.lane_up(lane, LaneTraits::default()));
    let after = |milliseconds| now() + Duration::from_millis(milliseconds);
    scheduler.write(ONLY, Bytes::from(vec![0; 32 << 20]));
    (0..3).for_each(|lane| drop(scheduler.take(now(), lane)));
    (0..3).for_each(|lane| scheduler.handle_ack(after(20), lane, &ack(1, 64 << 20)).unwrap());
    while scheduler.lane(0).in_flight() < 1 << 20 {
        scheduler.take(after(20), 0).unwrap();
    }
    scheduler.take(after(20), 1).unwrap();
    let first = scheduler.take(after(20), 2).unwrap().offset;
    scheduler.stall(2);
    assert_ne!(scheduler.take(after(21), 0).unwrap().offset, first, "lane 1 has less to do");
    let mut arrived = 1;
    let taken = (30..2_000).step_by(10).find(|at| {
        arrived += 1;
        scheduler.handle_ack(after(*at), 0, &ack(arrived, 64 << 20)).unwrap();
        scheduler.take(after(*at), 0).unwrap().offset == first
    });
    assert!(taken.is_some_and(|at| (100..700).contains(&at)), "and lane 1 has not delivered it: {taken:?}");
}

#[test]
fn a_lane_that_is_late_alone() {
    let mut scheduler = scheduler(Policy::Static);
    let after = |milliseconds| now() + Duration::from_millis(milliseconds);
    scheduler.write(ONLY, Bytes::from(vec![1; 110]));
    for _ in 0..5 {
        (0..2).for_each(|lane| drop(scheduler.take(now(), lane)));
    }
    assert_eq!(scheduler.flight().late_lane(), None, "both lanes have chunks in flight");
    scheduler.handle_ack(after(1), 1, &ack(4, 100)).unwrap();
    assert_eq!(scheduler.flight().late_lane(), None, "the other lane has one more");
    scheduler.handle_ack(after(2), 1, &ack(5, 100)).unwrap();
    assert_eq!(scheduler.flight().late_lane(), Some(0));
    assert!(scheduler.buffer().is_held_up_by(0) && !scheduler.buffer().is_held_up_by(1), "the window is full");
    scheduler.handle_ack(after(3), 0, &ack(1, 120)).unwrap();
    assert_eq!(
        (scheduler.flight().late_lane(), scheduler.buffer().is_held_up_by(0)),
        (Some(0), false),
        "the window has opened"
    );
    scheduler.stall(1);
    assert_eq!(scheduler.flight().late_lane(), None, "no other lane can be used");
}

/// Nothing says that the other lane would get an answer.
#[test]
fn a_lone_chunk_makes_no_lane_late() {
    let mut scheduler = scheduler(Policy::Static);
    scheduler.write(ONLY, Bytes::from(vec![1; 10]));
    scheduler.take(now(), 0).unwrap();
    assert_eq!(scheduler.flight().late_lane(), None);
}

/// A lane that rejoins under its number is a new connection, which has taken nothing yet.
#[test]
fn reinjection_on_a_lane_that_rejoined() {
    let mut scheduler = scheduler(Policy::Adaptive);
    scheduler.write(ONLY, Bytes::from(vec![1; 10]));
    scheduler.take(now(), 0).unwrap();
    let at = scheduler.overdue_at(0).unwrap();
    assert_eq!(scheduler.take(at, 1).unwrap().offset, 0);
    scheduler.lane_lost(0);
    scheduler.lane_up(0, LaneTraits::default());
    let at = scheduler.overdue_at(1).unwrap();
    assert_eq!(scheduler.take(at, 0).map(|chunk| chunk.offset), Some(0));
}
