//! A machine at a moment, and changes applied to it.

use super::{Change, MemoryBlockSet, differ::differ};
use crate::{CpuSet, Nic, NodeSet, Topology};
use serde::{Deserialize, Serialize};

/// A machine at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The machine's model.
    pub topology: Topology,
    /// The online memory blocks; `None` if the kernel has no such blocks.
    pub memory_blocks: Option<MemoryBlockSet>,
}

impl Snapshot {
    /// Applies a change. A change of something that is not there changes nothing.
    ///
    /// A CPU that goes offline leaves the online and the allowed ones; packages, cores and caches follow when the
    /// machine is read again.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::MemoryBlockOffline { block } => {
                if let Some(blocks) = &mut self.memory_blocks {
                    blocks.remove(*block);
                }
            }
            Change::MemoryBlockOnline { block } => {
                self.memory_blocks.get_or_insert_default().insert(*block);
            }
            change => apply(&mut self.topology, change),
        }
    }

    /// The changes from here to `later`.
    pub fn changes_to(&self, later: &Self) -> Vec<Change> {
        let empty = MemoryBlockSet::new();
        let [old, new] = [self, later].map(|snapshot| snapshot.memory_blocks.as_ref().unwrap_or(&empty));
        let offline = old.difference(new);
        let online = new.difference(old);
        let blocks = offline
            .iter()
            .map(|block| Change::MemoryBlockOffline { block })
            .chain(online.iter().map(|block| Change::MemoryBlockOnline { block }));
        blocks.chain(differ(&self.topology, &later.topology)).collect()
    }
}

/// Makes the model as it is after the change; of memory blocks it knows nothing.
pub(super) fn apply(topology: &mut Topology, change: &Change) {
    match change {
        Change::CpuOffline { cpu } => topology.online_cpus.remove(*cpu),
        Change::CpuOnline { cpu } => topology.online_cpus.insert(*cpu),
        Change::NodeOffline { node } => topology.nodes.retain(|other| other.id != *node),
        Change::NodeOnline { node } => {
            topology.nodes.retain(|other| other.id != node.id);
            topology.nodes.push((**node).clone());
            topology.nodes.sort_by_key(|node| node.id);
        }
        Change::NodeMemory { node, memory } => {
            if let Some(node) = topology.nodes.iter_mut().find(|other| other.id == *node) {
                node.memory = *memory;
            }
        }
        Change::AllowedCpus { removed, added } => {
            let allowed: CpuSet = topology.allowed_cpus.difference(removed);
            topology.allowed_cpus = allowed.union(added);
        }
        Change::AllowedNodes { removed, added } => {
            let allowed: NodeSet = topology.allowed_nodes.difference(removed);
            topology.allowed_nodes = allowed.union(added);
        }
        change => apply_to_nics(&mut topology.nics, change),
    }
}

/// Makes the interfaces as they are after the change; other changes do nothing to them.
pub(super) fn apply_to_nics(nics: &mut Vec<Nic>, change: &Change) {
    let named = |nics: &mut Vec<Nic>, name: &str, set: &dyn Fn(&mut Nic)| {
        if let Some(nic) = nics.iter_mut().find(|nic| nic.name == name) {
            set(nic);
        }
    };
    match change {
        Change::NicAdded { nic } => {
            nics.retain(|other| other.name != nic.name);
            nics.push((**nic).clone());
            nics.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Change::NicRemoved { nic } => nics.retain(|other| other.name != *nic),
        Change::NicRenamed { from, to } => {
            named(nics, from, &|nic| nic.name.clone_from(to));
            nics.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Change::NicLink { nic, up, carrier } => named(nics, nic, &|nic| (nic.up, nic.carrier) = (*up, *carrier)),
        Change::NicSpeed { nic, speed } => named(nics, nic, &|nic| nic.speed = *speed),
        Change::NicMtu { nic, mtu } => named(nics, nic, &|nic| nic.mtu = *mtu),
        Change::NicAddressAdded { nic, address } => named(nics, nic, &|nic| nic.addresses.push(address.clone())),
        Change::NicAddressRemoved { nic, address } => {
            named(nics, nic, &|nic| nic.addresses.retain(|other| other != address))
        }
        Change::NicInterrupts { nic, interrupts } => named(nics, nic, &|nic| nic.interrupts.clone_from(interrupts)),
        Change::InterruptMoved { number, affinity, effective, .. } => {
            let interrupts = nics.iter_mut().flat_map(|nic| &mut nic.interrupts);
            for interrupt in interrupts.filter(|interrupt| interrupt.number == *number) {
                interrupt.affinity.clone_from(affinity);
                interrupt.effective.clone_from(effective);
            }
        }
        _ => {}
    }
}
