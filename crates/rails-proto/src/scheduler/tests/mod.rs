//! The scheduler alone.

mod speed;

use super::*;
use crate::{
    chunk::{Chunk, ChunkKind, Content},
    policy::{Decision, LONGEST_REFUSAL, Policy, Wait},
    stream_number::StreamNumber,
};
use proptest::prelude::*;
use smallvec::smallvec;

const ONLY: StreamNumber = StreamNumber::FIRST;

/// A scheduler of one stream.
fn one_stream(
    policy: Box<dyn StripePolicy>,
    chunk: usize,
    buffer: usize,
    unacknowledged: u64,
    window: u64,
) -> Scheduler {
    let mut scheduler = Scheduler::new(policy, chunk, buffer, unacknowledged, window);
    scheduler.open(ONLY, u64::MAX);
    scheduler
}

/// The bytes of the only stream that no lane has taken.
fn unsent(scheduler: &Scheduler) -> &Unsent {
    scheduler.streams().unsent(ONLY).expect("the stream is open")
}

fn scheduler(policy: Policy) -> Scheduler {
    let mut scheduler = one_stream(policy.build(), 10, 1000, 100, 100);
    scheduler.lane_up(0, LaneTraits::default());
    scheduler.lane_up(1, LaneTraits::default());
    scheduler
}

/// The time, always the same, so that no chunk is ever overdue.
fn now() -> Instant {
    static NOW: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *NOW.get_or_init(Instant::now)
}

fn ack(chunks: u64, limit: u64) -> Ack {
    Ack { chunks, limit, complete: false }
}

fn offsets(chunks: &[Option<Chunk>]) -> Vec<Option<u64>> {
    chunks.iter().map(|chunk| chunk.as_ref().map(|chunk| chunk.offset)).collect()
}

#[test]
fn a_free_lane_takes_the_next_chunk() {
    let mut scheduler = scheduler(Policy::Adaptive);
    scheduler.write(ONLY, Bytes::from(vec![1; 35]));
    let taken = [
        scheduler.take(now(), 0),
        scheduler.take(now(), 0),
        scheduler.take(now(), 1),
        scheduler.take(now(), 0),
        scheduler.take(now(), 1),
    ];
    assert_eq!(offsets(&taken), [Some(0), Some(10), Some(20), Some(30), None]);
}

#[test]
fn static_shares_of_small_writes() {
    let mut scheduler = scheduler(Policy::Static);
    let mut bytes = [0; 2];
    for _ in 0..16 {
        scheduler.write(ONLY, Bytes::from_static(b"12345"));
        // The first lane always asks first.
        for lane in [0, 1, 0] {
            bytes[lane] += std::iter::from_fn(|| scheduler.take(now(), lane)).map(|chunk| chunk.length).sum::<u32>();
        }
    }
    assert_eq!(bytes, [40, 40]);
}

#[test]
fn weighted_shares_follow_the_weights() {
    let mut scheduler = one_stream(Policy::Weighted.build(), 12, 1 << 20, 1 << 20, 1 << 20);
    [4, 1, 0]
        .into_iter()
        .enumerate()
        .for_each(|(lane, weight)| scheduler.lane_up(lane, LaneTraits { weight, ..LaneTraits::default() }));
    scheduler.write(ONLY, Bytes::from(vec![1; 1800]));
    let mut bytes = [0; 3];
    for _ in 0..100 {
        for (lane, bytes) in bytes.iter_mut().enumerate() {
            *bytes += scheduler.take(now(), lane).map_or(0, |chunk| chunk.length);
        }
    }
    assert_eq!(bytes, [1200, 300, 300]);
    scheduler.lane_lost(0);
    let left: u32 = std::iter::from_fn(|| scheduler.take(now(), 1)).map(|chunk| chunk.length).sum();
    assert_eq!(left, 1200, "the chunks of a lost lane go out regardless of the weights");
}

#[test]
fn chunks_of_a_stalled_lane_until_it_answers() {
    let mut scheduler = scheduler(Policy::Adaptive);
    scheduler.write(ONLY, Bytes::from(vec![1; 40]));
    let _ = [scheduler.take(now(), 0), scheduler.take(now(), 0), scheduler.take(now(), 1)];
    scheduler.stall(0);
    assert!(scheduler.take(now(), 0).is_none());
    assert_eq!(offsets(&[scheduler.take(now(), 1)]), [Some(0)]);
    scheduler.handle_ack(now(), 0, &ack(2, 100)).unwrap();
    assert!(!scheduler.lane(0).is_stalled());
    assert_eq!(offsets(&[scheduler.take(now(), 1), scheduler.take(now(), 1)]), [Some(30), None], "10 has arrived");
    scheduler.finish(ONLY);
    assert!(scheduler.take(now(), 0).unwrap().fin);
    scheduler.handle_ack(now(), 1, &ack(3, 100)).unwrap();
    scheduler.handle_ack(now(), 0, &ack(3, 100)).unwrap();
    assert!(scheduler.buffer().is_complete(ONLY));
}

