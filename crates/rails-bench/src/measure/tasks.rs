//! The cost of an empty task, from its submission to the notice of its end: on one core, beside
//! other cores that poll, and on another core.

use crate::duration::nanoseconds;
use anyhow::{Context, Result};
use rails_bind::{
    BindError, Property, Unheld,
    thread::{ThreadGuard, bind_current},
};
use rails_task::{Runner, Step, Task, TaskPriority, TaskQueues};
use rails_topo::{CpuId, CpuSet, Topology};
use serde::Serialize;
use std::{
    hint,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// The costs of a machine.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TaskCosts {
    /// The CPU of the thread that submits.
    pub(crate) cpu: CpuId,
    /// Whether the threads are bound to their CPUs. If the system refuses that, only a task of the
    /// whole machine is measured.
    pub(crate) is_bound: bool,
    /// The time of a clock reading, which is subtracted from all other times.
    #[serde(rename = "clock_ns", serialize_with = "nanoseconds")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub(crate) clock: Duration,
    /// The cost of a task at each object around that CPU, the innermost first, by one thread.
    pub(crate) levels: Vec<LevelCost>,
    /// The cost while threads on other CPUs look for tasks all the time, at the innermost object
    /// and at the machine.
    pub(crate) beside: Vec<CostBeside>,
    /// From a task's submission to its beginning on another CPU; `None` on a machine with one CPU,
    /// and for threads that are not bound.
    pub(crate) elsewhere: Option<CostElsewhere>,
}

/// The cost of a task at an object.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LevelCost {
    /// The name of the object.
    pub(crate) object: String,
    /// The CPUs of the object.
    pub(crate) cpus: CpuSet,
    /// The cost.
    pub(crate) cost: Spread,
}

/// The cost beside threads that look for tasks.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CostBeside {
    /// The number of these threads.
    pub(crate) pollers: usize,
    /// The cost of a task for the submitter's CPU.
    pub(crate) own: Spread,
    /// The cost of a task for any CPU.
    pub(crate) machine: Spread,
}

/// The time until a task begins on another CPU.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CostElsewhere {
    /// The other CPU.
    pub(crate) cpu: CpuId,
    /// The time while the other CPU's thread looks for tasks.
    pub(crate) spinning: Spread,
    /// The time while the other CPU's thread sleeps.
    pub(crate) asleep: Spread,
}

/// The spread of the times of single tasks.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Spread {
    /// The shortest time.
    #[serde(rename = "min_ns", serialize_with = "nanoseconds")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub(crate) min: Duration,
    /// The median.
    #[serde(rename = "median_ns", serialize_with = "nanoseconds")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub(crate) median: Duration,
    /// The 99th percentile.
    #[serde(rename = "p99_ns", serialize_with = "nanoseconds")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub(crate) late: Duration,
    /// The number of times.
    pub(crate) samples: usize,
}

/// Measures the costs on this machine, with `tasks` tasks for each figure.
pub(crate) fn costs(topology: &Topology, tasks: usize) -> Result<TaskCosts> {
    let cpus: Vec<CpuId> = topology.allowed_cpus().iter().collect();
    let cpu = *cpus.first().context("there is no CPU")?;
    let guard = bound(cpu).context("the submitting thread cannot be bound")?;
    // A thread that is not bound runs no task of a subset of the CPUs.
    let is_bound = guard.is_some();
    let clock = Spread::of(tasks, Duration::ZERO, Instant::elapsed).median;
    let measure = |queues: &TaskQueues, cpus: &CpuSet| -> Result<Spread> {
        let (runner, task) = (queues.attach()?, queues.task(cpus, TaskPriority::Normal, || Step::Done)?);
        Ok(Spread::of(tasks, clock, |start| {
            submit_and_notice(&runner, &task);
            start.elapsed()
        }))
    };
    let queues = TaskQueues::new(topology, ROOM);
    let inner = queues.objects().of_cpu(cpu).context("the queues have no object for the submitter's CPU")?;
    let mut levels = Vec::new();
    let objects = queues.objects().path(inner).map(|id| queues.objects().get(id));
    for object in objects.filter(|object| is_bound || object.cpus == *topology.online_cpus()) {
        let cost = measure(&queues, &object.cpus)?;
        levels.push(LevelCost { object: object.kind.to_string(), cpus: object.cpus.clone(), cost });
    }
    let mut beside = Vec::new();
    for pollers in [1, 3, 7].into_iter().filter(|pollers| is_bound && *pollers < cpus.len()) {
        let queues = TaskQueues::new(topology, ROOM);
        let threads: Vec<Other> =
            cpus[1..=pollers].iter().map(|cpu| Other::start(&queues, *cpu, false)).collect::<Result<_>>()?;
        let own = measure(&queues, &CpuSet::single(cpu))?;
        let machine = measure(&queues, topology.online_cpus())?;
        drop(threads);
        beside.push(CostBeside { pollers, own, machine });
    }
    let elsewhere =
        cpus.get(1).filter(|_| is_bound).map(|other| elsewhere(topology, *other, clock, tasks)).transpose()?;
    drop(guard);
    Ok(TaskCosts { cpu, is_bound, clock, levels, beside, elsewhere })
}

