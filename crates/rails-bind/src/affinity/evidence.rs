//! The evidence for the three properties.

use crate::{interrupt::InterruptStatus, memory::process, thread::Tid};
use rails_topo::{CpuId, CpuSet, Nic, NodeId, NodeSet};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// The facts of one rail, read back and not planned.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The rail's NIC as it is now, if it is known: where it is attached, and to which CPUs it hands packets on (RPS).
    pub nic: Option<&'a Nic>,
    /// The interrupts of the rail's lane; each has to be in place.
    pub interrupts: &'a [ObservedInterrupt],
    /// The kernel threads that handle the NIC's packets, if it has them (threaded NAPI).
    pub napi_threads: &'a [ObservedThread],
    /// The application's threads; each has to be in place.
    pub threads: &'a [ObservedThread],
    /// The application's memory; all of it has to be in place.
    pub memory: &'a [ObservedMemory],
}

/// An interrupt, and where it was served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedInterrupt {
    /// The CPUs that may serve it, and those that do by the kernel's statement.
    pub status: InterruptStatus,
    /// Its count on each CPU during the observation; empty if no CPU served it, or without counts.
    pub served: BTreeMap<CpuId, u64>,
    /// Whether the kernel refused to move it; then a fix does not propose that, and threads follow it.
    pub stays: bool,
}

/// A thread, and where it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedThread {
    /// Which thread.
    pub tid: Tid,
    /// Its start in nanoseconds since the boot, which distinguishes it from a later thread of the same number.
    pub started_ns: u64,
    /// Its name.
    pub name: String,
    /// The CPUs that it may run on.
    pub may_run_on: CpuSet,
    /// Its time on a CPU during the observation; `None` without the kernel's accounting, and without an observation.
    pub ran: Option<Duration>,
    /// The CPUs that it was seen on during the observation. The verdict depends on the CPUs that it *may* run on; these
    /// go into the evidence.
    pub seen_on: CpuSet,
}

/// A piece of memory, and on which nodes its pages lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedMemory {
    /// Its owner.
    pub of: MemoryOf,
    /// Its bytes on each node; pages that are not there are on none.
    #[serde(rename = "bytes_by_node")]
    pub on: BTreeMap<NodeId, u64>,
}

/// The owner of memory, which decides how exactly it has to be in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOf {
    /// Buffers of known addresses: every page has to be in place.
    Buffers,
    /// All that is a process's own ([`process::ProcessMemory::own`]), of which a tenth may lie elsewhere.
    Process {
        /// Its number.
        pid: Tid,
        /// When it began, as with [`ObservedThread::started_ns`].
        started_ns: u64,
    },
}

impl ObservedInterrupt {
    /// An interrupt with the kernel's statement alone.
    pub fn uncounted(status: InterruptStatus) -> Self {
        Self { status, served: BTreeMap::new(), stays: false }
    }

    /// The CPUs that serve it: those with counts, or else those of the kernel's statement; if it has not fired since it
    /// was moved, those that will serve it. `None` is unknown.
    pub fn served_on(&self) -> Option<CpuSet> {
        let counted: CpuSet = self.served.iter().filter(|(_, count)| **count > 0).map(|(cpu, _)| *cpu).collect();
        if !counted.is_empty() {
            return Some(counted);
        }
        if self.is_pending() {
            return Some(self.status.requested.clone());
        }
        self.status.effective.clone().filter(|cpus| !cpus.is_empty())
    }

    /// Whether it was moved and has not fired since.
    pub(super) fn is_pending(&self) -> bool {
        let was_served = self.served.values().any(|count| *count > 0);
        let is_elsewhere = |on: &CpuSet| !on.is_empty() && !on.intersects(&self.status.requested);
        !was_served && !self.status.requested.is_empty() && self.status.effective.as_ref().is_some_and(is_elsewhere)
    }
}

impl ObservedMemory {
    /// The nodes with some of it.
    pub fn nodes(&self) -> NodeSet {
        self.on.iter().filter(|(_, bytes)| **bytes > 0).map(|(node, _)| *node).collect()
    }

    /// The nodes that hold more than may lie anywhere.
    pub(super) fn counting_nodes(&self) -> NodeSet {
        match self.of {
            MemoryOf::Buffers => self.nodes(),
            MemoryOf::Process { .. } => process::main_nodes(&self.on),
        }
    }
}
