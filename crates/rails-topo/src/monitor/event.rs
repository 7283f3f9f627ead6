//! Events, and the changes that they make. No I/O, no clock.

use super::{
    Change, MemoryBlockId, Snapshot,
    differ::one_nic,
    facts::{FactKinds, Facts},
};
use crate::{CpuId, CpuSet, InterfaceAddress, Nic};

/// An event from a source. It states a fact, not a difference: a repeated event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A CPU went online or offline.
    Cpu { cpu: CpuId, online: bool },
    /// A memory block went online or offline.
    MemoryBlock { block: MemoryBlockId, online: bool },
    /// NUMA nodes or their memory may have changed.
    Nodes,
    /// An interface has this state.
    Link(LinkState),
    /// An interface was removed.
    LinkGone { index: u32 },
    /// An interface got or lost an address.
    Address { index: u32, address: InterfaceAddress, present: bool },
    /// A file of this process's cpuset was written.
    Cpuset,
    /// The kernel dropped messages.
    Lost,
    /// The facts that a reading has found.
    Facts(Box<Facts>),
}

/// The state of an interface; an unknown part is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) index: u32,
    pub(crate) name: Option<String>,
    /// `Nic::up` and `Nic::carrier`.
    pub(crate) link: Option<(Option<bool>, Option<bool>)>,
    pub(crate) mtu: Option<u32>,
}

/// Applies the event to the snapshot.
pub(super) fn advance(snapshot: &mut Snapshot, event: &Event, wanted: &mut FactKinds) -> Vec<Change> {
    let mut changes = Vec::new();
    match event {
        Event::Cpu { cpu, online } => {
            wanted.cpus = true;
            changes = cpu_changes(snapshot, *cpu, *online);
        }
        Event::MemoryBlock { block, online } => {
            wanted.nodes = true;
            let was_online = snapshot.memory_blocks.as_ref().is_some_and(|blocks| blocks.contains(*block));
            match (was_online, *online) {
                (true, false) => changes.push(Change::MemoryBlockOffline { block: *block }),
                (false, true) => changes.push(Change::MemoryBlockOnline { block: *block }),
                _ => {}
            }
        }
        Event::Link(state) => match with_index(snapshot, state.index) {
            Some(nic) => {
                wanted.speeds.insert(state.index);
                changes = link_changes(snapshot, nic, state);
            }
            None => wanted.nics = true,
        },
        Event::LinkGone { index } => {
            changes.extend(with_index(snapshot, *index).map(|nic| Change::NicRemoved { nic: nic.name.clone() }));
        }
        Event::Address { index, address, present } => match with_index(snapshot, *index) {
            Some(nic) => changes.extend(address_change(nic, address, *present)),
            None => wanted.nics |= *present,
        },
        Event::Nodes => wanted.nodes = true,
        Event::Cpuset => wanted.cpus = true,
        Event::Lost => wanted.machine = true,
        Event::Facts(facts) => {
            let later = facts.applied_to(snapshot);
            changes = snapshot.changes_to(&later);
            *snapshot = later;
            return changes;
        }
    }
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
        // The interface that had the name has lost it, whether or not an event said so.
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
