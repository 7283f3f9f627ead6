//! Pipelines that end well, and their figures.

use crate::util::{all_are_back, buffered, count_to, drain, forward, number, numbered, rail, runtime};
use rails_multirail::pipeline::{Buffer, Input, Link, Output, Pipeline, Side, StageState};
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};
use tokio::{sync::oneshot, time::sleep};

#[test]
fn every_item_arrives_in_order() {
    for spin in [Duration::ZERO, Duration::from_micros(50)] {
        let pipeline = Pipeline::builder("p")
            .spin(spin)
            .source("source", rail(0), async |output| count_to(10_000, output).await)
            .stage("stage", rail(1), buffered(4, 8), async |input, output| forward(input, output).await)
            .sink("sink", rail(0), Link::new(1), async |mut input: Input<Buffer>| {
                let mut next = 0;
                while let Some(buffer) = input.recv().await? {
                    assert_eq!(number(&buffer), next);
                    next += 1;
                }
                Ok(())
            });
        let stats = runtime().block_on(pipeline.start().unwrap().join()).unwrap();
        let counts = |stage: &str| {
            let stage = stats.stage(stage).unwrap();
            (stage.items_in, stage.items_out, stage.dropped, stage.state)
        };
        assert_eq!(counts("source"), (0, 10_000, 0, StageState::Ended));
        assert_eq!(counts("stage"), (10_000, 10_000, 0, StageState::Ended));
        assert_eq!(counts("sink"), (10_000, 0, 0, StageState::Ended));
        assert!(all_are_back(&stats), "{stats:?}");
    }
}

#[test]
fn items_on_their_way_outlive_a_stop() {
    let (sent, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (source, sink) = (sent.clone(), count.clone());
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async move |mut output: Output<Buffer>| {
            for item in 0.. {
                let buffer = output.buffer().await?;
                output.send(numbered(buffer, item)).await?;
                source.store(item + 1, SeqCst);
            }
            Ok(())
        })
        .stage("stage", rail(1), buffered(4, 8), async |input, output| forward(input, output).await)
        .sink("sink", rail(0), Link::new(4), async move |mut input: Input<Buffer>| {
            while let Some(buffer) = input.recv().await? {
                assert_eq!(number(&buffer), sink.fetch_add(1, SeqCst));
            }
            Ok(())
        });
    let running = pipeline.start().unwrap();
    let handle = running.stop_handle();
    let stats = runtime().block_on(async {
        let stop = async {
            while count.load(SeqCst) < 100 {
                sleep(Duration::from_millis(1)).await;
            }
            handle.stop();
        };
        tokio::join!(running.join(), stop).0.unwrap()
    });
    let (sent, received) = (sent.load(SeqCst), count.load(SeqCst));
    assert!((sent..=sent + 1).contains(&received), "{received} of {sent}");
    assert!(stats.stages.iter().all(|stage| stage.state == StageState::Ended), "{stats:?}");
    assert!(all_are_back(&stats), "{stats:?}");
}

#[test]
fn a_source_that_waits_is_stopped() {
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async |_output: Output<Buffer>| pending().await)
        .sink("sink", rail(1), buffered(1, 1), async |input| drain(input).await);
    let stats = runtime().block_on(pipeline.start().unwrap().stop()).unwrap();
    assert!(stats.stages.iter().all(|stage| stage.state == StageState::Ended), "{stats:?}");
}

#[test]
fn a_slow_sink_blocks_the_source_and_the_reverse() {
    let slow = Duration::from_millis(5);
    let pipeline = Pipeline::builder("p")
        .source("fast", rail(0), async |output| count_to(20, output).await)
        .stage("slow", rail(1), buffered(1, 2), async move |mut input: Input<Buffer>, mut output| {
            while let Some(buffer) = input.recv().await? {
                sleep(slow).await;
                output.send(buffer).await?;
            }
            Ok(())
        })
        .sink("sink", rail(0), Link::new(1), async |input| drain(input).await);
    let stats = runtime().block_on(pipeline.start().unwrap().join()).unwrap();
    let of = |stage: &str| stats.stage(stage).unwrap();
    // The stage sleeps 20 times, which counts as busy.
    assert!(of("slow").busy >= 20 * slow, "{stats:?}");
    assert!(of("fast").blocked > of("fast").starved, "{stats:?}");
    assert!(of("sink").starved > of("sink").blocked, "{stats:?}");
}

