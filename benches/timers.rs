//! How late timers fire: those of the kernel, by which Celeritas paces, and tokio's; alone, beside
//! a thread that computes on the same CPU, and beside tasks that compute on the same runtime.
//!
//! Run: `cargo bench --bench timers`. A figure is the time between the instant that was asked for,
//! 250 us ahead, and the task's return. The 99th of 100 and the latest are printed below each.

use core_affinity::CoreId;
use criterion::{Criterion, criterion_group, criterion_main};
use rails::net::Timer;
use std::{
    future::poll_fn,
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};

/// A burst at 10 Gbit/s.
const AHEAD: Duration = Duration::from_micros(250);
/// The time for which a task computes before it yields.
const TASK: Duration = Duration::from_micros(100);

fn late(criterion: &mut Criterion) {
    let core = core_affinity::get_core_ids().and_then(|cores| cores.last().copied()).expect("Linux tells the CPUs");
    assert!(core_affinity::set_for_current(core), "this thread may run there");
    measure(criterion, "alone", &runtime());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| computes(core, &is_over));
        measure(criterion, "beside a thread that computes", &runtime());
        is_over.store(true, Relaxed);
    });
    let runtime = runtime();
    let computing = runtime.spawn(async {
        loop {
            compute(TASK);
            tokio::task::yield_now().await;
        }
    });
    measure(criterion, "beside a task that computes 100 us at a time", &runtime);
    computing.abort();
}

fn measure(criterion: &mut Criterion, case: &str, runtime: &Runtime) {
    let mut group = criterion.benchmark_group(format!("lateness {case}"));
    group.sample_size(20);
    let mut latenesses = Vec::new();
    group.bench_function("of the kernel's timer", |bencher| {
        bencher.iter_custom(|count| {
            runtime.block_on(async {
                let mut timer = Timer::new().expect("a descriptor");
                let mut total = Duration::ZERO;
                for _ in 0..count {
                    let now = Instant::now();
                    timer.set(now, Some(now + AHEAD)).expect("a time");
                    poll_fn(|context| timer.poll(context)).await.expect("the runtime lives");
                    total += note(&mut latenesses, now);
                }
                total
            })
        });
    });
    tell(&mut latenesses);
    group.bench_function("of tokio's timer", |bencher| {
        bencher.iter_custom(|count| {
            runtime.block_on(async {
                let mut total = Duration::ZERO;
                for _ in 0..count {
                    let now = Instant::now();
                    tokio::time::sleep_until((now + AHEAD).into()).await;
                    total += note(&mut latenesses, now);
                }
                total
            })
        });
    });
    tell(&mut latenesses);
    group.finish();
}

fn note(latenesses: &mut Vec<Duration>, set_at: Instant) -> Duration {
    let lateness = set_at.elapsed().saturating_sub(AHEAD);
    latenesses.push(lateness);
    lateness
}

fn tell(latenesses: &mut Vec<Duration>) {
    latenesses.sort_unstable();
    if let Some(last) = latenesses.last() {
        println!("  99 of 100 within {:?}, all within {last:?}", latenesses[latenesses.len() * 99 / 100]);
    }
    latenesses.clear();
}

fn computes(core: CoreId, is_over: &AtomicBool) {
    assert!(core_affinity::set_for_current(core), "this thread may run there");
    while !is_over.load(Relaxed) {
        compute(TASK);
    }
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        black_box((0..100u64).sum::<u64>());
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

criterion_group!(benches, late);
criterion_main!(benches);
