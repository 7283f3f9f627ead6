//! The statistics of a rail: its runtime and its thread.

use crate::{Rail, RailId};
use rails_bind::{thread::Tid, usage::ThreadUsage};
use rails_topo::CpuId;
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds};
use std::time::Duration;

/// The statistics of a rail since it was built. `docs/metrics.md` lists them and their use.
///
/// The figures are read one after another, so they are not of one instant.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RailStats {
    /// The rail's number.
    pub rail: RailId,
    /// The rail's thread.
    pub thread: Tid,
    /// The CPU that was planned for the thread.
    pub planned_cpu: CpuId,
    /// How often the rail was moved.
    pub moves: u64,
    /// Tasks of the runtime that have not ended, those of the rail's lanes included.
    pub tasks: usize,
    /// Tasks of these that another thread has spawned or woken, and that wait for the rail to take
    /// them.
    pub queued_tasks: usize,
    /// Time that the runtime was not parked: it polled tasks, sockets and timers, or spun.
    #[serde(rename = "busy_us", serialize_with = "As::<DurationMicroSeconds>::serialize")]
    pub busy: Duration,
    /// How often the runtime had no task to run and parked. A rail that spins parks without
    /// sleeping.
    pub parks: u64,
    /// The thread's CPU time, context switches, migrations and page faults. `None` after the rail
    /// has stopped, or if `/proc` cannot be read.
    pub usage: Option<ThreadUsage>,
}

impl Rail {
    /// The statistics of the rail up to now. Reads three small files in `/proc`.
    pub fn stats(&self) -> RailStats {
        let (runtime, planned) = (self.runtime(), self.planned());
        // A `current_thread` runtime has one worker.
        let (metrics, worker) = (runtime.handle().metrics(), 0);
        RailStats {
            rail: planned.id,
            thread: runtime.placement().tid,
            planned_cpu: planned.cpu,
            moves: self.moves(),
            tasks: metrics.num_alive_tasks(),
            queued_tasks: metrics.global_queue_depth(),
            busy: metrics.worker_total_busy_duration(worker),
            parks: metrics.worker_park_count(worker),
            usage: runtime.usage().ok(),
        }
    }
}