/// Binds the calling thread to a CPU until the guard is dropped; `None` where the system refuses
/// that.
fn bound(cpu: CpuId) -> Result<Option<ThreadGuard>, BindError> {
    match bind_current(&CpuSet::single(cpu)) {
        Ok(guard) => Ok(Some(guard)),
        Err(error) => Unheld::by_refusal(Property::Cpus, error).map(|_| None),
    }
}

/// The time from a submission to the beginning of the task on another CPU.
fn elsewhere(topology: &Topology, cpu: CpuId, clock: Duration, tasks: usize) -> Result<CostElsewhere> {
    let (began, origin) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let measure = |sleeps: bool, tasks: usize| -> Result<Spread> {
        let queues = TaskQueues::new(topology, ROOM);
        let other = Other::start(&queues, cpu, sleeps)?;
        let begins = Arc::clone(&began);
        let task = queues.task(&CpuSet::single(cpu), TaskPriority::Normal, move || {
            begins.store(origin.elapsed().as_nanos() as u64, Relaxed);
            Step::Done
        })?;
        let spread = Spread::of(tasks, clock, |_| {
            if sleeps {
                // Waits until the other thread sleeps.
                thread::sleep(REST);
            }
            let start = origin.elapsed();
            task.submit().expect("the queue has room for one task");
            while task.is_pending() {
                hint::spin_loop();
            }
            Duration::from_nanos(began.load(Relaxed)).saturating_sub(start)
        });
        drop(other);
        Ok(spread)
    };
    let spinning = measure(false, tasks)?;
    let asleep = measure(true, (tasks / 100).clamp(1, MAX_SLEEPS))?;
    Ok(CostElsewhere { cpu, spinning, asleep })
}

fn submit_and_notice(runner: &Runner, task: &Task) {
    runner.submit(task).expect("the queue has room for one task");
    runner.run();
    // A thread on another CPU may have taken the task.
    while task.is_pending() {
        hint::spin_loop();
    }
}

/// A thread on another CPU that runs tasks. Dropping it ends it.
struct Other {
    queues: TaskQueues,
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Other {
    fn start(queues: &TaskQueues, cpu: CpuId, sleeps: bool) -> Result<Self> {
        let (is_over, started) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
        let (own, ends, begins) = (queues.clone(), Arc::clone(&is_over), Arc::clone(&started));
        let run = move || {
            let guard = bind_current(&CpuSet::single(cpu));
            let runner = guard.as_ref().ok().and_then(|_| own.attach().ok());
            begins.wait();
            let Some(runner) = runner else { return };
            while !ends.load(Relaxed) {
                if runner.run().ran == 0 && sleeps {
                    runner.sleep(None);
                }
            }
        };
        let thread = thread::Builder::new().name(format!("task-{cpu}")).spawn(run).context("no thread for tasks")?;
        started.wait();
        let other = Self { queues: queues.clone(), is_over, thread: Some(thread) };
        let is_there = other.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        anyhow::ensure!(is_there, "a thread cannot be bound to CPU {cpu}");
        Ok(other)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.queues.close();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Spread {
    /// The spread of `count` results of `measure`, which gets the start, less the time of the
    /// clock. A tenth more are made before as a warm-up.
    fn of(count: usize, clock: Duration, mut measure: impl FnMut(&Instant) -> Duration) -> Self {
        let count = count.max(1);
        let mut times: Vec<Duration> = (0..count + count / 10).map(|_| measure(&Instant::now())).collect();
        times.drain(..count / 10);
        times.sort_unstable();
        let at = |index: usize| times[index.min(times.len() - 1)].saturating_sub(clock);
        Self { min: at(0), median: at(count / 2), late: at(count * 99 / 100), samples: count }
    }
}

/// The room of each queue, for the one task.
const ROOM: usize = 16;
/// The time after which a thread without tasks sleeps.
const REST: Duration = Duration::from_micros(200);
/// The limit on wake-ups of a thread.
const MAX_SLEEPS: usize = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_this_machine() {
        let topology = Topology::detect().unwrap();
        let costs = costs(&topology, 1_000).unwrap();
        assert!(!costs.levels.is_empty());
        assert_eq!(costs.levels.last().unwrap().cpus, *topology.online_cpus());
        assert!(costs.levels.iter().all(|level| level.cost.min <= level.cost.median));
        assert_eq!(costs.elsewhere.is_some(), topology.allowed_cpus().len() > 1);
        assert_eq!(rails_bind::thread::current_affinity().unwrap(), *topology.allowed_cpus(), "it is bound no more");
    }

    #[test]
    fn spread_takes_the_clock_off() {
        let mut next = 0..110;
        let spread = Spread::of(100, Duration::from_nanos(5), |_| Duration::from_nanos(next.next().unwrap()));
        let nanoseconds = [spread.min, spread.median, spread.late].map(|time| time.as_nanos());
        assert_eq!((nanoseconds, spread.samples), ([5, 55, 104], 100));
    }
}
