//! The nodes of the memory that a thread uses.

use rails_topo::NodeId;
use serde::Serialize;

/// The findings of the kernel's NUMA balancing about a thread's memory.
///
/// The kernel counts faults that it provokes for the purpose, and *halves the counts at every scan*
/// (`task_numa_placement` in kernel/sched/fair.c), so they are a moving average and not to be
/// subtracted. When balancing is switched off, they stay as they were. They are there only if
/// `/proc/sys/kernel/numa_balancing` was not 0 and a scan was finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NumaFaults {
    /// The node that the kernel would like the thread to be on, once it has one.
    pub preferred: Option<NodeId>,
    /// The node that the thread is on.
    pub current: NodeId,
    /// Pages that were moved to the thread's node since it began, or in the interval of the usage.
    pub pages_migrated: u64,
    /// The faults on each node's memory.
    pub by_node: Vec<NodeFaults>,
}

/// Faults of a thread on the memory of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NodeFaults {
    /// The node.
    pub node: NodeId,
    /// Faults on pages that only this thread was seen to use.
    pub private: u64,
    /// Faults on pages that others use too.
    pub shared: u64,
}

impl NumaFaults {
    /// Faults on memory of the node that the thread is on.
    pub fn local(&self) -> u64 {
        self.sum(|node| node == self.current)
    }

    /// Faults on memory of other nodes.
    pub fn remote(&self) -> u64 {
        self.sum(|node| node != self.current)
    }

    fn sum(&self, of: impl Fn(NodeId) -> bool) -> u64 {
        self.by_node.iter().filter(|faults| of(faults.node)).map(|faults| faults.private + faults.shared).sum()
    }
}
