//! Tasks on a machine of two nodes, of which a CPU goes away and comes back. Runs inside the NUMA
//! guest, which sets `RAILS_GUEST=1`.

use rails_bind::thread::{bind_current, current_cpu};
use rails_task::{Step, SubmitError, Task, TaskPriority, TaskQueues, TaskThread};
use rails_topo::{CpuId, CpuSet, Topology};
use std::{
    fs,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Threads on all CPUs run tasks of many CPU sets until `runs_wanted` runs are done; `meanwhile`
/// begins once all of them are bound. Returns the number of runs outside their sets.
fn run_everywhere(topology: &Topology, runs_wanted: u64, meanwhile: impl FnOnce()) -> u64 {
    let queues = TaskQueues::new(topology, 256);
    let cpus: Vec<CpuId> = topology.online_cpus().iter().collect();
    let (runs, outside, over) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<Task> = (1_u32..1 << cpus.len().min(5))
        .map(|pick| {
            let chosen = cpus.iter().enumerate().filter(|(index, _)| pick >> index & 1 == 1);
            let set: CpuSet = chosen.map(|(_, cpu)| *cpu).collect();
            let (runs, outside, allowed) = (Arc::clone(&runs), Arc::clone(&outside), set.clone());
            let work = move || {
                runs.fetch_add(1, Relaxed);
                if !allowed.contains(current_cpu().expect("the kernel tells it")) {
                    outside.fetch_add(1, Relaxed);
                }
                Step::Done
            };
            queues.task(&set, TaskPriority::Normal, work).expect("its CPUs are online")
        })
        .collect();
    let bound = Arc::new(Barrier::new(cpus.len() + 1));
    thread::scope(|scope| {
        for cpu in &cpus {
            let (queues, tasks, over) = (queues.clone(), tasks.clone(), Arc::clone(&over));
            let bound = Arc::clone(&bound);
            scope.spawn(move || {
                bind_current(&CpuSet::single(*cpu)).expect("it is online").keep();
                bound.wait();
                let runner = queues.attach().expect("it is a CPU of the machine");
                while !over.load(Relaxed) {
                    for task in &tasks {
                        match runner.submit(task) {
                            Ok(()) | Err(SubmitError::Full) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    if runner.run().ran == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
        bound.wait();
        meanwhile();
        let begun = Instant::now();
        while runs.load(Relaxed) < runs_wanted {
            assert!(begun.elapsed() < PATIENCE, "{} runs", runs.load(Relaxed));
            thread::sleep(Duration::from_millis(10));
        }
        over.store(true, Relaxed);
    });
    outside.load(Relaxed)
}

#[test]
#[ignore = "runs inside the guest: cargo xtask lab"]
fn guest_tasks_stay_on_their_cpus() {
    rails_lab::guest::require();
    assert_eq!(run_everywhere(&Topology::detect().unwrap(), 1_000_000, || {}), 0);
}

#[test]
#[ignore = "runs inside the guest, for long: cargo xtask test --long"]
fn guest_long_tasks_stay_on_their_cpus() {
    rails_lab::guest::require();
    assert_eq!(run_everywhere(&Topology::detect().unwrap(), 10_000_000, || {}), 0);
}

/// A CPU in its absence.
struct Offline(String);

impl Offline {
    fn new(cpu: CpuId) -> Self {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        fs::write(&file, "0").expect("the guest's tests run as root");
        Self(file)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        fs::write(&self.0, "1").expect("it comes back");
    }
}

/// A worker of a CPU that is offline runs none of its tasks elsewhere, and runs them once it is
/// back.
#[test]
#[ignore = "runs inside the guest: cargo xtask lab"]
fn guest_cpu_goes_away_and_comes_back() {
    rails_lab::guest::require();
    let topology = Topology::detect().unwrap();
    let cpu = topology.online_cpus().last().expect("it has several");
    let queues = TaskQueues::new(&topology, 16);
    let worker = TaskThread::idle(&queues, queues.objects().of_cpu(cpu).unwrap()).unwrap();
    let (runs, outside) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (count, strays) = (Arc::clone(&runs), Arc::clone(&outside));
    let task = queues.task(&CpuSet::single(cpu), TaskPriority::Normal, move || {
        count.fetch_add(1, Relaxed);
        strays.fetch_add(u64::from(current_cpu().expect("the kernel tells it") != cpu), Relaxed);
        Step::Done
    });
    let task = task.unwrap();
    let wait = || {
        let begun = Instant::now();
        while task.is_pending() {
            assert!(begun.elapsed() < PATIENCE, "it does not run");
            thread::sleep(Duration::from_millis(1));
        }
    };
    for round in 1..4 {
        task.submit().unwrap();
        wait();
        let offline = Offline::new(cpu);
        task.submit().unwrap();
        thread::sleep(Duration::from_millis(500));
        assert_eq!((runs.load(Relaxed), task.is_pending()), (2 * round - 1, true), "nobody may run it");
        drop(offline);
        wait();
        assert_eq!(runs.load(Relaxed), 2 * round);
    }
    assert_eq!(outside.load(Relaxed), 0);
    drop(worker);

    // Under load, with tasks of all sets. One that runs when its CPU goes comes to its end elsewhere.
    let outside = run_everywhere(&topology, 200_000, || {
        for _ in 0..TIMES {
            let offline = Offline::new(cpu);
            thread::sleep(Duration::from_millis(300));
            drop(offline);
            thread::sleep(Duration::from_millis(300));
        }
    });
    assert!(outside <= TIMES, "{outside} runs began elsewhere");
}

/// The number of times that a CPU goes away under load.
const TIMES: u64 = 3;

/// A bound against hanging; the guest is emulated.
const PATIENCE: Duration = Duration::from_secs(300);
