//! Bytes arrive in order in both directions, with every way to write and read them.

use crate::{
    loopback::{PATIENCE, rails},
    util::{moved, options, pair, pattern},
};
use bytes::Bytes;
use rails_multirail::{
    MultiRailStream, Policy, RailId, StripePolicy,
    policy::{Decision, SchedulerView, Sent, Wait},
    record::{Record, RecordedEvent},
};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

#[tokio::test]
async fn both_directions_at_once() {
    for policy in [Policy::Adaptive, Policy::Static] {
        let rails = rails(3);
        let (near, far) = pair(&rails, &options().policy(policy)).await;
        let (there, back) = (pattern(9_000_001), pattern(5_000_003));
        let exchange = |mut stream: MultiRailStream, out: Vec<u8>, len: usize| async move {
            let (mut read, mut write) = tokio::io::split(&mut stream);
            let mut got = Vec::with_capacity(len);
            let (sent, received) = tokio::join!(
                async {
                    write.write_all(&out).await?;
                    write.shutdown().await
                },
                read.read_to_end(&mut got)
            );
            sent.unwrap();
            received.unwrap();
            (got, stream.close().await.unwrap())
        };
        let (a, b) = tokio::join!(exchange(near, there.clone(), back.len()), exchange(far, back.clone(), there.len()));
        assert!(a.0 == back && b.0 == there);
        assert_eq!((a.1.bytes_written, b.1.bytes_read), (9_000_001, 9_000_001));
        assert_eq!(a.1.lanes.len(), 3);
        assert_eq!(a.1.lanes.iter().map(|lane| lane.bytes_sent).sum::<u64>(), 9_000_001 + a.1.bytes_sent_again);
        assert!(a.1.lanes.iter().chain(&b.1.lanes).all(|lane| lane.lost.is_none()), "{a:?} {b:?}", a = a.1, b = b.1);
    }
}

#[tokio::test]
async fn a_half_closed_stream_still_answers() {
    let rails = rails(2);
    let (mut near, mut far) = pair(&rails, &options()).await;
    near.write_all(b"question").await.unwrap();
    near.shutdown().await.unwrap();
    let mut question = String::new();
    far.read_to_string(&mut question).await.unwrap();
    assert_eq!(question, "question");
    far.write_all(b"answer").await.unwrap();
    let (answer, closed) = tokio::join!(
        async {
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            assert!(near.write_all(b"more").await.is_err(), "the write side was shut down");
            near.close().await.unwrap();
            answer
        },
        far.close()
    );
    closed.unwrap();
    assert_eq!(answer, "answer");
}

#[tokio::test]
async fn whole_buffers_are_moved_over_every_lane() {
    let rails = rails(2);
    // Under the adaptive policy one lane may be so fast that the other gets no bytes.
    let (mut near, mut far) = pair(&rails, &options().policy(Policy::Static)).await;
    let block = Bytes::from(pattern(1 << 20));
    let writer = {
        let block = block.clone();
        tokio::spawn(async move {
            for _ in 0..64 {
                near.write_bytes(block.clone()).await.unwrap();
            }
            near.close().await.unwrap()
        })
    };
    let mut got = Vec::new();
    while let Some(bytes) = far.read_bytes().await.unwrap() {
        got.extend_from_slice(&bytes);
    }
    assert_eq!(got.len(), 64 << 20);
    assert!(got.chunks(1 << 20).all(|chunk| chunk == block));
    far.close().await.unwrap();
    let stats = writer.await.unwrap();
    assert!(stats.lanes.iter().all(|lane| lane.bytes_sent > 0), "both lanes were used: {stats:?}");
}

/// A part of a buffer may be taken; the rest is there for any way of reading.
#[tokio::test]
async fn reads_of_limited_length_lose_no_byte() {
    let rails = rails(2);
    let (mut near, mut far) = pair(&rails, &options()).await;
    let all = pattern(1 << 20);
    near.write_bytes(all.clone().into()).await.unwrap();
    let closing = tokio::spawn(near.close());
    assert_eq!(far.read_bytes_up_to(0).await.unwrap().unwrap(), Bytes::new());
    let mut got = Vec::new();
    for limit in (1..=8).cycle() {
        match far.read_bytes_up_to(1 << (2 * limit)).await.unwrap() {
            Some(bytes) => {
                assert!(!bytes.is_empty() && bytes.len() <= 1 << (2 * limit));
                got.extend_from_slice(&bytes);
            }
            None => break,
        }
        if limit == 4 {
            got.push(far.read_u8().await.unwrap());
        }
    }
    assert!(got == all);
    far.close().await.unwrap();
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn single_bytes_arrive_at_once() {
    let rails = rails(2);
    let (mut near, mut far) = pair(&rails, &options()).await;
    for round in 0..200u8 {
        near.write_u8(round).await.unwrap();
        let got = timeout(PATIENCE, far.read_u8()).await.expect("nothing holds a byte back").unwrap();
        assert_eq!(got, round);
        far.write_u8(got).await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), round);
    }
}

