//! The differences of two models. No I/O.

use super::{
    Change,
    apply::{apply, apply_to_nics},
};
use crate::{CpuSet, InterfaceAddress, Interrupt, Nic, NumaNode, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// The changes from `old` to `new`, in an order in which they can be applied: CPUs and nodes,
/// memory, allowed sets, interfaces, interrupts.
///
/// Interfaces are identified by the kernel's number, if both models have it: one that was removed
/// and made anew is two changes, one that was renamed is one. The order of an interface's addresses
/// is no change. All other differences are one [`Change::Structure`], at the end.
pub fn differ(old: &Topology, new: &Topology) -> Vec<Change> {
    let mut changes = cpus(&old.online_cpus, &new.online_cpus);
    changes.extend(nodes(&old.nodes, &new.nodes));
    let (before, now) = (&old.allowed_cpus, &new.allowed_cpus);
    if before != now {
        changes.push(Change::AllowedCpus { removed: before.difference(now), added: now.difference(before) });
    }
    let (before, now) = (&old.allowed_nodes, &new.allowed_nodes);
    if before != now {
        changes.push(Change::AllowedNodes { removed: before.difference(now), added: now.difference(before) });
    }
    changes.extend(nics(&old.nics, &new.nics));
    let mut applied = old.clone();
    changes.iter().for_each(|change| apply(&mut applied, change));
    let rest_is_equal = same_but_addresses(&applied.nics, &new.nics) && {
        applied.nics.clone_from(&new.nics);
        applied == *new
    };
    if !rest_is_equal {
        changes.push(Change::Structure);
    }
    changes
}

fn cpus(old: &CpuSet, new: &CpuSet) -> Vec<Change> {
    let offline = old.difference(new);
    let online = new.difference(old);
    let offline = offline.iter().map(|cpu| Change::CpuOffline { cpu });
    offline.chain(online.iter().map(|cpu| Change::CpuOnline { cpu })).collect()
}

fn nodes(old: &[NumaNode], new: &[NumaNode]) -> Vec<Change> {
    let among = |nodes: &[NumaNode], node: &NumaNode| nodes.iter().position(|other| other.id == node.id);
    let gone = old.iter().filter(|node| among(new, node).is_none()).map(|node| Change::NodeOffline { node: node.id });
    let rest = new.iter().filter_map(|node| match among(old, node) {
        None => Some(Change::NodeOnline { node: Box::new(node.clone()) }),
        Some(index) if old[index].memory != node.memory => {
            Some(Change::NodeMemory { node: node.id, memory: node.memory })
        }
        Some(_) => None,
    });
    gone.chain(rest).collect()
}

fn nics(old: &[Nic], new: &[Nic]) -> Vec<Change> {
    let mut changes = membership_changes(old, new);
    let mut present = old.to_vec();
    changes.iter().for_each(|change| apply_to_nics(&mut present, change));
    let mut moved = BTreeMap::new();
    for nic in new {
        let Some(before) = present.iter().find(|other| other.name == nic.name) else { continue };
        changes.extend(one_nic(before, nic));
        let same_interrupts = identities(&before.interrupts) == identities(&nic.interrupts);
        if !same_interrupts {
            changes.push(Change::NicInterrupts { nic: nic.name.clone(), interrupts: nic.interrupts.clone() });
            continue;
        }
        for (before, now) in before.interrupts.iter().zip(&nic.interrupts) {
            if (&before.affinity, &before.effective) != (&now.affinity, &now.effective) {
                moved.insert(now.number, now);
            }
        }
    }
    changes.extend(moved.into_values().map(|interrupt| Change::InterruptMoved {
        number: interrupt.number,
        affinity: interrupt.affinity.clone(),
        effective: interrupt.effective.clone(),
        expected: false,
    }));
    changes
}

/// The interfaces that were removed, renamed and added, in an order in which names stay unique.
fn membership_changes(old: &[Nic], new: &[Nic]) -> Vec<Change> {
    let same = |a: &Nic, b: &Nic| match (a.index, b.index) {
        (Some(a), Some(b)) => a == b,
        _ => a.name == b.name,
    };
    let removed = |nic: &str| Change::NicRemoved { nic: nic.to_owned() };
    let added = |nic: &Nic| Change::NicAdded { nic: Box::new(nic.clone()) };
    let mut names: BTreeSet<&str> = old.iter().map(|nic| nic.name.as_str()).collect();
    let mut changes = Vec::new();
    let mut renamed = Vec::new();
    for nic in old {
        match new.iter().find(|other| same(nic, other)) {
            None => {
                names.remove(nic.name.as_str());
                changes.push(removed(&nic.name));
            }
            Some(other) if other.name != nic.name => renamed.push((nic, other)),
            Some(_) => {}
        }
    }
    while let Some(free) = renamed.iter().position(|(_, to)| !names.contains(to.name.as_str())) {
        let (from, to) = renamed.remove(free);
        names.remove(from.name.as_str());
        names.insert(&to.name);
        changes.push(Change::NicRenamed { from: from.name.clone(), to: to.name.clone() });
    }
    // Renames in a circle take a detour over a name that neither model has.
    changes.extend(renamed.iter().map(|(from, _)| removed(&from.name)));
    changes.extend(renamed.iter().map(|(_, to)| added(to)));
    let is_new = |nic: &&Nic| !old.iter().any(|other| same(other, nic));
    changes.extend(new.iter().filter(is_new).map(added));
    changes
}

/// The changes of an interface that was there before.
pub(super) fn one_nic(old: &Nic, new: &Nic) -> Vec<Change> {
    let nic = || new.name.clone();
    let mut changes = Vec::new();
    if (old.up, old.carrier) != (new.up, new.carrier) {
        changes.push(Change::NicLink { nic: nic(), up: new.up, carrier: new.carrier });
    }
    if old.speed != new.speed {
        changes.push(Change::NicSpeed { nic: nic(), speed: new.speed });
    }
    if old.mtu != new.mtu {
        changes.push(Change::NicMtu { nic: nic(), mtu: new.mtu });
    }
    let missing = |of: &Nic, among: &Nic| -> Vec<InterfaceAddress> {
        of.addresses.iter().filter(|address| !among.addresses.contains(address)).cloned().collect()
    };
    let removed = missing(old, new).into_iter().map(|address| Change::NicAddressRemoved { nic: nic(), address });
    let added = missing(new, old).into_iter().map(|address| Change::NicAddressAdded { nic: nic(), address });
    changes.extend(removed.chain(added));
    changes
}

fn identities(interrupts: &[Interrupt]) -> Vec<(u32, &Option<String>)> {
    interrupts.iter().map(|interrupt| (interrupt.number, &interrupt.name)).collect()
}

/// Whether the interfaces are equal but for the order of their addresses.
fn same_but_addresses(a: &[Nic], b: &[Nic]) -> bool {
    let same = |(a, b): (&Nic, &Nic)| {
        a.addresses.len() == b.addresses.len()
            && a.addresses.iter().all(|address| b.addresses.contains(address))
            && *a == Nic { addresses: a.addresses.clone(), ..b.clone() }
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bandwidth, CpuId, DataSize, NodeId};
    use proptest::prelude::*;

    /// The facts for which there are typed changes.
    fn typed_facts(topology: &Topology) -> impl PartialEq + std::fmt::Debug + use<> {
        let nic = |nic: &Nic| {
            let mut addresses = nic.addresses.clone();
            addresses.sort_by_key(|address| (address.ip, address.prefix_len));
            (nic.name.clone(), nic.up, nic.carrier, nic.speed, nic.mtu, addresses, nic.interrupts.clone())
        };
        (
            topology.online_cpus.clone(),
            topology.allowed_cpus.clone(),
            topology.allowed_nodes.clone(),
            topology.nodes.iter().map(|node| (node.id, node.memory)).collect::<Vec<_>>(),
            topology.nics.iter().map(nic).collect::<Vec<_>>(),
        )
    }

    fn cpu_set() -> impl Strategy<Value = CpuSet> {
        prop::collection::btree_set(0..8u32, 0..8).prop_map(|cpus| cpus.into_iter().map(CpuId).collect())
    }

    fn nic() -> impl Strategy<Value = Nic> {
        let address = (0..4u8, 24..26u8)
            .prop_map(|(last, prefix_len)| InterfaceAddress { ip: [10, 0, 0, last].into(), prefix_len });
        let addresses = prop::collection::vec(address, 0..4).prop_map(|mut addresses| {
            addresses.sort_by_key(|address| (address.ip, address.prefix_len));
            addresses.dedup();
            addresses
        });
        let state: (Option<bool>, Option<bool>) = (None, None);
        let link = prop_oneof![
            Just(state),
            (any::<bool>(), any::<bool>()).prop_map(|(up, carrier)| (Some(up), Some(carrier)))
        ];
        let numbers = prop::collection::btree_set(20..26u32, 0..4);
        (link, prop::option::of(1..3u64), prop::option::of(1500..1502u32), addresses, numbers).prop_map(
            |((up, carrier), speed, mtu, addresses, numbers)| Nic {
                up,
                carrier,
                speed: speed.map(Bandwidth::mbps),
                mtu,
                addresses,
                interrupts: numbers
                    .into_iter()
                    .map(|number| Interrupt { number, name: None, affinity: None, effective: None })
                    .collect(),
                ..Nic::named("")
            },
        )
    }

    prop_compose! {
        fn machine()(
            online in cpu_set(),
            allowed in cpu_set(),
            allowed_nodes in prop::collection::btree_set(0..4u32, 0..4),
            nodes in prop::collection::btree_map(0..4u32, prop::option::of(1..3u64), 0..4),
            names in Just(["a", "b", "c", "d", "e"].to_vec()).prop_shuffle(),
            nics in prop::collection::btree_map(1..7u32, nic(), 0..5),
            numbered in any::<bool>(),
            affinities in prop::collection::vec((prop::option::of(cpu_set()), prop::option::of(cpu_set())), 6),
        ) -> Topology {
            let named = |((index, nic), name): ((u32, Nic), &&str)| {
                let mut nic = Nic { name: (*name).to_owned(), index: numbered.then_some(index), ..nic };
                for interrupt in &mut nic.interrupts {
                    let (affinity, effective) = &affinities[interrupt.number as usize - 20];
                    interrupt.affinity.clone_from(affinity);
                    interrupt.effective.clone_from(effective);
                }
                nic
            };
            let nics = nics.into_iter().zip(&names).map(named).collect();
            let mut machine = Topology::synthetic("package:1 core:4 pu:2", nics).expect("it is a description");
            machine.online_cpus = online;
            machine.allowed_cpus = allowed;
            machine.allowed_nodes = allowed_nodes.into_iter().map(NodeId).collect();
            machine.nodes = nodes
                .into_iter()
                .map(|(id, memory)| NumaNode {
                    memory: memory.map(DataSize::bytes),
                    ..NumaNode::of(NodeId(id), CpuSet::new())
                })
                .collect();
            machine
        }
    }

    proptest! {
        #[test]
        fn changes_applied_to_the_old_model_give_the_new_one(old in machine(), new in machine()) {
            let mut applied = old.clone();
            for change in differ(&old, &new) {
                apply(&mut applied, &change);
            }
            prop_assert_eq!(typed_facts(&applied), typed_facts(&new));
            let mut left = differ(&applied, &new);
            left.retain(|change| *change != Change::Structure);
            prop_assert_eq!(left, vec![]);
        }

        #[test]
        fn nothing_changes_from_a_model_to_itself(machine in machine()) {
            prop_assert_eq!(differ(&machine, &machine), vec![]);
        }
    }

    fn with(names: &[(&str, u32)]) -> Topology {
        let nics = names.iter().map(|(name, index)| Nic { index: Some(*index), ..Nic::named(name) }).collect();
        Topology::synthetic("core:2 pu:1", nics).unwrap()
    }

    #[test]
    fn name_taken_over_by_another_interface() {
        let changes = differ(&with(&[("eth0", 2), ("eth1", 3)]), &with(&[("eth0", 3)]));
        let expected = [
            Change::NicRemoved { nic: "eth0".to_owned() },
            Change::NicRenamed { from: "eth1".to_owned(), to: "eth0".to_owned() },
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn interface_that_was_made_anew_is_another() {
        let new = with(&[("eth0", 9)]);
        let added = Change::NicAdded { nic: Box::new(new.nics[0].clone()) };
        assert_eq!(differ(&with(&[("eth0", 2)]), &new), [Change::NicRemoved { nic: "eth0".to_owned() }, added]);
    }

    #[test]
    fn structure_change_for_all_other_facts() {
        let old = with(&[("eth0", 2)]);
        let mut new = old.clone();
        new.cores.pop();
        assert_eq!(differ(&old, &new), [Change::Structure]);
    }
}
