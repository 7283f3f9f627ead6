//! Changes applied to a model. No I/O.

use super::Change;
use crate::{CpuSet, Nic, NodeSet, Topology};

/// Applies the change to the model, which has no memory blocks.
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

/// Applies the change to the interfaces; changes of other objects are ignored.
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
