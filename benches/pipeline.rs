//! The hand-over of buffers from one stage of a pipeline to the next, on rails with a core each.
//!
//! Run: `cargo bench --bench pipeline`
//!
//! `stream` is a source that takes a buffer, hands it over and takes the next one; the sink drops it, which gives it back
//! to the source. So a figure is that of a hand-over, of the return of a buffer and of all counters together. `ping-pong`
//! has one buffer: the source gets it again only once the sink has dropped it, so the figure is a hand-over there and the
//! way back. `busy` stages spin, and `asleep` ones await, so that each wakes the other's thread. The buffers are of 4 KiB,
//! and none of their bytes is touched.
//!
//! On a machine with one core both stages share it, and `busy` measures the scheduler.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rails::{
    multirail::{
        RailId, RailRequest, Rails,
        pipeline::{Buffer, Input, Link, Output, Pipeline, Side},
        plan_rails,
    },
    topo::Topology,
};
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};
use tokio::runtime::Builder;

fn hand_over(criterion: &mut Criterion) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    for (name, length, buffers) in [("stream", 64, 128), ("ping-pong", 1, 1)] {
        let mut group = criterion.benchmark_group(format!("hand-over of a buffer/{name}"));
        group.throughput(Throughput::Elements(1));
        for (state, spin) in [("busy", Duration::from_millis(1)), ("asleep", Duration::ZERO)] {
            group.bench_function(state, |bencher| {
                bencher
                    .iter_custom(|items| run(&rails, items, Link::new(length).buffers(SIDE, 4 << 10, buffers), spin));
            });
        }
        group.finish();
    }
}

/// The time of so many items, from the first to the last that the sink gets.
fn run(rails: &Rails, items: u64, link: Link, spin: Duration) -> Duration {
    let [from, to] = [0, 1].map(|rail| rails[RailId(rail)].runtime());
    let (told, heard) = mpsc::channel();
    let pipeline = Pipeline::builder("hand-over")
        .spin(spin)
        .source("source", from, async move |mut output: Output<Buffer>| {
            for _ in 0..=items {
                let buffer = output.buffer().await?;
                output.send(buffer).await?;
            }
            Ok(())
        })
        .sink("sink", to, link, async move |mut input: Input<Buffer>| {
            drop(input.recv().await?);
            let start = Instant::now();
            while let Some(buffer) = input.recv().await? {
                drop(buffer);
            }
            told.send(start.elapsed())?;
            Ok(())
        });
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(pipeline.start().expect("there is memory").join()).expect("no stage fails");
    heard.recv().expect("the sink has ended")
}

const SIDE: Side = Side::Consumer;

criterion_group!(benches, hand_over);
criterion_main!(benches);
