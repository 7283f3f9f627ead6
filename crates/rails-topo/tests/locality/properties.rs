use super::{cpus, function, with_distances, with_memory};
use proptest::prelude::*;
use rails_topo::{CommonAncestor, CpuId, CpuSet, Nic, NodeId, NodeSet, PciAddress, PciDevice, Tiers, Topology};

/// Random machines: few addresses and names, so that they meet.
fn machines() -> impl Strategy<Value = Topology> {
    let shape = (1..3u32, 1..4u32, 1..3u32, 1..3u32);
    let limits = (any::<u32>(), any::<u8>());
    let distances = proptest::option::of(proptest::collection::vec(10..13u64, 36));
    let memory = proptest::collection::vec(proptest::option::of(0..2u64), 6);
    let nics = proptest::collection::vec(nic(), 0..8);
    let pci = proptest::collection::btree_map(bus(), (proptest::option::of(bus()), proptest::option::of(bus())), 0..10);
    (shape, limits, distances, memory, nics, pci).prop_map(|(shape, limits, distances, memory, nics, pci)| {
        let (packages, nodes, cores, pus) = shape;
        let named = (0..).zip(nics).map(|(index, nic): (u32, Nic)| Nic { name: format!("eth{index}"), ..nic });
        let description = format!("package:{packages} numa:{nodes} l3:1 core:{cores} pu:{pus}");
        let machine = Topology::synthetic(&description, named.collect()).unwrap();
        let count = (packages * nodes) as usize;
        let rows = distances.map(|values| values[..count * count].to_vec());
        let machine = with_memory(&with_distances(&machine, rows), &memory[..count]);
        let bits = |mask: u64| (0..32).filter(move |bit| mask >> bit & 1 == 1);
        let device = |(at, (parent, physical)): (PciAddress, (Option<PciAddress>, Option<PciAddress>))| PciDevice {
            parent,
            physical_function: physical,
            node: (at.bus % 2 == 0).then_some(NodeId(u32::from(at.bus) / 2)),
            ..PciDevice::at(at)
        };
        machine
            .with_pci_devices(pci.into_iter().map(device).collect())
            .with_allowed(bits(limits.0.into()).map(CpuId).collect())
            .with_allowed_nodes(bits(limits.1.into()).map(NodeId).collect())
    })
}

fn bus() -> impl Strategy<Value = PciAddress> {
    (0..6u8, 0..2u8, 0..2u8).prop_map(|(bus, device, function)| PciAddress { domain: 0, bus, device, function })
}

fn nic() -> impl Strategy<Value = Nic> {
    let place = (proptest::option::of(0..6u32), proptest::option::of(any::<u16>()), proptest::option::of(bus()));
    let names = (proptest::option::of(0..2u8), proptest::option::of(0..2u8));
    (place, names).prop_map(|((node, local, pci), (port, switch))| Nic {
        node: node.map(NodeId),
        local_cpus: local.map(|mask| CpuSet::from_words(vec![u64::from(mask)])),
        pci,
        physical_port: port.map(|name| name.to_string()),
        physical_switch: switch.map(|name| name.to_string()),
        ..Nic::named("")
    })
}

/// The nodes that memory may come from.
fn usable(machine: &Topology) -> Vec<NodeId> {
    let has_memory = |size: Option<rails_topo::DataSize>| size.is_none_or(|size| size.as_bytes() > 0);
    let nodes = machine.nodes().iter().filter(|node| has_memory(node.memory)).map(|node| node.id);
    nodes.filter(|node| machine.allowed_nodes().contains(*node)).collect()
}

/// Tiers hold each usable node once, the known ones nearest first, and no tier is empty or like the
/// one before.
fn are_a_partition(machine: &Topology, tiers: Tiers<'_>) -> Result<(), TestCaseError> {
    let distances: Vec<Option<u64>> = tiers.clone().map(|tier| tier.distance).collect();
    let order = |distance: &Option<u64>| (distance.is_none(), *distance);
    prop_assert!(distances.is_sorted_by(|a, b| order(a) < order(b)), "{:?}", distances);
    prop_assert!(tiers.clone().all(|tier| !tier.nodes.is_empty()));
    let mut held: Vec<NodeId> = tiers.flat_map(|tier| tier.nodes.iter().copied()).collect();
    held.sort_unstable();
    prop_assert_eq!(held, usable(machine));
    Ok(())
}

