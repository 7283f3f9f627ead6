//! The cost of waiting rails and tasks for a computing thread on their CPU, and for an idle CPU.

use super::work::Work;
use crate::duration::{microseconds, nanoseconds};
use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use rails_bind::thread::bind_current;
use rails_multirail::{
    MultiRailListener, MultiRailStream, RailId, RailRequest, Rails, Security, StreamOptions, plan_rails,
    runtime::RailTask,
};
use rails_task::{Step, Task, TaskPriority, TaskQueues, TaskThread};
use rails_topo::{CpuId, CpuSet, Topology};
use serde::Serialize;
use std::{
    net::{Ipv4Addr, SocketAddr},
    thread,
    time::{Duration, Instant},
};
use tokio::{io::AsyncReadExt, runtime::Builder};

/// The cost on one CPU.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Overhead {
    /// The CPU.
    pub(crate) cpu: CpuId,
    /// The number of streams of the rail, both ends of which wait for bytes.
    pub(crate) streams: usize,
    /// The period of the timer.
    #[serde(rename = "timer_ns", serialize_with = "nanoseconds")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub(crate) timer: Duration,
    /// The times of a fixed amount of work alone on the CPU, by round.
    pub(crate) alone_us: Vec<f64>,
    /// The times of that work beside the rail, whose queues, worker and timer have no task.
    pub(crate) beside_rail_us: Vec<f64>,
    /// The times of that work while a task in the CPU's queue polls too.
    pub(crate) beside_polling_us: Vec<f64>,
    /// The number of polls of the task during that.
    pub(crate) polls: u64,
    /// CPU time of this process while the rail, its queues, worker and timer have nothing to do, as
    /// a share of one CPU.
    pub(crate) idle_share: f64,
    /// The time over which the idle share was measured.
    #[serde(rename = "idle_ns", serialize_with = "nanoseconds")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub(crate) idle: Duration,
}

impl Overhead {
    /// The slowdown of the work beside the rail: 0.01 is one hundredth. The median of the rounds'.
    pub(crate) fn by_rail(&self) -> f64 {
        slowdown(&self.alone_us, &self.beside_rail_us)
    }

    /// The slowdown of the work while a task polls as well.
    pub(crate) fn by_polling(&self) -> f64 {
        slowdown(&self.alone_us, &self.beside_polling_us)
    }
}

/// Measures the cost, for about this time per figure.
pub(crate) fn overhead(topology: &Topology, time: Duration) -> Result<Overhead> {
    let cpu = topology.allowed_cpus().first().context("there is no CPU")?;
    let (mut alone_us, mut beside_rail_us, mut beside_polling_us) = (Vec::new(), Vec::new(), Vec::new());
    let guard = bind_current(&CpuSet::single(cpu)).context("the computing thread cannot be bound")?;
    let work = Work::lasting(time.div_f64(ROUNDS as f64));
    let (mut polls, mut waiting) = (0, None);
    for _ in 0..ROUNDS {
        drop(waiting.take());
        // Waits for the kernel's teardown, and for the last threads to end.
        thread::sleep(REST);
        alone_us.push(microseconds(work.run()));
        let waiting = waiting.insert(Waiting::start(topology, cpu)?);
        beside_rail_us.push(microseconds(work.run()));
        let polling = waiting.poll()?;
        let before = waiting.polls();
        beside_polling_us.push(microseconds(work.run()));
        polls += waiting.polls() - before;
        polling.cancel();
    }
    drop(guard);
    // Waits until the thread of the last task sleeps.
    thread::sleep(REST);
    let (start, before) = (Instant::now(), cpu_time()?);
    thread::sleep(time);
    let (used, idle) = (cpu_time()? - before, start.elapsed());
    let idle_share = used.as_secs_f64() / idle.as_secs_f64();
    drop(waiting);
    Ok(Overhead {
        cpu,
        streams: STREAMS,
        timer: PERIOD,
        alone_us,
        beside_rail_us,
        beside_polling_us,
        polls,
        idle_share,
        idle,
    })
}

