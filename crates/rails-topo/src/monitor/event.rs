//! What was told, and what it means for what is known. No I/O, no clock.

use super::{
    Change, MemoryBlockId, Snapshot,
    differ::{self, one_nic},
    facts::Facts,
};
use crate::{CpuId, CpuSet, InterfaceAddress, Nic, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Something that a source told. Each is a fact, and no difference: told twice it changes nothing the second time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A CPU is on- or offline now.
    Cpu { cpu: CpuId, online: bool },
    /// A memory block is on- or offline now.
    MemoryBlock { block: MemoryBlockId, online: bool },
    /// Something about NUMA nodes.
    Nodes,
    /// An interface is there, in this state.
    Link(LinkState),
    /// An interface is gone.
    LinkGone { index: u32 },
    /// An interface has an address, or has it no more.
    Address { index: u32, address: InterfaceAddress, present: bool },
    /// A file was written that says what this process may use.
    Cpuset,
    /// The kernel had more to tell than there was room for.
    Lost,
    /// What was looked at.
    Facts(Box<Facts>),
}

/// What is told of an interface; what is not told is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) index: u32,
    pub(crate) name: Option<String>,
    /// `Nic::up` and `Nic::carrier`.
    pub(crate) link: Option<(Option<bool>, Option<bool>)>,
    pub(crate) mtu: Option<u32>,
}

/// What is to be looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Looks {
    /// Everything.
    pub(crate) machine: bool,
    /// Which CPUs are online, and what may be used.
    pub(crate) cpus: bool,
    /// Which nodes there are, and how much memory they have.
    pub(crate) nodes: bool,
    /// Which interfaces there are.
    pub(crate) nics: bool,
    /// Where interrupts are served.
    pub(crate) interrupts: bool,
    /// The speeds of these interfaces.
    pub(crate) speeds: BTreeSet<u32>,
}

/// Takes the snapshot past the event.
pub(super) fn advance(snapshot: &mut Snapshot, event: &Event, wanted: &mut Looks) -> Vec<Change> {
    let changes = match event {
        Event::Cpu { cpu, online } => {
            wanted.cpus = true;
            cpu_changes(snapshot, *cpu, *online)
        }
        Event::MemoryBlock { block, online } => {
            wanted.nodes = true;
            let was_online = snapshot.memory_blocks.as_ref().is_some_and(|blocks| blocks.contains(*block));
            match (was_online, *online) {
                (true, false) => vec![Change::MemoryBlockOffline { block: *block }],
                (false, true) => vec![Change::MemoryBlockOnline { block: *block }],
                _ => Vec::new(),
            }
        }
        Event::Nodes => {
            wanted.nodes = true;
            Vec::new()
        }
        Event::Link(state) => match with_index(snapshot, state.index) {
            Some(nic) => {
                wanted.speeds.insert(state.index);
                link_changes(snapshot, nic, state)
            }
            None => {
                wanted.nics = true;
                Vec::new()
            }
        },
        Event::LinkGone { index } => {
            let gone = with_index(snapshot, *index).map(|nic| Change::NicRemoved { nic: nic.name.clone() });
            gone.into_iter().collect()
        }
        Event::Address { index, address, present } => match with_index(snapshot, *index) {
            Some(nic) => address_change(nic, address, *present).into_iter().collect(),
            None => {
                wanted.nics |= *present;
                Vec::new()
            }
        },
        Event::Cpuset => {
            wanted.cpus = true;
            Vec::new()
        }
        Event::Lost => {
            wanted.machine = true;
            Vec::new()
        }
        Event::Facts(facts) => return facts.take_into(snapshot),
    };
    changes.iter().for_each(|change| snapshot.apply(change));
    changes
}

fn cpu_changes(snapshot: &Snapshot, cpu: CpuId, online: bool) -> Vec<Change> {
    let topology = &snapshot.topology;
    match (topology.online_cpus.contains(cpu), online) {
        (true, false) => {
            let lost = topology
                .allowed_cpus
                .contains(cpu)
                .then(|| Change::AllowedCpus { removed: CpuSet::single(cpu), added: CpuSet::new() });
            std::iter::once(Change::CpuOffline { cpu }).chain(lost).collect()
        }
        (false, true) => vec![Change::CpuOnline { cpu }],
        _ => Vec::new(),
    }
}