#[tokio::test]
async fn stalled_reader_stops_the_writer() {
    let rails = rails(2);
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(32 << 10);
    let (mut near, mut far) = pair(&rails, &small).await;
    let sent = pattern(1 << 20);
    let mut written = 0;
    while let Ok(count) = timeout(Duration::from_millis(300), near.write(&sent[written..])).await {
        written += count.unwrap();
    }
    assert!(written <= (64 << 10) + (32 << 10), "{written} bytes were taken, more than the window and the buffer");
    let rest = sent[written..].to_vec();
    let writer = tokio::spawn(async move {
        near.write_all(&rest).await.unwrap();
        near.close().await.unwrap();
    });
    let mut got = Vec::new();
    far.read_to_end(&mut got).await.unwrap();
    assert!(got == sent);
    far.close().await.unwrap();
    writer.await.unwrap();
}

/// Gives a part of the stream to the lane that joined first, and the rest to the second.
#[derive(Debug)]
struct InTwoParts {
    /// The bytes of its part that the first lane has been given.
    first_had: usize,
}

impl StripePolicy for InTwoParts {
    fn decide(&self, view: &SchedulerView<'_>, lane: usize) -> Decision {
        let left = FIRST_PART.saturating_sub(self.first_had);
        match (view.waiting, lane) {
            (None, _) => Decision::Wait(Wait::NothingToSend),
            (_, 0) if left > 0 => Decision::New(left),
            (_, 1) if left == 0 => Decision::New(view.longest_chunk),
            _ => Decision::Wait(Wait::OutOfTurn),
        }
    }

    fn on_sent(&mut self, sent: &Sent) {
        if sent.lane == 0 {
            self.first_had += sent.length as usize;
        }
    }
}

const FIRST_PART: usize = 1 << 20;

#[tokio::test]
async fn policy_of_the_application() {
    let rails = rails(2);
    let options = options().custom_policy(|| Box::new(InTwoParts { first_had: 0 }));
    let mut seen = Vec::new();
    // A machine that lets a lane's thread wait for half a second has the scheduler overrule the policy.
    for _ in 0..10 {
        let (near, far) = pair(&rails, &options).await;
        let [sent, _] = moved(near, far, pattern(3 << 20)).await;
        // The policy numbers lanes as they joined.
        let mut carried: Vec<u64> = sent.lanes.iter().map(|lane| lane.bytes_sent).collect();
        carried.sort();
        if carried == [FIRST_PART as u64, (3 << 20) - FIRST_PART as u64] {
            return;
        }
        seen.push(carried);
    }
    panic!("the lanes carried {seen:?}");
}

/// A policy whose every call panics.
#[derive(Debug)]
struct Panics;

impl StripePolicy for Panics {
    fn decide(&self, _view: &SchedulerView<'_>, _lane: usize) -> Decision {
        panic!("this policy decides nothing")
    }

    fn on_sent(&mut self, _sent: &Sent) {
        panic!("this policy hears nothing")
    }

    fn on_lost(&mut self, _lane: usize) {
        panic!("this policy hears nothing")
    }
}

#[tokio::test]
async fn policy_that_panics_is_replaced() {
    let rails = rails(2);
    let (near, far) = pair(&rails, &options().custom_policy(|| Box::new(Panics))).await;
    moved(near, far, pattern(1 << 20)).await;
}

#[tokio::test]
async fn recorded_decisions_outlive_their_stream() {
    let rails = rails(2);
    let (near, far) = pair(&rails, &options().record_decisions(10_000)).await;
    let [decisions, idle] = [near.decisions(), far.decisions()];
    moved(near, far, pattern(3 << 20)).await;
    let record = decisions.take().expect("the stream records decisions");
    assert_eq!((record.policy, record.dropped), (Some(Policy::Adaptive), 0));
    assert_eq!(record.replay(&mut *Policy::Adaptive.build()), []);
    let sent = |record: &Record| -> u64 {
        let event = |event: &RecordedEvent| if let RecordedEvent::Sent(sent) = event { sent.length.into() } else { 0 };
        record.entries.iter().map(|entry| event(&entry.event)).sum()
    };
    assert!(sent(&record) >= 3 << 20, "{} bytes", sent(&record));
    assert_eq!(idle.take().map(|record| sent(&record)), Some(0));
    assert_eq!(decisions.take().map(|record| record.entries.len()), Some(0), "each decision is handed out once");
}

#[tokio::test]
async fn a_lane_may_have_several_connections() {
    let rails = rails(2);
    let options = options().parallel(3);
    let (near, far) = pair(&rails, &options).await;
    let [sent, _] = moved(near, far, pattern(20 << 20)).await;
    let of_rail = |rail| sent.lanes.iter().filter(|lane| lane.rail == RailId(rail)).count();
    assert_eq!((sent.lanes.len(), of_rail(0), of_rail(1)), (6, 3, 3));
}
