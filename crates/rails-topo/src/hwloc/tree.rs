//! The model, from hwloc's objects.

use super::{
    memory,
    object::{cpus_of, info, locality, os_index, pci},
};
use crate::{
    Cache, CacheKind, Core, CpuSet, DataSize, Die, Distances, MacAddress, Machine, Nic, NodeId, NumaNode, Package,
    linux,
};
use hwlocality::{
    Topology as Hwloc,
    object::{
        TopologyObject,
        attributes::ObjectAttributes,
        types::{CacheType, OSDeviceType, ObjectType},
    },
};
use std::collections::BTreeSet;

pub(super) fn packages(hwloc: &Hwloc) -> Vec<Package> {
    let package = |object: &TopologyObject| Package { id: os_index(object), cpus: cpus_of(object) };
    hwloc.objects_with_type(ObjectType::Package).map(package).collect()
}

/// The dies that are parts of a package.
pub(super) fn dies(hwloc: &Hwloc, packages: &[Package]) -> Vec<Die> {
    let die = |object: &TopologyObject| Die { id: os_index(object), cpus: cpus_of(object) };
    let is_part = |die: &Die| packages.iter().all(|package| package.cpus != die.cpus);
    hwloc.objects_with_type(ObjectType::Die).map(die).filter(is_part).collect()
}

pub(super) fn cores(hwloc: &Hwloc) -> Vec<Core> {
    let core = |object: &TopologyObject| Core { id: os_index(object), cpus: cpus_of(object) };
    hwloc.objects_with_type(ObjectType::Core).map(core).collect()
}

pub(super) fn caches(hwloc: &Hwloc) -> Vec<Cache> {
    let cache = |object: &TopologyObject| {
        let Some(ObjectAttributes::Cache(attributes)) = object.attributes() else { return None };
        let kind = match attributes.cache_type() {
            CacheType::Data => CacheKind::Data,
            CacheType::Instruction => CacheKind::Instruction,
            CacheType::Unified => CacheKind::Unified,
            _ => return None,
        };
        let level = attributes.depth().try_into().ok()?;
        let size = attributes.size().map(|size| DataSize::bytes(size.get()));
        Some(Cache { level, kind, size, cpus: cpus_of(object) })
    };
    hwloc.normal_objects().filter_map(cache).collect()
}

/// The nodes, by number.
///
/// hwloc gives memory without CPUs the nearest CPUs, which belong to an ordinary node too. Linux
/// numbers ordinary nodes first, so among nodes that claim the same CPUs the lowest number keeps
/// them.
pub(super) fn nodes(hwloc: &Hwloc) -> Vec<NumaNode> {
    let node = |object: &TopologyObject| {
        let bytes = match object.attributes() {
            Some(ObjectAttributes::NUMANode(attributes)) => attributes.local_memory().map_or(0, |bytes| bytes.get()),
            _ => return None,
        };
        let id = NodeId(os_index(object)?);
        Some(NumaNode {
            id,
            cpus: cpus_of(object),
            memory: Some(DataSize::bytes(bytes)),
            tier: memory::tier(object),
            hugepages: memory::hugepages(object),
            performance: memory::performance(hwloc, object),
        })
    };
    let mut nodes: Vec<NumaNode> = hwloc.objects_with_type(ObjectType::NUMANode).filter_map(node).collect();
    nodes.sort_by_key(|node| node.id);
    let mut claimed = CpuSet::new();
    for node in &mut nodes {
        node.cpus = node.cpus.difference(&claimed);
        claimed = claimed.union(&node.cpus);
    }
    nodes
}

/// The kernel's distances, which hwloc calls `NUMALatency`.
pub(super) fn distances(hwloc: &Hwloc) -> Option<Distances> {
    let matrix = hwloc.distances_with_name("NUMALatency").ok()?.into_iter().next()?;
    let nodes: Option<Vec<NodeId>> = matrix.objects().map(|object| os_index(object?).map(NodeId)).collect();
    let nodes = nodes?;
    let values = matrix.distances().to_vec();
    (nodes.len() > 1 && values.len() == nodes.len() * nodes.len()).then_some(Distances { nodes, values })
}

/// The interfaces that hwloc knows: those with a device.
pub(super) fn nics(hwloc: &Hwloc) -> Vec<Nic> {
    let mut seen = BTreeSet::new();
    let nic = |object: &TopologyObject| {
        let name = object.name()?.to_str().ok()?;
        let (node, local_cpus) = locality(hwloc, object);
        let mac = info(object, "Address").and_then(|address| address.parse::<MacAddress>().ok());
        seen.insert(name.to_owned()).then(|| Nic { pci: pci(object), node, local_cpus, mac, ..Nic::named(name) })
    };
    hwloc.objects_with_type(ObjectType::OSDevice).filter(|object| is_network(object)).filter_map(nic).collect()
}

/// The names of the machine.
pub(super) fn machine(hwloc: &Hwloc) -> Machine {
    let root = hwloc.root_object();
    let dmi = |field: &str| match field {
        "sys_vendor" => info(root, "DMISysVendor"),
        "product_name" => info(root, "DMIProductName"),
        "board_vendor" => info(root, "DMIBoardVendor"),
        "board_name" => info(root, "DMIBoardName"),
        _ => None,
    };
    let of_package = |object| info(object, "CPUModel");
    let cpu_model =
        info(root, "CPUModel").or_else(|| hwloc.objects_with_type(ObjectType::Package).find_map(of_package));
    Machine {
        host: info(root, "HostName"),
        cpu_model: cpu_model.map(|model| model.split_whitespace().collect::<Vec<_>>().join(" ")),
        product: linux::product(dmi),
        kernel: info(root, "OSRelease"),
    }
}

fn is_network(object: &TopologyObject) -> bool {
    matches!(object.attributes(), Some(ObjectAttributes::OSDevice(device)) if device.device_type() == OSDeviceType::Network)
}
