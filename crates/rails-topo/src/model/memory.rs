//! NUMA nodes, their memory, and their distances.

use crate::{Bandwidth, CpuSet, DataSize, NodeId};
use serde::{Deserialize, Serialize};

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NumaNode {
    /// The node's number in the kernel (`/sys/devices/system/node/node*`); numbers may have gaps.
    pub id: NodeId,
    /// Online PUs local to the node (`cpulist`); empty for memory without processors (CXL, HBM). No
    /// PU is local to two nodes.
    pub cpus: CpuSet,
    /// The node's memory (`MemTotal` of `meminfo`); `None` is unknown.
    #[serde(rename = "memory_bytes")]
    pub memory: Option<DataSize>,
    /// The kernel's tier of the node's memory
    /// (`/sys/devices/virtual/memory_tiering/memory_tier*/nodelist`, Linux 6.1), else hwloc's rank
    /// (`MemoryTier`, hwloc 2.10): a smaller number is faster memory. `None` if neither has one.
    pub tier: Option<u32>,
    /// Pools of huge pages, by size (`hugepages/hugepages-*kB`); empty if the kernel has none, or
    /// they are unknown.
    pub hugepages: Vec<Hugepages>,
    /// The speed of the node's memory by initiators, the nearest first: ACPI's HMAT from the
    /// kernel, with one set of initiators (`access1/initiators`, which has processors alone, else
    /// `access0/initiators`), or hwloc's memory attributes. Empty if the firmware gives no figures,
    /// or no initiators.
    pub performance: Vec<MemoryPerformance>,
}

/// A node's pool of huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hugepages {
    /// The size of one page (the name of the folder).
    #[serde(rename = "size_bytes")]
    pub size: DataSize,
    /// The number of pages (`nr_hugepages`); `None` is unknown.
    pub total: Option<u64>,
    /// The number of free pages (`free_hugepages`); `None` is unknown, as in hwloc's XML files.
    pub free: Option<u64>,
}

/// The speed of a node's memory, seen from some CPUs. The figures are the firmware's; a missing one
/// is `None`, and so is 0.
///
/// Files of hwloc before 2.8 give only an average of reads and writes, which then stands for both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryPerformance {
    /// The initiators: the online CPUs of the nodes that are linked beside the figures; never
    /// empty.
    pub from: CpuSet,
    /// The initiators' bandwidth for reading (`read_bandwidth`, in MB/s there).
    #[serde(rename = "read_bits_per_second")]
    pub read_bandwidth: Option<Bandwidth>,
    /// The initiators' bandwidth for writing (`write_bandwidth`, in MB/s there).
    #[serde(rename = "write_bits_per_second")]
    pub write_bandwidth: Option<Bandwidth>,
    /// The time that a read takes, in nanoseconds (`read_latency`).
    #[serde(rename = "read_latency_ns")]
    pub read_latency: Option<u64>,
    /// The time that a write takes, in nanoseconds (`write_latency`).
    #[serde(rename = "write_latency_ns")]
    pub write_latency: Option<u64>,
}

/// Relative latencies between NUMA nodes (ACPI SLIT: 10 is local).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distances {
    /// The nodes, in the order of the rows and columns.
    pub(crate) nodes: Vec<NodeId>,
    /// Row by row, from node `nodes[row]` to node `nodes[column]`.
    pub(crate) values: Vec<u64>,
}

impl NumaNode {
    /// A node with these CPUs of which nothing else is known.
    pub fn of(id: NodeId, cpus: CpuSet) -> Self {
        Self { id, cpus, memory: None, tier: None, hugepages: Vec::new(), performance: Vec::new() }
    }
}

impl MemoryPerformance {
    /// Whether any figure is known.
    pub(crate) fn is_known(&self) -> bool {
        self.read_bandwidth.or(self.write_bandwidth).is_some() || self.read_latency.or(self.write_latency).is_some()
    }
}

impl Distances {
    /// The nodes that the matrix covers, in its order.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The distance from one node to another, where the matrix covers both.
    pub fn between(&self, from: NodeId, to: NodeId) -> Option<u64> {
        let row = self.nodes.iter().position(|node| *node == from)?;
        let column = self.nodes.iter().position(|node| *node == to)?;
        self.values.get(row * self.nodes.len() + column).copied()
    }
}