/// A rail on a CPU that waits: its tasks, which wait for bytes of streams, and the worker and the
/// timer of its CPU's queue.
struct Waiting {
    queues: TaskQueues,
    cpu: CpuId,
    _worker: TaskThread,
    _timer: TaskThread,
    readers: Vec<RailTask<()>>,
    _rails: Rails,
}

impl Waiting {
    fn start(topology: &Topology, cpu: CpuId) -> Result<Self> {
        let queues = TaskQueues::new(topology, ROOM);
        let object = queues.objects().of_cpu(cpu).context("the queues have no object for the CPU")?;
        let worker = TaskThread::idle(&queues, object)?;
        let timer = TaskThread::periodic(&queues, object, PERIOD)?;
        let request: RailRequest = format!("127.0.0.1@{cpu}").parse()?;
        let rails = Rails::build_with(&plan_rails(topology, &request)?, |_, runtime| runtime.tasks(&queues))?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let streams = runtime.block_on(connect(&rails))?;
        let rail = rails[RailId(0)].runtime();
        let read = |mut stream: MultiRailStream| {
            rail.spawn(async move {
                // The read ends when the task is stopped, or with the stream.
                let _ = stream.read_u8().await;
            })
        };
        let readers = streams.into_iter().map(read).collect();
        thread::sleep(REST);
        Ok(Self { queues, cpu, _worker: worker, _timer: timer, readers, _rails: rails })
    }

    /// Submits a task that polls until it is cancelled.
    fn poll(&self) -> Result<Task> {
        let task = self.queues.task(&CpuSet::single(self.cpu), TaskPriority::Normal, || Step::Again)?;
        task.submit()?;
        Ok(task)
    }

    /// The runs of tasks so far.
    fn polls(&self) -> u64 {
        let objects = self.queues.objects();
        objects.of_cpu(self.cpu).map_or(0, |object| self.queues.stats(object).run_here)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queues.close();
        self.readers.iter().for_each(RailTask::abort);
    }
}

/// Opens the streams, from the rail to itself. Returns both ends of each.
async fn connect(rails: &Rails) -> Result<Vec<MultiRailStream>> {
    let options = StreamOptions::new(Security::insecure());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = MultiRailListener::bind(rails, &[address][..], &options).await?;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(MultiRailStream::connect(rails, listener.local_addrs(), &options).await?);
        streams.push(listener.accept().await?);
    }
    Ok(streams)
}

/// The median of the rounds' slowdowns.
fn slowdown(alone: &[f64], beside: &[f64]) -> f64 {
    let mut slowdowns: Vec<f64> = alone.iter().zip(beside).map(|(alone, beside)| beside / alone - 1.0).collect();
    slowdowns.sort_by(f64::total_cmp);
    slowdowns.get(slowdowns.len() / 2).copied().unwrap_or(0.0)
}

/// CPU time of this process so far.
fn cpu_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("getrusage failed")?;
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
    Ok(Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time())))
}

/// The number of rounds, odd so that the median is one of them.
const ROUNDS: usize = 25;
/// Streams of the rail.
const STREAMS: usize = 16;
/// The period of the timer.
const PERIOD: Duration = Duration::from_millis(1);
/// The room of each queue, for the one task.
const ROOM: usize = 16;
/// The time after which a thread without tasks sleeps, and nothing is left of a rail that was taken
/// down.
const REST: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdown_is_the_median_of_the_rounds() {
        assert!((slowdown(&[10.0, 10.0, 20.0], &[10.0, 11.0, 30.0]) - 0.1).abs() < 1e-9);
        assert_eq!(slowdown(&[], &[]), 0.0);
    }

    #[test]
    fn overhead_of_this_machine() {
        let topology = Topology::detect().unwrap();
        let overhead = overhead(&topology, Duration::from_millis(250)).unwrap();
        let rounds = [&overhead.alone_us, &overhead.beside_rail_us, &overhead.beside_polling_us];
        assert!(rounds.iter().all(|times| times.len() == ROUNDS && times.iter().all(|time| *time > 0.0)));
        assert!(overhead.polls > 0, "the timer polls beside the computing thread");
        assert!(overhead.idle >= Duration::from_millis(250) && overhead.idle_share >= 0.0);
        assert_eq!(rails_bind::thread::current_affinity().unwrap(), *topology.allowed_cpus(), "it is bound no more");
    }
}