fn link_changes(snapshot: &Snapshot, nic: &Nic, state: &LinkState) -> Vec<Change> {
    let mut now = nic.clone();
    let mut changes = Vec::new();
    if let Some(name) = state.name.as_ref().filter(|name| **name != nic.name) {
        // Whoever had that name has it no more, whether or not that was told yet.
        if snapshot.topology.nic(name).is_some() {
            changes.push(Change::NicRemoved { nic: name.clone() });
        }
        changes.push(Change::NicRenamed { from: nic.name.clone(), to: name.clone() });
        now.name.clone_from(name);
    }
    if let Some((up, carrier)) = state.link {
        (now.up, now.carrier) = (up, carrier);
    }
    now.mtu = state.mtu.or(now.mtu);
    changes.extend(one_nic(nic, &now));
    changes
}

fn address_change(nic: &Nic, address: &InterfaceAddress, present: bool) -> Option<Change> {
    let (name, address) = (nic.name.clone(), address.clone());
    match (nic.addresses.contains(&address), present) {
        (false, true) => Some(Change::NicAddressAdded { nic: name, address }),
        (true, false) => Some(Change::NicAddressRemoved { nic: name, address }),
        _ => None,
    }
}

fn with_index(snapshot: &Snapshot, index: u32) -> Option<&Nic> {
    snapshot.topology.nics.iter().find(|nic| nic.index == Some(index))
}

impl Facts {
    /// Puts what was found into the snapshot; gives what has changed by it.
    fn take_into(&self, snapshot: &mut Snapshot) -> Vec<Change> {
        if let Some(machine) = &self.machine {
            let later = Snapshot { topology: (**machine).clone(), memory_blocks: self.memory_blocks.clone() };
            let changes = snapshot.changes_to(&later);
            *snapshot = later;
            return changes;
        }
        let topology = &snapshot.topology;
        let mut changes = Vec::new();
        if let Some(online) = &self.online_cpus {
            changes.extend(differ::cpus(&topology.online_cpus, online));
        }
        if let Some(nodes) = &self.nodes {
            changes.extend(differ::nodes(&topology.nodes, nodes));
        }
        changes.extend(self.allowed_cpus.as_ref().and_then(|cpus| differ::allowed_cpus(&topology.allowed_cpus, cpus)));
        changes.extend(
            self.allowed_nodes.as_ref().and_then(|nodes| differ::allowed_nodes(&topology.allowed_nodes, nodes)),
        );
        changes.extend(self.nics.iter().flat_map(|nics| differ::nics(&topology.nics, nics)));
        for (index, speed) in &self.speeds {
            if let Some(nic) = with_index(snapshot, *index).filter(|nic| nic.speed != *speed) {
                changes.push(Change::NicSpeed { nic: nic.name.clone(), speed: *speed });
            }
        }
        changes.extend(self.moved_interrupts(topology));
        changes.iter().for_each(|change| snapshot.apply(change));
        if let Some(nics) = &self.nics
            && !differ::same_but_addresses(&snapshot.topology.nics, nics)
        {
            snapshot.topology.nics.clone_from(nics);
            changes.push(Change::Structure);
        }
        changes
    }

    fn moved_interrupts(&self, topology: &Topology) -> Vec<Change> {
        let mut moved = BTreeMap::new();
        for interrupt in topology.nics.iter().flat_map(|nic| &nic.interrupts) {
            if let Some((affinity, effective)) = self.interrupts.get(&interrupt.number)
                && (affinity, effective) != (&interrupt.affinity, &interrupt.effective)
            {
                moved.insert(interrupt.number, (affinity.clone(), effective.clone()));
            }
        }
        let change =
            |(number, (affinity, effective))| Change::InterruptMoved { number, affinity, effective, expected: false };
        moved.into_iter().map(change).collect()
    }
}
