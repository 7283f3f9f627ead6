//! A machine.

use super::{
    BlockDevice, Cache, Core, CoreKind, Die, Distances, Gpu, Machine, Nic, NumaNode, Origin, Override, Package,
    PciDevice, RdmaDevice, overrides::quoted,
};
use crate::{CpuId, CpuSet, NodeSet};
use serde::{Deserialize, Serialize};

/// One machine, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Topology {
    pub(crate) origin: Origin,
    /// The names of the machine.
    pub(crate) machine: Machine,
    /// Processor packages.
    pub(crate) packages: Vec<Package>,
    /// Dies that are not the whole of their package.
    pub(crate) dies: Vec<Die>,
    /// NUMA nodes, by number.
    pub(crate) nodes: Vec<NumaNode>,
    /// Distances between nodes; `None` is unknown, or there is one node.
    pub(crate) distances: Option<Distances>,
    /// Caches, by level, then by first PU.
    pub(crate) caches: Vec<Cache>,
    /// Cores, in the order of their first PU; empty if it is unknown which PUs share one.
    pub(crate) cores: Vec<Core>,
    /// The kinds of cores, the slowest first; empty if all cores are alike.
    pub(crate) core_kinds: Vec<CoreKind>,
    /// PUs that are online; never empty.
    pub(crate) online_cpus: CpuSet,
    /// The PUs that the process may use.
    pub(crate) allowed_cpus: CpuSet,
    /// The NUMA nodes that the process may take memory from.
    pub(crate) allowed_nodes: NodeSet,
    /// The online PUs that the scheduler leaves alone; empty if unknown.
    pub(crate) isolated_cpus: CpuSet,
    /// The online PUs whose timer tick stops while one thread runs; empty if unknown.
    pub(crate) nohz_full_cpus: CpuSet,
    /// PCI functions, bridges among them, by address.
    pub(crate) pci_devices: Vec<PciDevice>,
    /// Network interfaces, by name.
    pub(crate) nics: Vec<Nic>,
    /// RDMA devices, by name.
    pub(crate) rdma_devices: Vec<RdmaDevice>,
    /// GPUs, by name.
    pub(crate) gpus: Vec<Gpu>,
    /// Disks, by name.
    pub(crate) block_devices: Vec<BlockDevice>,
    /// The facts that configuration files have changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) overrides: Vec<Override>,
}

impl Topology {
    /// The origin of the facts.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The names of the machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Processor packages, in the order of their first PU.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// Dies, in the order of their first PU. One that is the whole of its package is not listed;
    /// empty where the source knows none (Linux before 5.3).
    pub fn dies(&self) -> &[Die] {
        &self.dies
    }

    /// NUMA nodes, by number; empty on a kernel without NUMA.
    pub fn nodes(&self) -> &[NumaNode] {
        &self.nodes
    }

    /// Distances between nodes (`/sys/devices/system/node/node*/distance`); `None` if there is one
    /// node, or if the source does not give one from every node to every node.
    pub fn distances(&self) -> Option<&Distances> {
        self.distances.as_ref()
    }

    /// Caches, by level from 1 up, then by first PU; empty where the source knows none.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Cores, in the order of their first PU; empty if it is unknown which PUs share one.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The kinds of cores, the slowest first; empty if all cores are alike, or nothing
    /// distinguishes them.
    ///
    /// The first source that covers every online PU decides: Intel's performance counters (PMUs)
    /// (`/sys/devices/cpu_core`, `cpu_atom`, `cpu_lowpower`), `cpu_capacity`, and frequencies.
    /// Frequencies that are less than 10 % apart count as one, because single cores are "favoured"
    /// on machines whose cores are alike. An hwloc XML file holds hwloc's own kinds.
    pub fn core_kinds(&self) -> &[CoreKind] {
        &self.core_kinds
    }

    /// PUs that are online (`/sys/devices/system/cpu/online`); never empty.
    pub fn online_cpus(&self) -> &CpuSet {
        &self.online_cpus
    }

    /// The PUs that this process may use: online, and inside its affinity mask (`Cpus_allowed_list`
    /// of `/proc/self/status`) and its cpuset (`cpuset.cpus.effective` or
    /// `cpuset.effective_cpus` of its control group). A missing file limits nothing.
    /// [`Topology::detect`] states which thread's mask counts.
    pub fn allowed_cpus(&self) -> &CpuSet {
        &self.allowed_cpus
    }

    /// The NUMA nodes that this process may take memory from: by `Mems_allowed_list` of
    /// `/proc/self/status`, and its cpuset (`cpuset.mems.effective` or
    /// `cpuset.effective_mems`). A missing file limits nothing.
    pub fn allowed_nodes(&self) -> &NodeSet {
        &self.allowed_nodes
    }

    /// The online PUs that the scheduler leaves alone (`isolcpus=` in
    /// `/sys/devices/system/cpu/isolated`, and isolated partitions of cpusets in
    /// `cpuset.cpus.isolated` of the topmost control group): only a thread that is bound there
    /// runs there. Empty if unknown, as in hwloc's XML files.
    pub fn isolated_cpus(&self) -> &CpuSet {
        &self.isolated_cpus
    }

    /// The online PUs whose timer tick stops while one thread runs (`nohz_full=`:
    /// `/sys/devices/system/cpu/nohz_full`). Empty if unknown, as in hwloc's XML files.
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

    /// The changes of all configuration files, in their order; empty without any.
    pub fn overrides(&self) -> &[Override] {
        &self.overrides
    }

    /// The changes of one fact: `["nic", "eth0", "node"]`.
    pub fn overrides_of(&self, fact: &[&str]) -> impl DoubleEndedIterator<Item = &Override> {
        let fact = fact.iter().map(|key| quoted(key)).collect::<Vec<_>>().join(".");
        self.overrides.iter().filter(move |entry| entry.fact == fact)
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

    /// The machine with fewer allowed CPUs: those in `cpus` that are online. For plans and tests.
    #[must_use]
    pub fn with_allowed(mut self, cpus: CpuSet) -> Self {
        self.allowed_cpus = cpus.intersection(&self.online_cpus);
        self
    }

    /// The machine with fewer nodes for memory: those in `nodes` that it has. For plans and tests.
    #[must_use]
    pub fn with_allowed_nodes(mut self, nodes: NodeSet) -> Self {
        self.allowed_nodes = self.nodes.iter().map(|node| node.id).filter(|node| nodes.contains(*node)).collect();
        self
    }

    /// The machine with these PCI functions in place of its own. For machines that are only
    /// described.
    #[must_use]
    pub fn with_pci_devices(mut self, devices: Vec<PciDevice>) -> Self {
        self.pci_devices = devices;
        self.in_order()
    }

    /// The machine with these GPUs in place of its own. For machines that are only described.
    #[must_use]
    pub fn with_gpus(mut self, gpus: Vec<Gpu>) -> Self {
        self.gpus = gpus;
        self.in_order()
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