proptest! {
    /// Interfaces together carry no less than each of them, and no more than all of them one by one.
    #[test]
    fn joint_bandwidth_between_the_largest_and_the_sum(
        machine in machines(),
        speeds in proptest::collection::vec(proptest::option::of(0..100u64), 8),
    ) {
        let mut json = serde_json::to_value(&machine).unwrap();
        for (nic, speed) in json["nics"].as_array_mut().unwrap().iter_mut().zip(speeds) {
            nic["speed_bits_per_second"] = speed.map(|mbps| mbps * 1_000_000).into();
        }
        let machine: Topology = serde_json::from_value(json).unwrap();
        let locality = machine.locality();
        let alone: Vec<_> = machine.nics().iter().map(|nic| locality.joint_bandwidth([nic]).bandwidth).collect();
        let together = locality.joint_bandwidth(machine.nics());
        prop_assert_eq!(&together, &locality.joint_bandwidth(machine.nics().iter().rev()), "in any order");
        if let (Some(together), Some(alone)) = (together.bandwidth, alone.into_iter().collect::<Option<Vec<_>>>()) {
            let bits = alone.iter().map(|bandwidth| bandwidth.as_bits_per_second());
            prop_assert!(bits.clone().max().unwrap_or(0) <= together.as_bits_per_second());
            prop_assert!(together.as_bits_per_second() <= bits.sum());
        }
    }

    #[test]
    fn tiers_partition_the_nodes_that_may_be_used(machine in machines()) {
        let locality = machine.locality();
        for cpu in (0..40).map(CpuId) {
            are_a_partition(&machine, locality.nodes_from_cpu(cpu))?;
            prop_assert_eq!(locality.nearest_node(cpu), machine.nearest_node(cpu));
        }
        for node in (0..8).map(NodeId) {
            are_a_partition(&machine, locality.nodes_from_node(node))?;
            for tier in locality.nodes_from_node(node).filter(|tier| tier.distance.is_some()) {
                let given = |to| machine.distances().and_then(|distances| distances.between(node, to));
                let told = |to: &NodeId| given(*to).or((node == *to).then_some(10));
                prop_assert!(tier.nodes.iter().all(|to| told(to) == tier.distance));
            }
        }
        for nic in machine.nics() {
            are_a_partition(&machine, locality.nodes_from(nic))?;
        }
    }

    #[test]
    fn nothing_outside_the_allowed_sets_is_named(machine in machines()) {
        let locality = machine.locality();
        let allowed = machine.allowed_cpus();
        for cpu in machine.online_cpus().iter() {
            for shared in locality.around(cpu) {
                prop_assert!(shared.cpus.is_subset(allowed));
                prop_assert_eq!(shared.cpus.contains(cpu), allowed.contains(cpu));
            }
        }
        for nic in machine.nics() {
            if let Some(closest) = locality.closest_pus(nic) {
                prop_assert!(!closest.cpus.is_empty() && closest.cpus.is_subset(allowed));
                let beside = nic.locality(&machine).unwrap_or_default().intersection(allowed);
                prop_assert_eq!(closest.beside, !beside.is_empty());
                prop_assert!(!closest.beside || *closest.cpus == beside);
            }
            if let Some(tier) = locality.closest_nodes(nic) {
                let nodes: NodeSet = tier.nodes.iter().copied().collect();
                prop_assert!(!nodes.is_empty() && nodes.is_subset(machine.allowed_nodes()));
            }
        }
    }

    #[test]
    fn levels_around_a_pu_grow_outwards(machine in machines()) {
        let machine = machine.with_allowed(cpus("0-63"));
        let locality = machine.locality();
        for a in machine.online_cpus().iter() {
            let sets: Vec<&CpuSet> = locality.around(a).map(|shared| shared.cpus).collect();
            prop_assert!(sets.is_sorted_by(|inner, outer| inner.is_subset(outer)));
            for b in machine.online_cpus().iter() {
                let shared = locality.shared_by(a, b);
                prop_assert_eq!(shared, locality.shared_by(b, a));
                let innermost = locality.around(a).find(|shared| shared.cpus.contains(b));
                prop_assert_eq!(shared.map(|shared| shared.cpus), innermost.map(|shared| shared.cpus));
            }
        }
    }

    #[test]
    fn symmetric_ancestors_and_their_sharers(machine in machines()) {
        let locality = machine.locality();
        for a in machine.nics() {
            for b in machine.nics().iter().filter(|b| b.name != a.name) {
                let common = locality.common_ancestor(a, b);
                prop_assert_eq!(common, locality.common_ancestor(b, a));
                prop_assert_eq!(locality.same_card(a, b), locality.same_card(b, a));
                let within = common.is_some_and(|common| common < CommonAncestor::HostBridge { domain: 0, bus: 0 });
                let mut sharers = locality.sharers(a).filter(|sharer| sharer.nic.name == b.name);
                prop_assert_eq!(sharers.next().map(|sharer| sharer.shares), common.filter(|_| within));
                prop_assert!(sharers.next().is_none(), "each is named once");
            }
            for function in machine.pci_devices() {
                prop_assert_eq!(locality.common_ancestor(a, function), locality.common_ancestor(function, a));
            }
        }
    }

    #[test]
    fn paths_count_their_links(machine in machines()) {
        let locality = machine.locality();
        for device in machine.pci_devices() {
            let path = locality.path(device).unwrap();
            prop_assert!(path.unknown <= path.links && path.links <= machine.pci_devices().len() + 1);
            prop_assert_eq!(path.narrowest.is_some(), path.unknown < path.links);
        }
    }
}

#[test]
fn empty_machine_has_no_localities() {
    let machine = Topology::synthetic("pu:1", vec![]).unwrap();
    let locality = machine.locality();
    assert_eq!(locality.nodes_from_cpu(CpuId(0)).count(), 0);
    assert_eq!(locality.around(CpuId(0)).count(), 1, "the machine is around its PUs");
    assert!(locality.path(&function("0000:00:00.0", None)).is_none());
}