#[test]
fn chunks_that_stay_with_a_stalled_lane() {
    let mut scheduler = scheduler(Policy::Adaptive);
    scheduler.write(ONLY, Bytes::from(vec![1; 30]));
    let _ = [scheduler.take(now(), 0), scheduler.take(now(), 0), scheduler.take(now(), 0)];
    scheduler.stall(0);
    assert_eq!(offsets(&[scheduler.take(now(), 1)]), [Some(0)]);
    scheduler.restore(0);
    assert_eq!(offsets(&[scheduler.take(now(), 1), scheduler.take(now(), 0)]), [None, None]);
    assert_eq!((scheduler.flight().reissued().total().bytes, scheduler.flight().bytes_unacknowledged()), (10, 30));
}

/// Lane 2 was fast and has a long chunk in flight; lane 0 is not known and takes 16 KiB at a time.
fn a_long_chunk_in_flight_on_lane_2() -> (Scheduler, Chunk) {
    let mut scheduler = one_stream(Policy::Adaptive.build(), 80 << 10, 1 << 20, 1 << 20, 1 << 20);
    (0..3).for_each(|lane| scheduler.lane_up(lane, LaneTraits::default()));
    scheduler.write(ONLY, Bytes::from(vec![1; 96 << 10]));
    let after = |milliseconds| now() + Duration::from_millis(milliseconds);
    let first = scheduler.take(now(), 2).unwrap();
    scheduler.handle_ack(after(1), 2, &ack(1, (1 << 20) + u64::from(first.length))).unwrap();
    let long = scheduler.take(after(1), 2).unwrap();
    assert_eq!((long.offset, long.length), (16 << 10, 80 << 10));
    (scheduler, long)
}

fn takes_all_that_is_left(scheduler: &mut Scheduler, lane: usize) -> Vec<(u64, u32)> {
    let taken = std::iter::from_fn(|| scheduler.take(now(), lane));
    taken.map(|chunk| (chunk.offset >> 10, chunk.length >> 10)).collect()
}

#[test]
fn restored_lane_keeps_the_rest_of_its_chunk() {
    let (mut scheduler, _) = a_long_chunk_in_flight_on_lane_2();
    scheduler.stall(2);
    let piece = scheduler.take(now(), 0).unwrap();
    assert_eq!((piece.offset, piece.length), (16 << 10, 16 << 10));
    scheduler.restore(2);
    scheduler.lane_lost(2);
    scheduler.lane_lost(0);
    let left = takes_all_that_is_left(&mut scheduler, 1);
    assert_eq!(left, [(16, 16), (32, 16), (48, 16), (64, 16), (80, 16)]);
    scheduler.finish(ONLY);
    assert!(scheduler.take(now(), 1).unwrap().fin && !scheduler.buffer().is_complete(ONLY));
    scheduler.handle_ack(now(), 1, &ack(6, 1 << 20)).unwrap();
    assert!(scheduler.buffer().is_complete(ONLY));
}

#[test]
fn last_lane_of_a_chunk_answers_for_it() {
    let (mut scheduler, _) = a_long_chunk_in_flight_on_lane_2();
    scheduler.stall(2);
    scheduler.take(now(), 0).unwrap();
    scheduler.restore(2);
    scheduler.lane_lost(0);
    assert_eq!(takes_all_that_is_left(&mut scheduler, 1), [], "lane 2 carries all of it");
    scheduler.handle_ack(now(), 2, &ack(2, 1 << 20)).unwrap();
    assert_eq!(scheduler.flight().bytes_unacknowledged(), 0);
}

#[test]
fn a_late_acknowledgement_counts_for_every_piece() {
    let (mut scheduler, _) = a_long_chunk_in_flight_on_lane_2();
    scheduler.stall(2);
    scheduler.take(now(), 0).unwrap();
    scheduler.take(now(), 1).unwrap();
    scheduler.lane_lost(0);
    scheduler.handle_ack(now(), 2, &ack(2, 1 << 20)).unwrap();
    scheduler.lane_lost(1);
    assert_eq!((scheduler.flight().bytes_unacknowledged(), scheduler.buffer().lanes_worth_of_work()), (0, 0));
}

