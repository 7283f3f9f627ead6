//! The model: what one machine is made of.

use crate::{CpuId, CpuSet, DataSize, Nic, NodeId, NodeSet};
use serde::{Deserialize, Serialize};

/// One machine, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    pub(crate) origin: Origin,
    pub(crate) machine: Machine,
    pub(crate) packages: Vec<Package>,
    pub(crate) nodes: Vec<NumaNode>,
    pub(crate) distances: Option<Distances>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) cores: Vec<Core>,
    pub(crate) online_cpus: CpuSet,
    pub(crate) allowed_cpus: CpuSet,
    pub(crate) allowed_nodes: NodeSet,
    pub(crate) nics: Vec<Nic>,
}

/// Where the facts came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// The machine that this process runs on.
    ThisMachine {
        /// `hwloc` (with its version) or `sysfs`.
        reader: String,
    },
    /// An hwloc XML file.
    Xml {
        /// The file that was read.
        path: std::path::PathBuf,
    },
    /// A captured tree of `/sys` and `/proc`.
    Sysfs {
        /// The root of the tree.
        path: std::path::PathBuf,
    },
    /// A description in hwloc's synthetic syntax.
    Synthetic {
        /// The description.
        description: String,
    },
}

/// What the machine calls itself; each part is absent where nothing says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: Option<String>,
    /// Processor model.
    pub cpu_model: Option<String>,
    /// Vendor and product from the firmware's tables (DMI).
    pub product: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
}

/// A processor package: what is plugged into one processor socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// The kernel's number of it (`physical_package_id`), unknown where the kernel gives none.
    pub id: Option<u32>,
    /// Its PUs.
    pub cpus: CpuSet,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The kernel's number of it.
    pub id: NodeId,
    /// PUs local to it; empty for memory without processors (CXL, HBM).
    pub cpus: CpuSet,
    /// Its memory, unknown where the source does not say.
    #[serde(rename = "memory_bytes")]
    pub memory: Option<DataSize>,
}

/// Relative latencies between NUMA nodes (ACPI SLIT: 10 is local).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distances {
    pub(crate) nodes: Vec<NodeId>,
    /// Row by row, from node `nodes[row]` to node `nodes[column]`.
    pub(crate) values: Vec<u64>,
}

/// A cache and the PUs that share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 for L1, 2 for L2 and so on.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Its size, unknown where the source does not say.
    #[serde(rename = "size_bytes")]
    pub size: Option<DataSize>,
    /// The PUs that share it.
    pub cpus: CpuSet,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// A core and its PUs (hardware threads).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// The kernel's number of it within its package, unknown where the kernel gives none.
    pub id: Option<u32>,
    /// Its PUs.
    pub cpus: CpuSet,
}

impl Topology {
    /// Where the facts came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What the machine calls itself.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Processor packages, in the order of their first PU.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// NUMA nodes, by number; empty on a kernel without NUMA.
    pub fn nodes(&self) -> &[NumaNode] {
        &self.nodes
    }

    /// Distances between nodes, where the source gives them.
    pub fn distances(&self) -> Option<&Distances> {
        self.distances.as_ref()
    }

    /// Caches, by level from 1 up, then by first PU.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Cores, in the order of their first PU.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// PUs that are online.
    pub fn online_cpus(&self) -> &CpuSet {
        &self.online_cpus
    }

    /// PUs that this process may use: online, and inside its cpuset and affinity mask. Which thread's mask counts is
    /// said at [`Topology::detect`].
    pub fn allowed_cpus(&self) -> &CpuSet {
        &self.allowed_cpus
    }

    /// NUMA nodes that this process may take memory from.
    pub fn allowed_nodes(&self) -> &NodeSet {
        &self.allowed_nodes
    }

    /// Network interfaces, by name.
    pub fn nics(&self) -> &[Nic] {
        &self.nics
    }

    /// The interface of that name.
    pub fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name == name)
    }

    /// The node whose local PUs include `cpu`.
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<&NumaNode> {
        self.nodes.iter().find(|node| node.cpus.contains(cpu))
    }

    /// The package that `cpu` belongs to.
    pub fn package_of_cpu(&self, cpu: CpuId) -> Option<&Package> {
        self.packages.iter().find(|package| package.cpus.contains(cpu))
    }

    /// The core that `cpu` belongs to.
    pub fn core_of_cpu(&self, cpu: CpuId) -> Option<&Core> {
        self.cores.iter().find(|core| core.cpus.contains(cpu))
    }

    /// The PUs that share the last-level cache with `cpu`, itself among them.
    pub fn sharing_last_level_cache(&self, cpu: CpuId) -> Option<&CpuSet> {
        self.caches.iter().rev().find(|cache| cache.cpus.contains(cpu)).map(|cache| &cache.cpus)
    }

    /// The node with memory that `cpu` reaches at the lowest distance: its own node, or, where that has no memory, the
    /// nearest that has (the lowest number among equals).
    ///
    /// A node whose memory is unknown counts as having some. `None` where the machine has no nodes, where the CPU is on
    /// none of them, or where its node has no memory and the distances that would decide are unknown.
    pub fn nearest_node(&self, cpu: CpuId) -> Option<NodeId> {
        let has_memory = |node: &NumaNode| node.memory != Some(DataSize::bytes(0));
        let own = self.node_of_cpu(cpu)?;
        if has_memory(own) {
            return Some(own.id);
        }
        let mut others = self.nodes.iter().filter(|node| has_memory(node)).map(|node| node.id);
        match &self.distances {
            Some(distances) => {
                let known = others.filter_map(|node| Some((distances.between(own.id, node)?, node)));
                known.min().map(|(_, node)| node)
            }
            None => others.next().filter(|_| others.next().is_none()),
        }
    }

    /// The same machine with fewer CPUs allowed: those in `cpus` that are online. For planning what-ifs and tests.
    #[must_use]
    pub fn with_allowed(mut self, cpus: CpuSet) -> Self {
        self.allowed_cpus = cpus.intersection(&self.online_cpus);
        self
    }

    /// Puts every list into the order that its getter promises.
    pub(crate) fn in_order(mut self) -> Self {
        self.packages.sort_by_key(|package| package.cpus.first());
        self.nodes.sort_by_key(|node| node.id);
        self.caches.sort_by_key(|cache| (cache.level, cache.cpus.first(), cache.kind));
        self.cores.sort_by_key(|core| core.cpus.first());
        self.nics.sort_by(|a, b| a.name.cmp(&b.name));
        self
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
