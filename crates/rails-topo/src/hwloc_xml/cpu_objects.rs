//! Packages, dies, caches, cores, PUs and nodes as a tree.

use super::{element::Element, object::Object};
use crate::{Cache, CacheKind, CpuSet, Nic, NodeId, NodeSet, NumaNode, Topology};
use std::cmp::Reverse;

/// The whole machine, without devices.
pub(super) fn machine(topology: &Topology) -> Object {
    let facts = &topology.machine;
    let model = facts.cpu_model.clone().filter(|_| topology.packages.is_empty());
    let mut machine = Object::with_cpus("Machine", Some(0), topology.online_cpus.clone()).infos([
        ("Backend", Some("Rails".to_owned())),
        ("OSName", Some("Linux".to_owned())),
        ("HostName", facts.host.clone()),
        ("OSRelease", facts.kernel.clone()),
        ("DMIProductName", facts.product.clone()),
        ("CPUModel", model),
    ]);
    let mut objects = objects(topology);
    let wished = topology.nodes.iter().map(|node| &node.cpus).chain(localities(topology));
    for cpus in wished.filter(|cpus| !cpus.is_empty() && **cpus != topology.online_cpus) {
        if cpus.is_subset(&topology.online_cpus)
            && !objects.iter().any(|(_, object)| object.cpus.as_ref() == Some(cpus))
        {
            objects.push((GROUP, Object::with_cpus("Group", None, cpus.clone())));
        }
    }
    // Of two objects with the same CPUs the one of the higher type is outside.
    objects.sort_by_key(|(rank, object)| (Reverse(object.cpus.as_ref().map_or(0, CpuSet::len)), *rank));
    objects.into_iter().for_each(|(_, object)| machine.insert(object));
    let made_up = [NumaNode::of(NodeId(0), topology.online_cpus.clone())];
    let nodes = if topology.nodes.is_empty() { &made_up[..] } else { &topology.nodes };
    nodes.iter().for_each(|node| attach_node(node, &mut machine));
    set_nodes(&mut machine, nodes);
    machine
}

/// The objects of the machine, each with the rank of its type (hwloc's `obj_type_order`).
fn objects(topology: &Topology) -> Vec<(u8, Object)> {
    let model = topology.machine.cpu_model.as_ref();
    let package = |package: &crate::Package| {
        let object = Object::with_cpus("Package", package.id, package.cpus.clone());
        (PACKAGE, object.infos([("CPUModel", model.cloned())]))
    };
    let packages = topology.packages.iter().map(package);
    let dies = topology.dies.iter().map(|die| (DIE, Object::with_cpus("Die", die.id, die.cpus.clone())));
    let caches = topology.caches.iter().filter_map(cache);
    let cores = topology.cores.iter().map(|core| (CORE, Object::with_cpus("Core", core.id, core.cpus.clone())));
    let pus =
        topology.online_cpus.iter().map(|cpu| (PU, Object::with_cpus("PU", Some(cpu.0), CpuSet::from_iter([cpu]))));
    packages
        .chain(dies)
        .chain(caches)
        .chain(cores)
        .chain(pus)
        .filter(|(_, object)| object.cpus.as_ref().is_some_and(|cpus| !cpus.is_empty()))
        .collect()
}

/// hwloc knows caches of five levels, and caches of instructions of three.
fn cache(cache: &Cache) -> Option<(u8, Object)> {
    let instructions = cache.kind == CacheKind::Instruction;
    let names = if instructions { &INSTRUCTION_CACHES[..] } else { &CACHES[..] };
    let kind = *names.get(usize::from(cache.level.checked_sub(1)?))?;
    let mut object = Object::with_cpus(kind, None, cache.cpus.clone());
    // `hwloc_obj_cache_type_t`
    let number = match cache.kind {
        CacheKind::Unified => 0,
        CacheKind::Data => 1,
        CacheKind::Instruction => 2,
    };
    object.attributes = vec![
        ("cache_size", cache.size.map_or(0, |size| size.as_bytes()).to_string()),
        ("depth", cache.level.to_string()),
        ("cache_linesize", "0".to_owned()),
        ("cache_associativity", "0".to_owned()),
        ("cache_type", number.to_string()),
    ];
    Some((CACHE - 2 * cache.level + u8::from(instructions), object))
}

/// Sets of CPUs that devices are beside.
fn localities(topology: &Topology) -> impl Iterator<Item = &CpuSet> {
    let of_functions = topology.pci_devices.iter().filter_map(|device| device.local_cpus.as_ref());
    of_functions.chain(topology.nics.iter().filter_map(|nic: &Nic| nic.local_cpus.as_ref()))
}

fn attach_node(node: &NumaNode, machine: &mut Object) {
    let holder = machine.smallest(&node.cpus);
    let memory = node.memory.map(|memory| ("local_memory", memory.as_bytes().to_string()));
    let pages = node.hugepages.iter().filter_map(|pool| {
        let element = Element::new("page_type").with("size", pool.size.as_bytes());
        Some(element.with("count", pool.total?))
    });
    let cpus = holder.cpus.clone().unwrap_or_default();
    holder.memory.push(Object {
        nodes: NodeSet::from_iter([node.id]),
        attributes: memory.into_iter().collect(),
        inner: pages.collect(),
        ..Object::with_cpus("NUMANode", Some(node.id.0), cpus)
    });
}

/// The nodes of an object are the nodes that share CPUs with it; memory without CPUs belongs to
/// every object.
fn set_nodes(object: &mut Object, nodes: &[NumaNode]) {
    if let Some(cpus) = &object.cpus {
        let beside = |node: &&NumaNode| node.cpus.is_empty() || node.cpus.intersects(cpus);
        object.nodes = nodes.iter().filter(beside).map(|node| node.id).collect();
    }
    object.children.iter_mut().for_each(|child| set_nodes(child, nodes));
}

const CACHES: [&str; 5] = ["L1Cache", "L2Cache", "L3Cache", "L4Cache", "L5Cache"];
const INSTRUCTION_CACHES: [&str; 3] = ["L1iCache", "L2iCache", "L3iCache"];

const GROUP: u8 = 0;
const PACKAGE: u8 = 1;
const DIE: u8 = 2;
/// The rank of a cache is this, less two for each level.
const CACHE: u8 = 20;
const CORE: u8 = 30;
const PU: u8 = 31;
