//! The evidence for the three properties.

use crate::{interrupt::InterruptStatus, memory::process, thread::Tid};
use rails_topo::{CpuId, CpuSet, Nic, NodeId, NodeSet};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// The facts of one rail, as read back.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The rail's NIC with its present steering, if known: its attachment, and the CPUs to which it
    /// hands packets on (RPS).
    pub nic: Option<&'a Nic>,
    /// The interrupts of the rail's lane; each must be in place.
    pub interrupts: &'a [ObservedInterrupt],
    /// The kernel threads that handle the NIC's packets, if it has any (threaded NAPI).
    pub napi_threads: &'a [ObservedThread],
    /// The application's threads; each must be in place.
    pub threads: &'a [ObservedThread],
    /// The application's memory; all of it must be in place.
    pub memory: &'a [ObservedMemory],
}

/// An interrupt, and the CPUs that served it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObservedInterrupt {
    /// The CPUs that may serve the interrupt, and those that serve it by the kernel's statement.
    pub status: InterruptStatus,
    /// The interrupt's count on each CPU during the observation; empty if no CPU served it, or
    /// without counts.
    pub served: BTreeMap<CpuId, u64>,
    /// Whether the kernel refused to move the interrupt; then a fix moves threads to it instead.
    pub stays: bool,
}

/// A thread, and the CPUs that it was seen on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObservedThread {
    /// The thread.
    pub tid: Tid,
    /// The thread's start in nanoseconds since the boot, which distinguishes it from a later thread
    /// of the same number.
    pub started_ns: u64,
    /// The thread's name.
    pub name: String,
    /// The CPUs that the thread may run on.
    pub may_run_on: CpuSet,
    /// The thread's CPU time during the observation; `None` without the kernel's accounting or an
    /// observation.
    pub ran: Option<Duration>,
    /// The CPUs that the thread was seen on during the observation. The verdict depends on the CPUs
    /// that it *may* run on; these go into the evidence.
    pub seen_on: CpuSet,
}

/// A piece of memory, and the nodes that its pages lie on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObservedMemory {
    /// The memory's owner.
    pub of: MemoryOwner,
    /// The memory's bytes on each node, without absent pages.
    #[serde(rename = "bytes_by_node")]
    pub on: BTreeMap<NodeId, u64>,
}

/// The owner of memory, which decides how exactly the memory must be in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryOwner {
    /// Buffers of known addresses: every page must be in place.
    Buffers,
    /// All memory of a process's own ([`process::ProcessMemory::own`]), of which a tenth may lie
    /// elsewhere.
    Process {
        /// The process's number.
        pid: Tid,
        /// The process's start, as with [`ObservedThread::started_ns`].
        started_ns: u64,
    },
}

impl ObservedInterrupt {
    /// An interrupt with the kernel's statement alone.
    pub fn uncounted(status: InterruptStatus) -> Self {
        Self { status, served: BTreeMap::new(), stays: false }
    }

    /// The CPUs that serve the interrupt: those with counts, or else those of the kernel's
    /// statement; if the interrupt has not fired since it was moved, those that will serve it.
    /// `None` is unknown.
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

    /// Whether the interrupt was moved and has not fired since.
    pub(super) fn is_pending(&self) -> bool {
        let was_served = self.served.values().any(|count| *count > 0);
        let is_elsewhere = |on: &CpuSet| !on.is_empty() && !on.intersects(&self.status.requested);
        !was_served && !self.status.requested.is_empty() && self.status.effective.as_ref().is_some_and(is_elsewhere)
    }
}

impl ObservedMemory {
    /// The nodes that hold some of the memory.
    pub fn nodes(&self) -> NodeSet {
        self.on.iter().filter(|(_, bytes)| **bytes > 0).map(|(node, _)| *node).collect()
    }

    /// The nodes that hold more than the tolerated share.
    pub(super) fn counting_nodes(&self) -> NodeSet {
        match self.of {
            MemoryOwner::Buffers => self.nodes(),
            MemoryOwner::Process { .. } => process::main_nodes(&self.on),
        }
    }
}
