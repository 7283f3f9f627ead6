//! Facts from the machine's files: a few of them, or all.

use super::{MemoryBlockId, MemoryBlockSet, Snapshot};
use crate::{
    Bandwidth, CpuSet, DetectError, Nic, NodeId, NodeSet, NumaNode, Topology,
    linux::{self, Allowed, Root, Served},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The facts to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FactKinds {
    /// Everything.
    pub(crate) machine: bool,
    /// The online CPUs, and the allowed sets.
    pub(crate) cpus: bool,
    /// The nodes, and the size of their memory.
    pub(crate) nodes: bool,
    /// The interfaces.
    pub(crate) nics: bool,
    /// The CPUs of interrupts.
    pub(crate) interrupts: bool,
    /// The speeds of these interfaces.
    pub(crate) speeds: BTreeSet<u32>,
}

impl FactKinds {
    /// Adds these facts to those to be read.
    pub(super) fn add(&mut self, other: &Self) {
        self.machine |= other.machine;
        self.cpus |= other.cpus;
        self.nodes |= other.nodes;
        self.nics |= other.nics;
        self.interrupts |= other.interrupts;
        self.speeds.extend(&other.speeds);
    }
}

/// The facts of a reading; a fact that was not wanted, or could not be read, is `None` or absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) machine: Option<Box<Snapshot>>,
    pub(crate) online_cpus: Option<CpuSet>,
    pub(crate) allowed_cpus: Option<CpuSet>,
    pub(crate) allowed_nodes: Option<NodeSet>,
    pub(crate) nodes: Option<Vec<NumaNode>>,
    pub(crate) nics: Option<Vec<Nic>>,
    pub(crate) speeds: Vec<(u32, Option<Bandwidth>)>,
    /// `Interrupt::affinity` and `Interrupt::effective`, by number.
    pub(crate) interrupts: BTreeMap<u32, Served>,
}

impl Facts {
    /// Reads the wanted facts.
    pub(crate) fn read(root: &Root, kinds: &FactKinds, known: &Topology) -> Result<Self, DetectError> {
        let root = &root.again();
        if kinds.machine {
            return Ok(Self { machine: Some(Box::new(Self::of_the_machine(root)?)), ..Self::default() });
        }
        let mut facts = Self::default();
        if kinds.cpus {
            facts.read_cpus(root, known);
        }
        if kinds.nodes {
            facts.nodes = nodes(root, &known.nodes);
        }
        if kinds.nics {
            let mut nics = linux::nics(root, known);
            nics.iter_mut().for_each(|nic| keep_locality(nic, known));
            nics.sort_by(|a, b| a.name.cmp(&b.name));
            facts.nics = Some(nics);
        }
        let of_index = |index: &u32| known.nics.iter().find(|nic| nic.index == Some(*index));
        facts.speeds = kinds
            .speeds
            .iter()
            .filter_map(of_index)
            .filter_map(|nic| Some((nic.index?, linux::speed(root, nic))))
            .collect();
        if kinds.interrupts {
            let numbers = known.nics.iter().flat_map(|nic| &nic.interrupts).map(|interrupt| interrupt.number);
            facts.interrupts = numbers.filter_map(|number| interrupt(root, number)).collect();
        }
        root.check(Path::new("/"))?;
        Ok(facts)
    }

    /// Reads everything. The files of partial readings are read in the same way, so that both
    /// agree.
    pub(crate) fn of_the_machine(root: &Root) -> Result<Snapshot, DetectError> {
        let root = &root.again();
        let topology = Topology::detect()?;
        let mut facts = Self { nodes: nodes(root, &topology.nodes), ..Self::default() };
        facts.read_cpus(root, &topology);
        let memory_blocks = memory_blocks(root);
        root.check(Path::new("/"))?;
        Ok(facts.applied_to(&Snapshot { topology, memory_blocks }))
    }

