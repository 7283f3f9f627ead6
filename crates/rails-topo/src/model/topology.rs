//! One machine, and what it is made of.

use super::{
    BlockDevice, Cache, Core, CoreKind, Die, Distances, Gpu, Machine, Nic, NumaNode, Origin, Override, Package,
    PciDevice, RdmaDevice,
};
use crate::{CpuId, CpuSet, DataSize, NodeId, NodeSet};
use serde::{Deserialize, Serialize};

/// One machine, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    pub(crate) origin: Origin,
    pub(crate) machine: Machine,
    pub(crate) packages: Vec<Package>,
    pub(crate) dies: Vec<Die>,
    pub(crate) nodes: Vec<NumaNode>,
    pub(crate) distances: Option<Distances>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) cores: Vec<Core>,
    pub(crate) core_kinds: Vec<CoreKind>,
    pub(crate) online_cpus: CpuSet,
    pub(crate) allowed_cpus: CpuSet,
    pub(crate) allowed_nodes: NodeSet,
    pub(crate) isolated_cpus: CpuSet,
    pub(crate) nohz_full_cpus: CpuSet,
    pub(crate) pci_devices: Vec<PciDevice>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) rdma_devices: Vec<RdmaDevice>,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) block_devices: Vec<BlockDevice>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) overrides: Vec<Override>,
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

    /// Dies, in the order of their first PU; empty where the source knows none, or each is a package of its own.
    pub fn dies(&self) -> &[Die] {
        &self.dies
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

    /// The kinds of cores, the slowest first; empty where all cores are alike, or nothing tells them apart.
    pub fn core_kinds(&self) -> &[CoreKind] {
        &self.core_kinds
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

    /// Online PUs that the scheduler leaves alone (`isolcpus=`, or an isolated cpuset: `/sys/devices/system/cpu/isolated`): a thread runs there
    /// only if it is bound there. Empty where the kernel does not say.
    pub fn isolated_cpus(&self) -> &CpuSet {
        &self.isolated_cpus
    }

    /// Online PUs whose timer tick stops while one thread runs (`nohz_full=`: `/sys/devices/system/cpu/nohz_full`). Empty where the kernel does not say.
    pub fn nohz_full_cpus(&self) -> &CpuSet {
        &self.nohz_full_cpus
    }

    /// PCI functions, bridges among them, by address; empty where the machine has no PCI.
    pub fn pci_devices(&self) -> &[PciDevice] {
        &self.pci_devices
    }

    /// The PCI function of that address.
    pub fn pci_device(&self, address: super::PciAddress) -> Option<&PciDevice> {
        let index = self.pci_devices.binary_search_by_key(&address, |device| device.address).ok()?;
        self.pci_devices.get(index)
    }

    /// RDMA devices, by name.
    pub fn rdma_devices(&self) -> &[RdmaDevice] {
        &self.rdma_devices
    }

    /// GPUs, by name.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// Disks, by name.
    pub fn block_devices(&self) -> &[BlockDevice] {
        &self.block_devices
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
        self.dies.sort_by_key(|die| die.cpus.first());
        self.core_kinds.sort_by_key(|kind| (kind.efficiency, kind.cpus.first()));
        self.pci_devices.sort_by_key(|device| device.address);
        self.nics.sort_by(|a, b| a.name.cmp(&b.name));
        self.rdma_devices.sort_by(|a, b| a.name.cmp(&b.name));
        self.gpus.sort_by(|a, b| a.name.cmp(&b.name));
        self.block_devices.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }
}