#[test]
fn requeued_chunk_cut_in_two() {
    let bytes = Bytes::from((0..100).collect::<Vec<u8>>());
    let payload = smallvec![bytes.slice(..30), bytes.slice(30..60), bytes.slice(60..)];
    let mut chunk = Chunk {
        position: 9,
        stream: ONLY,
        offset: 7,
        payload,
        length: 100,
        fin: true,
        content: Content::Bytes,
        kind: ChunkKind::Stream,
    };
    let rest = chunk.split_off(60).unwrap();
    assert_eq!((chunk.offset, chunk.length, chunk.fin, chunk.payload.len()), (7, 60, false, 2));
    assert_eq!((rest.position, rest.offset, rest.length, rest.fin), (69, 67, 40, true));
    assert_eq!([chunk.payload.concat(), rest.payload.concat()].concat(), bytes);
    assert_eq!(chunk.split_off(60), None);
}

#[test]
fn chunks_up_to_the_limit_and_beyond_a_new_one() {
    let mut scheduler = scheduler(Policy::Adaptive);
    scheduler.write(ONLY, Bytes::from(vec![1; 150]));
    let mut taken = 0;
    while let Some(chunk) = scheduler.take(now(), taken % 2) {
        assert!(chunk.offset + u64::from(chunk.length) <= 100);
        taken += 1;
    }
    assert_eq!(taken, 10);
    scheduler.handle_ack(now(), 0, &ack(1, 105)).unwrap();
    let chunk = scheduler.take(now(), 0).unwrap();
    assert_eq!((chunk.offset, chunk.length), (100, 5));
}

#[test]
fn chunks_of_a_lost_lane_go_to_another_first() {
    let mut scheduler = scheduler(Policy::Adaptive);
    scheduler.write(ONLY, Bytes::from(vec![1; 60]));
    let _ = [scheduler.take(now(), 0), scheduler.take(now(), 1), scheduler.take(now(), 1), scheduler.take(now(), 1)];
    scheduler.handle_ack(now(), 1, &ack(1, 100)).unwrap();
    scheduler.lane_lost(1);
    let taken = [scheduler.take(now(), 0), scheduler.take(now(), 0), scheduler.take(now(), 0)];
    assert_eq!(offsets(&taken), [Some(20), Some(30), Some(40)]);
}

#[test]
fn end_of_a_stream_is_sent_and_acknowledged() {
    let mut scheduler = scheduler(Policy::Adaptive);
    scheduler.write(ONLY, Bytes::from_static(b"hello"));
    assert!(!scheduler.take(now(), 0).unwrap().fin);
    scheduler.finish(ONLY);
    let fin = scheduler.take(now(), 1).unwrap();
    assert_eq!((fin.offset, fin.length, fin.fin), (5, 0, true));
    assert_eq!(scheduler.take(now(), 0), None);
    scheduler.handle_ack(now(), 0, &ack(1, 105)).unwrap();
    assert!(!scheduler.buffer().is_complete(ONLY));
    scheduler.handle_ack(now(), 1, &ack(1, 105)).unwrap();
    assert!(scheduler.buffer().is_complete(ONLY));
}

/// A policy that gives nothing to any lane.
#[derive(Debug)]
struct Never;

impl StripePolicy for Never {
    fn decide(&self, _: &SchedulerView<'_>, _: usize) -> Decision {
        Decision::Wait(Wait::Other)
    }
}

#[test]
fn a_policy_that_gives_nothing_is_overruled() {
    let mut scheduler = one_stream(Box::new(Never), 10, 1000, 100, 100);
    (0..2).for_each(|lane| scheduler.lane_up(lane, LaneTraits::default()));
    scheduler.write(ONLY, Bytes::from(vec![1; 20]));
    assert!(scheduler.take(now(), 0).is_none() && !scheduler.wants(now(), 1));
    let due = now() + LONGEST_REFUSAL;
    assert!(!scheduler.wants(due - Duration::from_millis(1), 1));
    assert!(scheduler.wants(due, 1));
    assert_eq!(offsets(&[scheduler.take(due, 1), scheduler.take(due, 1)]), [Some(0), None], "one at a time");
    scheduler.lane_lost(1);
    assert_eq!(offsets(&[scheduler.take(due, 0)]), [Some(0)], "requeued bytes come first");
    scheduler.handle_ack(due, 0, &ack(1, 100)).unwrap();
    assert_eq!(offsets(&[scheduler.take(due, 0)]), [Some(10)], "no need to wait again");
    scheduler.handle_ack(due, 0, &ack(2, 100)).unwrap();
    scheduler.write(ONLY, Bytes::from(vec![1; 10]));
    assert!(scheduler.take(due, 0).is_none(), "bytes written later wait anew");
}

