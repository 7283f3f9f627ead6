//! Tasks in queues on the topology: the cost of one, submitted and run on the same core, by the
//! object at which it waits.
//!
//! Run: `cargo bench --bench task_queues`. A figure is the time for one empty task from its
//! submission to the end that the submitter sees, in a row of many. Below it are the median and the
//! 99th of 100 for one task at a time, less the time that the clock takes. The queues are those of
//! a described machine with five levels, and the thread is on its first CPU, which has to be CPU 0.
//! `timed` measures the time that each task waits, and `with a deadline` is a task that is not
//! overdue.

use criterion::{Bencher, Criterion, criterion_group, criterion_main};
use rails::{
    bind::thread::bind_current,
    task::{Runner, Step, Task, TaskOptions, TaskPriority, TaskQueues},
    topo::{CpuId, CpuSet, Topology},
};
use std::time::{Duration, Instant};

fn costs(criterion: &mut Criterion) {
    let topology = Topology::synthetic("package:2 l3:2 core:2 pu:2", Vec::new()).expect("a description");
    let cpu = CpuSet::single(CpuId(0));
    let _guard = bind_current(&cpu).expect("this thread may run there");
    let queues = TaskQueues::new(&topology, 256);
    let runner = queues.attach().expect("it is a CPU of the machine");
    let levels: Vec<_> = queues.objects().path(runner.object()).map(|id| queues.objects().get(id).clone()).collect();
    for object in &levels {
        let task =
            queues.task(&object.cpus, TaskPriority::Normal, || Step::Done).expect("they are CPUs of the machine");
        measure(criterion, &format!("at its {}", object.kind), &runner, &task);
    }
    let dated = TaskOptions::new().run_within(Duration::from_secs(3600));
    let task = queues.task_with(&cpu, dated, || Step::Done).expect("it is a CPU of the machine");
    measure(criterion, "with a deadline", &runner, &task);
    let queues = TaskQueues::builder().timed(true).build(&topology);
    let runner = queues.attach().expect("it is a CPU of the machine");
    let task = queues.task(&cpu, TaskPriority::Normal, || Step::Done).expect("it is a CPU of the machine");
    measure(criterion, "timed", &runner, &task);
}

fn measure(criterion: &mut Criterion, case: &str, runner: &Runner, task: &Task) {
    let mut group = criterion.benchmark_group("empty task");
    group.bench_function(case, |bencher: &mut Bencher<'_>| bencher.iter(|| submit_and_run(runner, task)));
    group.finish();
    let clock = percentiles(|| {});
    let [median, late] = percentiles(|| submit_and_run(runner, task)).map(|time| time.saturating_sub(clock[0]));
    println!("one at a time: median {median:?}, 99th of 100 {late:?}");
}

fn submit_and_run(runner: &Runner, task: &Task) {
    runner.submit(task).expect("there is room");
    runner.run();
    assert!(!task.is_pending(), "it has run");
}

/// The median of the times that `body` takes, and the 99th of 100.
fn percentiles(body: impl Fn()) -> [Duration; 2] {
    let time = |_| {
        let start = Instant::now();
        body();
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..300_000).map(time).collect();
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100].map(|index| times[index])
}

criterion_group!(benches, costs);
criterion_main!(benches);