#[test]
fn figures_are_told_while_it_runs() {
    let (proceed, wait) = oneshot::channel::<()>();
    let (reached, at) = mpsc::channel();
    let pipeline = Pipeline::builder("p").source("source", rail(0), async |output| count_to(2, output).await).sink(
        "sink",
        rail(1),
        buffered(1, 1),
        async move |mut input: Input<Buffer>| {
            let _first = input.recv().await?;
            reached.send(())?;
            wait.await?;
            drop(_first);
            drain(input).await
        },
    );
    let running = pipeline.start().unwrap();
    at.recv().unwrap();
    // The source comes to wait for the only buffer.
    while running.stats().stages[0].state != StageState::Blocked {
        std::thread::yield_now();
    }
    let stats = running.stats();
    assert_eq!((stats.stages[1].items_in, stats.stages[1].state), (1, StageState::Busy));
    assert_eq!(stats.stages[0].buffers.as_ref().map(|buffers| (buffers.count, buffers.free)), Some((1, 0)));
    proceed.send(()).unwrap();
    let stats = runtime().block_on(running.join()).unwrap();
    assert!(stats.stages[0].blocked > Duration::ZERO);
}

#[test]
fn a_live_source_drops_and_counts() {
    let (proceed, wait) = oneshot::channel::<()>();
    let pipeline = Pipeline::builder("p")
        .source("camera", rail(0), async move |mut output: Output<u32>| {
            let mut handed = Vec::new();
            for frame in 0..5 {
                handed.push(output.offer(frame)?);
            }
            assert_eq!(handed, [true, true, false, false, false]);
            let _ = proceed.send(());
            Ok(())
        })
        .sink("sink", rail(1), Link::new(2), async |mut input: Input<u32>| {
            wait.await?;
            assert_eq!([input.recv().await?, input.recv().await?, input.recv().await?], [Some(0), Some(1), None]);
            Ok(())
        });
    let stats = runtime().block_on(pipeline.start().unwrap().join()).unwrap();
    assert_eq!((stats.stages[0].items_out, stats.stages[0].dropped), (2, 3));
}

/// The receiver of a long channel takes several items at a time; the channel has room for its
/// length besides.
#[test]
fn a_channel_holds_as_many_items_as_it_says() {
    for length in [1, 4, 8, 64] {
        let (proceed, wait) = oneshot::channel::<()>();
        let pipeline = Pipeline::builder("p")
            .source("source", rail(0), async move |mut output: Output<usize>| {
                for item in 0..length {
                    assert!(output.offer(item)?, "{item} of {length}");
                }
                assert!(!output.offer(length)?);
                let _ = proceed.send(());
                Ok(())
            })
            .sink("sink", rail(1), Link::new(length), async move |mut input: Input<usize>| {
                wait.await?;
                while input.recv().await?.is_some() {}
                Ok(())
            });
        let stats = runtime().block_on(pipeline.start().unwrap().join()).unwrap();
        assert_eq!((stats.stages[1].items_in, stats.stages[0].dropped), (length as u64, 1));
    }
}

/// Describing takes no part of the time, and neither does asking late.
#[test]
fn the_time_is_that_from_start_to_the_last_end() {
    let described = std::time::Instant::now();
    let pipeline = Pipeline::builder("p").source("source", rail(0), async |output| count_to(1, output).await).sink(
        "sink",
        rail(1),
        buffered(1, 1),
        async |input| drain(input).await,
    );
    std::thread::sleep(Duration::from_millis(50));
    let pause = described.elapsed();
    let running = pipeline.start().unwrap();
    while running.stats().stages.iter().any(|stage| stage.state != StageState::Ended) {
        std::thread::yield_now();
    }
    let elapsed = running.stats().elapsed;
    assert!(elapsed <= described.elapsed() - pause, "{elapsed:?}");
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(running.stats().elapsed, elapsed);
}

#[test]
fn buffers_lie_on_the_node_of_the_asked_stage() {
    for (side, beside) in [(Side::Producer, 0), (Side::Consumer, 1)] {
        let node = rail(beside).placement().memory_node.clone().ok();
        let (told, heard) = mpsc::channel();
        let pipeline = Pipeline::builder("p")
            .source("source", rail(0), async move |output: Output<Buffer>| {
                told.send(output.buffer_residency().expect("it has buffers")?)?;
                count_to(1, output).await
            })
            .sink("sink", rail(1), Link::new(1).buffers(side, 1 << 20, 2), async |input| drain(input).await);
        let stats = runtime().block_on(pipeline.start().unwrap().join()).unwrap();
        let buffers = stats.stages[0].buffers.clone().unwrap();
        assert_eq!((buffers.wished_node, buffers.bytes, buffers.count), (node, 1 << 20, 2));
        if let Some(node) = node {
            assert_eq!(heard.recv().unwrap().bytes_on(node), 2 << 20);
        }
    }
}

#[test]
fn statistics_are_written_as_json() {
    let pipeline = Pipeline::builder("p").source("source", rail(0), async |output| count_to(1, output).await).sink(
        "sink",
        rail(1),
        buffered(1, 1),
        async |input| drain(input).await,
    );
    let stats = runtime().block_on(pipeline.start().unwrap().join()).unwrap();
    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["stages"][0]["items_out"], 1);
    assert!(json["stages"][1]["starved_us"].is_u64(), "{json}");
}
