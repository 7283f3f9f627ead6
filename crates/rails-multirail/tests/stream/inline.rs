//! Small writes and arrivals on the application's thread.

use crate::{
    loopback::{PATIENCE, rails},
    util::{options, pair, pattern},
};
use bytes::Bytes;
use rails_bind::thread::Tid;
use rails_multirail::{EventKind, MultiRailMessages, MultiRailStream, Priority, Rails, StreamOptions};
use rand::{RngExt, SeedableRng};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::{Builder, Handle},
    time::timeout,
};

/// How often the rails' threads have gone to sleep: once for every wake.
fn sleeps(rails: &Rails) -> u64 {
    let of = |thread: Tid| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).expect("the thread runs");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse().ok()).expect("the kernel counts them")
    };
    rails.iter().map(|rail| of(rail.runtime().placement().tid)).sum()
}

/// Options for readers on the calling runtime.
fn on_this_runtime() -> StreamOptions {
    options().application_runtime(&Handle::current())
}

/// Sends a message there, waits for it to come back, and begins anew.
async fn round_trips(near: &mut MultiRailStream, far: &mut MultiRailStream, count: usize, length: usize) {
    let message = pattern(length);
    let answer = async {
        let mut got = vec![0; length];
        for _ in 0..count {
            far.read_exact(&mut got).await.expect("the stream holds");
            far.write_all(&got).await.expect("the stream holds");
        }
    };
    let ask = async {
        let mut back = vec![0; length];
        for _ in 0..count {
            near.write_all(&message).await.expect("the stream holds");
            near.read_exact(&mut back).await.expect("the stream holds");
            assert!(back == message, "another message came back");
        }
    };
    timeout(PATIENCE, async { tokio::join!(answer, ask) }).await.expect("each message arrives");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn round_trips_leave_the_rails_asleep() {
    let rails = rails(2);
    let (mut near, mut far) = pair(&rails, &on_this_runtime()).await;
    round_trips(&mut near, &mut far, 200, 1024).await;
    let before = sleeps(&rails);
    round_trips(&mut near, &mut far, TRIPS, 1024).await;
    // Through the rails' threads each trip wakes at least four times: to send and to receive, at both
    // ends.
    let woken = sleeps(&rails) - before;
    assert!(woken < 2 * TRIPS as u64, "{woken} wakes for {TRIPS} round trips");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_leave_the_rails_asleep() {
    let rails = rails(2);
    let (near, far) = pair(&rails, &on_this_runtime()).await;
    let (near, mut far) = (near.into_messages().unwrap(), far.into_messages().unwrap());
    tokio::spawn(async move {
        while let Some(message) = far.recv().await.expect("the stream holds") {
            far.send(message.payload, Priority::NORMAL).await.expect("the stream holds");
        }
        far.finish().await
    });
    let (mut near, payload) = (near, Bytes::from(pattern(1024)));
    let trips = async |near: &mut MultiRailMessages, count| {
        for _ in 0..count {
            near.send(payload.clone(), Priority::NORMAL).await.expect("the stream holds");
            let back = timeout(PATIENCE, near.recv()).await.expect("it comes back").expect("the stream holds");
            assert_eq!(back.expect("another message").payload, payload);
        }
    };
    trips(&mut near, 200).await;
    let before = sleeps(&rails);
    trips(&mut near, TRIPS).await;
    let woken = sleeps(&rails) - before;
    assert!(woken < 2 * TRIPS as u64, "{woken} wakes for {TRIPS} round trips");
}

/// A reader that was woken for an arrival, and does not come, holds nothing up: the lane's task
/// receives in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_that_stays_away() {
    // With a second lane the peer would send again on that.
    let rails = rails(1);
    let (mut near, mut far) = pair(&rails, &on_this_runtime()).await;
    round_trips(&mut near, &mut far, 50, 1024).await;
    {
        let mut unread = [0];
        let mut read = pin!(near.read(&mut unread));
        let is_pending = poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_pending())).await;
        assert!(is_pending);
    }
    let sent = pattern(1 << 20);
    let delivered = async {
        far.write_all(&sent).await?;
        far.shutdown().await
    };
    timeout(PATIENCE, delivered).await.expect("the peer takes it without its application").expect("the stream holds");
    let mut got = Vec::new();
    near.read_to_end(&mut got).await.expect("the stream holds");
    assert!(got == sent, "other bytes arrived");
}

