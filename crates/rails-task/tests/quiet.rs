//! While nothing is pending, no thread of a trigger wakes. The only test of its process: it looks
//! at all threads.

use rails_bind::{
    thread::Tid,
    usage::{ThreadUsage, UsageError},
};
use rails_task::{Step, TaskOptions, TaskQueues, TaskThread};
use rails_topo::{CpuSet, Topology};
use std::{collections::BTreeMap, fs, thread, time::Duration};

#[test]
fn triggers_sleep_while_nothing_is_pending() {
    let topology = Topology::detect().expect("this machine can be read");
    let queues = TaskQueues::new(&topology, 8);
    let cpu = topology.allowed_cpus().first().expect("one is allowed");
    let object = queues.objects().of_cpu(cpu).expect("it is one of the machine");
    let worker = TaskThread::idle(&queues, object).expect("it can be placed");
    let timer = TaskThread::periodic(&queues, object, Duration::from_micros(100)).expect("it can be placed");
    // A task that polls, blocks, has a deadline, and ends.
    let options = TaskOptions::new().run_within(Duration::from_millis(1)).blocking(Duration::ZERO, |_| true);
    let polls = std::sync::atomic::AtomicU64::new(3);
    let work = move || match polls.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) {
        0 | 1 => Step::Done,
        _ => Step::Again,
    };
    let task = queues.task_with(&CpuSet::single(cpu), options, work).expect("it is a CPU of the machine");
    task.submit().expect("there is room");
    while task.is_pending() {
        thread::sleep(Duration::from_millis(1));
    }
    assert_still("after a task");
    for is_enabled in [false, true] {
        worker.set_enabled(is_enabled);
        timer.set_enabled(is_enabled);
        assert_still(&format!("switched on: {is_enabled}"));
    }
}

/// The threads come to rest: for a tenth of a second, none of them sleeps anew. A timer would have
/// done so 1,000 times.
fn assert_still(when: &str) {
    let mut before = sleeps();
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(100));
        let now = sleeps();
        if now == before {
            return;
        }
        before = now;
    }
    panic!("{when}: threads go on: {before:?}");
}

/// The number of times that each thread of a trigger has gone to sleep.
fn sleeps() -> BTreeMap<Tid, u64> {
    let threads = fs::read_dir("/proc/self/task").expect("Linux lists the threads");
    let numbers = threads.map(|entry| entry.expect("Linux lists the threads").file_name());
    let tids = numbers.filter_map(|name| Tid::from_raw(name.to_str()?.parse().ok()?));
    let of_trigger = |tid: &Tid| {
        let name = rails_bind::thread::name_of(*tid).unwrap_or_default();
        name.starts_with("task-") || name.starts_with("timer-")
    };
    let usage = |tid| -> Result<_, UsageError> { Ok((tid, ThreadUsage::of(tid)?.voluntary_switches)) };
    let counts: BTreeMap<_, _> = tids.filter(of_trigger).map(|tid| usage(tid).expect("it lives")).collect();
    assert!(counts.len() >= 3, "a worker, a timer, and a thread that blocks: {counts:?}");
    counts
}