#[test]
fn answers_that_cannot_be_carried_out() {
    let mut scheduler = scheduler(Policy::Static);
    scheduler.write(ONLY, Bytes::from(vec![1; 30]));
    let first = scheduler.take(now(), 0).unwrap();
    scheduler.buffer.flight_mut().refresh_lane_views();
    assert!(scheduler.buffer.carry_out(now(), Decision::Requeue(10), 0).is_none(), "nothing was requeued");
    assert!(
        scheduler.buffer.carry_out(now(), Decision::Reinject(first.offset), 0).is_none(),
        "the lane has it in flight itself"
    );
    assert!(
        scheduler.buffer.carry_out(now(), Decision::Reinject(first.offset + 1), 1).is_none(),
        "no chunk begins there"
    );
    assert_eq!(scheduler.buffer.carry_out(now(), Decision::New(0), 1).map(|(chunk, _)| chunk.length), Some(1));
    assert_eq!(
        scheduler.buffer.carry_out(now(), Decision::New(usize::MAX), 1).map(|(chunk, _)| chunk.length),
        Some(10)
    );
}

#[test]
fn acknowledgement_of_chunks_that_were_not_sent() {
    let mut scheduler = scheduler(Policy::Adaptive);
    scheduler.write(ONLY, Bytes::from_static(b"hello"));
    scheduler.take(now(), 0).unwrap();
    assert_eq!(scheduler.handle_ack(now(), 0, &ack(2, 100)), Err(Violation::NeverSent { acknowledged: 2, sent: 1 }));
    assert!(scheduler.handle_ack(now(), 0, &ack(0, 106)).is_err(), "read more than was sent");
    assert!(scheduler.handle_ack(now(), 0, &Ack { chunks: 1, limit: 100, complete: true }).is_err(), "no end was sent");
    scheduler.handle_ack(now(), 0, &ack(1, 105)).unwrap();
}

proptest! {
    /// Lanes ask, end and come back at random: each byte is handed out, and the memory stays within the bounds.
    #[test]
    fn every_byte_is_handed_out(
        policy in prop_oneof![Just(Policy::Adaptive), Just(Policy::Static), Just(Policy::Weighted)],
        steps in prop::collection::vec((0u8..7, 0usize..3, 1usize..40), 1..300),
    ) {
        let mut scheduler = one_stream(policy.build(), 16, 64, 100, 128);
        (0..3).for_each(|lane| scheduler.lane_up(lane, LaneTraits::default()));
        let mut written = 0u8;
        let mut expected = Vec::new();
        let mut received = vec![None; 300 * 40];
        let mut counts = [0u64; 3];
        let mut deliver = |chunk: &Chunk| {
            for (index, byte) in chunk.payload.concat().into_iter().enumerate() {
                received[chunk.offset as usize + index] = Some(byte);
            }
        };
        for (step, lane, amount) in steps {
            match step {
                0 | 1 => {
                    let amount = amount.min(unsent(&scheduler).writable_bytes());
                    let bytes: Vec<u8> = (0..amount).map(|_| { written = written.wrapping_add(1); written }).collect();
                    expected.extend_from_slice(&bytes);
                    scheduler.write(ONLY, bytes.into());
                }
                2 | 3 => if let Some(chunk) = scheduler.take(now(), lane) {
                    prop_assert!(chunk.length <= 16);
                    deliver(&chunk);
                    counts[lane] += 1;
                },
                4 => {
                    let limit = scheduler.streams().used() + scheduler.window().allowance(scheduler.streams().used(), 0);
                    scheduler.handle_ack(now(), lane, &ack(counts[lane], limit)).unwrap();
                }
                5 => scheduler.stall(lane),
                _ => {
                    scheduler.lane_lost(lane);
                    scheduler.lane_up(lane, LaneTraits::default());
                    counts[lane] = 0;
                }
            }
            prop_assert!(scheduler.buffer().bytes_kept() <= 100 + 64 && unsent(&scheduler).bytes() <= 64);
        }
        scheduler.finish(ONLY);
        // From here on lane 1 alone is left, and the peer reads everything.
        scheduler.lane_lost(0);
        scheduler.lane_lost(2);
        scheduler.restore(1);
        let mut rounds = 0;
        while !scheduler.buffer().is_complete(ONLY) {
            while let Some(chunk) = scheduler.take(now(), 1) {
                deliver(&chunk);
                counts[1] += 1;
            }
            let limit = scheduler.buffer.bytes_sent() + 128;
            scheduler.handle_ack(now(), 1, &ack(counts[1], limit)).unwrap();
            rounds += 1;
            prop_assert!(rounds < 10_000);
        }
        let received: Vec<u8> = received.into_iter().take(expected.len()).map(|byte| byte.expect("each byte was sent")).collect();
        prop_assert_eq!(received, expected);
    }
}