/// A task that has more requests at hand, and blocks its thread until the peer has its last answer,
/// gets there.
#[test]
fn blocked_thread_holds_no_answer_back() {
    const BATCH: u8 = 32;
    let (runtime, rails) = (Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(), rails(2));
    let asking = Builder::new_current_thread().enable_all().build().unwrap();
    let (arrived, arrives) = std::sync::mpsc::channel();
    let (mut near, mut far) = asking.block_on(pair(&rails, &options()));
    runtime.spawn(async move {
        loop {
            let request = far.read_u8().await?;
            far.write_u8(request).await?;
            if request == BATCH / 2 {
                arrives.recv_timeout(PATIENCE).expect("the peer gets the answer");
            }
        }
        #[expect(unreachable_code, reason = "the type of the errors above")]
        std::io::Result::Ok(())
    });
    let batches = async {
        let batch: Vec<u8> = (0..BATCH).collect();
        for _ in 0..50 {
            near.write_all(&batch).await?;
            for request in 0..BATCH {
                assert_eq!(near.read_u8().await?, request);
                if request == BATCH / 2 {
                    arrived.send(()).expect("the peer waits");
                }
            }
        }
        std::io::Result::Ok(())
    };
    asking
        .block_on(async { timeout(PATIENCE, batches).await })
        .expect("each answer arrives")
        .expect("the stream holds");
}

/// A lane whose arrivals a runtime reports goes back to its rail when that runtime ends.
#[test]
fn runtime_of_the_reader_ends() {
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second, rails) = (runtime(), runtime(), rails(2));
    let (mut near, mut far) = first.block_on(async {
        let (mut near, mut far) = pair(&rails, &on_this_runtime()).await;
        let trips = async move {
            round_trips(&mut near, &mut far, 100, 1024).await;
            (near, far)
        };
        tokio::spawn(trips).await.unwrap()
    });
    first.shutdown_background();
    second.block_on(async {
        round_trips(&mut near, &mut far, 100, 1024).await;
        round_trips(&mut near, &mut far, 3, 1 << 20).await;
        for end in [&near, &far] {
            assert_eq!(end.lanes_up(), 2);
            assert!(!end.events().iter().any(|event| matches!(event.kind, EventKind::Ended { .. })));
        }
    });
}

/// The end of the reader's runtime ends no lane on which another runtime's task writes.
#[test]
fn runtime_of_the_reader_ends_during_a_write() {
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second, rails) = (runtime(), runtime(), rails(2));
    let (near, mut far) = first.block_on(async {
        let (mut near, mut far) = pair(&rails, &on_this_runtime()).await;
        let trips = async move {
            round_trips(&mut near, &mut far, 100, 1024).await;
            (near, far)
        };
        tokio::spawn(trips).await.unwrap()
    });
    let (mut reader, mut writer) = near.into_split();
    first.spawn(async move { reader.read(&mut [0]).await });
    second.block_on(async {
        let sent = pattern(64 << 20);
        let expected = sent.clone();
        let writing = tokio::spawn(async move {
            writer.write_all(&sent).await.expect("the stream holds");
            writer.shutdown().await.expect("the peer reads to the end");
            writer
        });
        let mut got = vec![0; 1 << 20];
        far.read_exact(&mut got).await.expect("the stream holds");
        first.shutdown_background();
        timeout(PATIENCE, far.read_to_end(&mut got)).await.expect("it goes on").expect("the stream holds");
        assert!(got == expected, "other bytes arrived");
        let writer = timeout(PATIENCE, writing).await.expect("it ends").unwrap();
        let is_end = |kind: &EventKind| matches!(kind, EventKind::Ended { .. });
        assert!(!writer.stream().events().iter().any(|event| is_end(&event.kind) && event.error.is_some()));
    });
}

/// A runtime that cannot watch sockets, and is not named in the options, is left alone.
#[test]
fn reader_on_a_runtime_without_io() {
    let (runtime, rails) = (Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap(), rails(2));
    runtime.block_on(async {
        let (mut near, mut far) = pair(&rails, &options()).await;
        let trips = tokio::spawn(async move { round_trips(&mut near, &mut far, 100, 1024).await });
        trips.await.expect("no read needs the runtime's I/O");
    });
}

/// Bulk and small messages by turns, both ways at once, with halves on tasks of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_and_small_messages_by_turns() {
    let rails = rails(2);
    let (near, far) = pair(&rails, &on_this_runtime()).await;
    let mut ends = Vec::new();
    for (end, seed) in [(near, 1), (far, 2)] {
        let (mut reader, mut writer) = end.into_split();
        let sent = pattern(24 << 20);
        let expected = sent.clone();
        ends.push(tokio::spawn(async move {
            let mut random = rand::rngs::ChaCha8Rng::seed_from_u64(seed);
            let mut rest = &sent[..];
            while !rest.is_empty() {
                let length = 1 << random.random_range(0..21);
                let (next, behind) = rest.split_at(rest.len().min(length));
                writer.write_all(next).await.expect("the stream holds");
                rest = behind;
                if random.random_ratio(1, 4) {
                    tokio::task::yield_now().await;
                }
            }
            writer.shutdown().await.expect("the peer reads to the end");
        }));
        ends.push(tokio::spawn(async move {
            let mut got = Vec::new();
            reader.read_to_end(&mut got).await.expect("the stream holds");
            assert!(got == expected, "other bytes arrived");
        }));
    }
    for end in ends {
        timeout(PATIENCE, end).await.expect("it ends").unwrap();
    }
}

const TRIPS: usize = 2000;
