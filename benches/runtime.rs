//! A job into a rail, by the rail's own channel and by tokio's handle.
//!
//! Run: `cargo bench --bench runtime`
//!
//! `one at a time` is the round trip, and mostly the cost of waking two idle threads; `64 at a time` keeps them busy,
//! and is the cost of a job then. The figures are for one job. The waiting side is a task of its own runtime: waiting
//! in `block_on` itself, as criterion's asynchronous bencher does, is slower and would be measured too.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rails::{
    multirail::{
        RailRequest, Rails, plan_rails,
        runtime::{RailRuntime, RailRuntimeBuilder},
    },
    topo::{CpuSet, Topology},
};
use std::{
    future::Future,
    time::{Duration, Instant},
};

fn jobs(criterion: &mut Criterion) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::Loopback(Some(2))).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    let handle = rails.iter().next().expect("there are two").runtime().handle().clone();
    // From the second rail into the first, so that the two have a CPU each where there are two.
    let from = RailRuntimeBuilder::new("from", CpuSet::single(plan.rails[1].cpu)).build().expect("a runtime");

    for at_a_time in [1, 64] {
        let mut group = criterion.benchmark_group(format!("job into a rail/{at_a_time} at a time"));
        group.throughput(Throughput::Elements(1));
        let into = rails.clone();
        group.bench_function("RailRuntime::spawn", |bencher| {
            bencher.iter_custom(|jobs| {
                let into = into.clone();
                timed(&from, jobs, at_a_time, move || {
                    let task = into.iter().next().expect("there are two").runtime().spawn(|| async {});
                    async { task.await.expect("the rail runs") }
                })
            });
        });
        let into = handle.clone();
        group.bench_function("Handle::spawn", |bencher| {
            bencher.iter_custom(|jobs| {
                let into = into.clone();
                timed(&from, jobs, at_a_time, move || {
                    let task = into.spawn(async {});
                    async { task.await.expect("the rail runs") }
                })
            });
        });
        group.finish();
    }
}

/// The time of `jobs` jobs, `at_a_time` of them under way, which a task on `from` starts and awaits.
fn timed<F, Fut>(from: &RailRuntime, jobs: u64, at_a_time: u64, start: F) -> Duration
where
    F: Fn() -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let (done, elapsed) = std::sync::mpsc::channel();
    drop(from.spawn(move || async move {
        let clock = Instant::now();
        let mut left = jobs;
        while left > 0 {
            let now = left.min(at_a_time);
            let started: Vec<Fut> = (0..now).map(|_| start()).collect();
            for job in started {
                job.await;
            }
            left -= now;
        }
        done.send(clock.elapsed()).expect("the bench waits for it");
    }));
    elapsed.recv().expect("the task does not panic")
}

criterion_group!(benches, jobs);
criterion_main!(benches);