    /// The snapshot, updated with these facts.
    pub(super) fn applied_to(&self, snapshot: &Snapshot) -> Snapshot {
        if let Some(machine) = &self.machine {
            return (**machine).clone();
        }
        let mut later = snapshot.clone();
        let topology = &mut later.topology;
        fn set<T: Clone>(known: &mut T, found: &Option<T>) {
            found.iter().for_each(|found| known.clone_from(found));
        }
        set(&mut topology.online_cpus, &self.online_cpus);
        set(&mut topology.nodes, &self.nodes);
        set(&mut topology.allowed_cpus, &self.allowed_cpus);
        set(&mut topology.allowed_nodes, &self.allowed_nodes);
        set(&mut topology.nics, &self.nics);
        for nic in &mut topology.nics {
            let speed = self.speeds.iter().find(|(index, _)| nic.index == Some(*index));
            nic.speed = speed.map_or(nic.speed, |(_, speed)| *speed);
            for interrupt in &mut nic.interrupts {
                if let Some((affinity, effective)) = self.interrupts.get(&interrupt.number) {
                    interrupt.affinity.clone_from(affinity);
                    interrupt.effective.clone_from(effective);
                }
            }
        }
        later
    }

    fn read_cpus(&mut self, root: &Root, known: &Topology) {
        let online = root.value::<CpuSet>("sys/devices/system/cpu/online").filter(|cpus| !cpus.is_empty());
        let allowed = Allowed::read(root);
        self.allowed_cpus = Some(allowed.cpus(online.as_ref().unwrap_or(&known.online_cpus)));
        self.online_cpus = online;
        let there = root.value::<NodeSet>("sys/devices/system/node/online");
        let nodes = there.unwrap_or_else(|| known.nodes.iter().map(|node| node.id).collect());
        self.allowed_nodes = Some(allowed.nodes(&nodes)).filter(|_| !known.nodes.is_empty());
    }
}

/// Keeps the known locality of an interface if the kernel's files do not state it, because hwloc
/// may have stated it.
fn keep_locality(nic: &mut Nic, known: &Topology) {
    let Some(before) = known.nics.iter().find(|before| before.index.is_some() && before.index == nic.index) else {
        return;
    };
    nic.pci = nic.pci.or(before.pci);
    nic.mac = nic.mac.or(before.mac);
    if nic.node.is_none() && nic.local_cpus.is_none() {
        nic.node = before.node;
        nic.local_cpus.clone_from(&before.local_cpus);
    }
}

/// The known nodes with their present memory; a new node has no other fact yet.
fn nodes(root: &Root, known: &[NumaNode]) -> Option<Vec<NumaNode>> {
    const NODES: &str = "sys/devices/system/node";
    let online: NodeSet = root.value(&format!("{NODES}/online"))?;
    let node = |id: NodeId| {
        let known = known.iter().find(|node| node.id == id).cloned();
        let cpus = || root.value(&format!("{NODES}/node{id}/cpulist")).unwrap_or_default();
        let node = known.unwrap_or_else(|| NumaNode::of(id, cpus()));
        let memory = root.text(&format!("{NODES}/node{id}/meminfo")).as_deref().and_then(linux::total_memory);
        NumaNode { memory, ..node }
    };
    Some(online.iter().map(node).collect())
}

/// The online memory blocks (Documentation/admin-guide/mm/memory-hotplug.rst in the kernel's
/// sources).
fn memory_blocks(root: &Root) -> Option<MemoryBlockSet> {
    const BLOCKS: &str = "sys/devices/system/memory";
    let numbers = root.numbered(BLOCKS, "memory");
    let is_online =
        |number: &u32| root.text(&format!("{BLOCKS}/memory{number}/state")).is_some_and(|state| state == "online");
    let online: MemoryBlockSet = numbers.iter().copied().filter(is_online).map(MemoryBlockId).collect();
    (!numbers.is_empty()).then_some(online)
}

/// An interrupt and its CPUs; `None` if it no longer exists.
fn interrupt(root: &Root, number: u32) -> Option<(u32, Served)> {
    let served = linux::served(root, number);
    served.0.is_some().then_some((number, served))
}
