//! A task on a rail, beside the same task on a bare runtime of tokio.
//!
//! Run: `cargo bench --bench runtime`
//!
//! `on its own thread`: a task spawns an empty task on its own runtime, and awaits it. `from
//! another thread`: a task of a pinned runtime does so on another pinned runtime. There, `one at a
//! time` is the round trip, and mostly the cost of waking two idle threads; `64 at a time` keeps
//! them busy, and is the cost of a task then. The figures are for one task. The waiting side is a
//! task of its own runtime: waiting in `block_on` itself, as criterion's asynchronous bencher does,
//! is slower and would be measured too.
//!
//! `begins on another thread` is the time from `spawn` to the task's first instruction, the median
//! of each run; the rail is asleep, or spins.
//!
//! `move of a rail` is the time from the call of `Rails::move_rail`, on another rail, to the first
//! instruction of a task on the new CPU.
//!
//! The bare runtimes are `current_thread` ones, on threads that the bench pins to the CPUs of the
//! rails.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rails::{
    bind::thread::{self as rail_thread, bind_current},
    multirail::{
        RailId, RailRequest, Rails, plan_rails,
        runtime::{LONGEST_SPIN, RailRuntimeBuilder},
    },
    topo::{CpuId, CpuSet, Topology},
};
use std::{
    future::Future,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Handle};

fn tasks(criterion: &mut Criterion) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    // The two have a CPU each where there are two.
    let [into, from] = [plan.rails[0].cpu, plan.rails[1].cpu];
    let rail = |name: &str, cpu| RailRuntimeBuilder::new(name, CpuSet::single(cpu)).build().expect("a runtime");
    let (rail, from) = (Arc::new(rail("into", into)), rail("from", from));
    let bare = bare(into);

    let mut group = criterion.benchmark_group("task on its own thread");
    group.throughput(Throughput::Elements(1));
    group.bench_function("tokio::spawn", |bencher| {
        bencher
            .iter_custom(|tasks| timed(&bare, tasks, 1, || async { tokio::spawn(async {}).await.expect("it ends") }));
    });
    for (name, local) in [("RailRuntime::spawn", false), ("RailRuntime::spawn_local", true)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|tasks| {
                let on = rail.clone();
                timed(rail.handle(), tasks, 1, move || {
                    let task = if local { on.spawn_local(|| async {}) } else { on.spawn(async {}) };
                    async { task.await.expect("it ends") }
                })
            });
        });
    }
    group.finish();

    for at_a_time in [1, 64] {
        let mut group = criterion.benchmark_group(format!("task from another thread/{at_a_time} at a time"));
        group.throughput(Throughput::Elements(1));
        group.bench_function("Handle::spawn", |bencher| {
            bencher.iter_custom(|tasks| {
                let into = bare.clone();
                timed(from.handle(), tasks, at_a_time, move || {
                    let task = into.spawn(async {});
                    async { task.await.expect("it ends") }
                })
            });
        });
        for (name, local) in [("RailRuntime::spawn", false), ("RailRuntime::spawn_local", true)] {
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|tasks| {
                    let into = rail.clone();
                    timed(from.handle(), tasks, at_a_time, move || {
                        let task = if local { into.spawn_local(|| async {}) } else { into.spawn(async {}) };
                        async { task.await.expect("it ends") }
                    })
                });
            });
        }
        group.finish();
    }
}

/// The time from `spawn`, on a pinned thread, to the task's first instruction on another one. Each
/// task is spawned some time after the one before it, so that a thread that sleeps in between is
/// asleep.
fn begin(criterion: &mut Criterion) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let [into, from] = [plan.rails[0].cpu, plan.rails[1].cpu];
    let _bound = bind_current(&CpuSet::single(from)).expect("a thread binds itself");
    let mut group = criterion.benchmark_group("task begins on another thread");
    group.throughput(Throughput::Elements(1));
    for (name, spin) in [("asleep", Duration::ZERO), ("spinning", LONGEST_SPIN)] {
        let rail = RailRuntimeBuilder::new(name, CpuSet::single(into)).spin(spin).build().expect("a runtime");
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|tasks| {
                let mut taken: Vec<Duration> = (0..tasks)
                    .map(|_| {
                        wait(Duration::from_micros(50));
                        let (done, begun) = mpsc::channel();
                        let spawned = Instant::now();
                        drop(rail.spawn(async move { done.send(Instant::now()).expect("the bench waits for it") }));
                        begun.recv().expect("the task runs") - spawned
                    })
                    .collect();
                // The median: criterion takes a run for one in which every task took that long.
                taken.sort_unstable();
                taken[taken.len() / 2] * u32::try_from(tasks).expect("a run is short")
            });
        });
    }
    group.finish();
}

fn moves(criterion: &mut Criterion) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("they need no privilege");
    let cpus: Vec<CpuId> = topology.allowed_cpus().iter().collect();
    criterion.bench_function("move of a rail", |bencher| {
        bencher.iter_custom(|moves| {
            let (set, cpus) = (rails.clone(), cpus.clone());
            let moving = rails[RailId(1)].runtime().block_on(move || async move {
                let rail = &set[RailId(0)];
                let begin = Instant::now();
                for cpu in cpus.into_iter().cycle().take(moves as usize) {
                    let mut to = (*rail.planned()).clone();
                    to.cpu = cpu;
                    set.move_rail(to).await.expect("the CPU is allowed");
                    let runs_on = rail.runtime().spawn(async { rail_thread::current_cpu() }).await;
                    assert_eq!(runs_on.expect("it ends").expect("the kernel says"), cpu);
                }
                begin.elapsed()
            });
            moving.expect("no move fails")
        });
    });
}

fn wait(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A bare runtime on a thread of that CPU, until the bench ends.
fn bare(cpu: CpuId) -> Handle {
    let (built, handle) = mpsc::channel();
    thread::spawn(move || {
        let _bound = bind_current(&CpuSet::single(cpu)).expect("a thread binds itself");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        built.send(runtime.handle().clone()).expect("the bench waits for it");
        runtime.block_on(std::future::pending::<()>());
    });
    handle.recv().expect("the thread builds its runtime")
}

/// The time of `tasks` tasks, `at_a_time` of them under way, which a task on `from` starts and
/// awaits.
fn timed<F, Fut>(from: &Handle, tasks: u64, at_a_time: u64, start: F) -> Duration
where
    F: Fn() -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (done, elapsed) = mpsc::channel();
    drop(from.spawn(async move {
        let clock = Instant::now();
        let mut left = tasks;
        while left > 0 {
            let now = left.min(at_a_time);
            let started: Vec<Fut> = (0..now).map(|_| start()).collect();
            for task in started {
                task.await;
            }
            left -= now;
        }
        done.send(clock.elapsed()).expect("the bench waits for it");
    }));
    elapsed.recv().expect("the task does not panic")
}

criterion_group!(benches, tasks, begin, moves);
criterion_main!(benches);
