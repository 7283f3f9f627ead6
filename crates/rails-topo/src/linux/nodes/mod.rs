//! NUMA nodes, their memory and their distances, from `/sys/devices/system/node`
//! (Documentation/ABI/stable/sysfs-devices-node in the kernel's sources).

mod hugepages;
mod performance;
mod tiers;

use super::{cpus::Cpus, root::Root};
use crate::{CpuId, CpuSet, DataSize, Distances, NodeId, NumaNode, sets::LARGEST_PARSED};
use tiers::Tiers;

/// The folder of the nodes; a kernel without NUMA has none.
const NODES: &str = "sys/devices/system/node";

/// The nodes, with their online CPUs. If two nodes claim one CPU, which no real machine does, the
/// lower number keeps it.
pub(super) fn nodes(root: &Root, cpus: &Cpus) -> Vec<NumaNode> {
    let tiers = Tiers::read(root);
    let mut claimed = CpuSet::new();
    let node = |number| {
        let folder = format!("{NODES}/node{number}");
        let listed: Option<CpuSet> = root.set(&format!("{folder}/cpulist"), &format!("{folder}/cpumap"));
        let cpus = listed.unwrap_or_else(|| linked(root, &folder)).intersection(&cpus.online).difference(&claimed);
        claimed = claimed.union(&cpus);
        NumaNode {
            memory: root.text(&format!("{folder}/meminfo")).as_deref().and_then(total_memory),
            tier: tiers.of(NodeId(number)),
            hugepages: hugepages::pools(root, &folder),
            ..NumaNode::of(NodeId(number), cpus)
        }
    };
    // A set of nodes takes memory by its largest number.
    let numbers = root.numbered(NODES, "node").into_iter().filter(|number| *number <= LARGEST_NODE);
    let mut nodes: Vec<NumaNode> = numbers.map(node).collect();
    let performance: Vec<_> = nodes.iter().map(|node| performance::of(root, node.id, &nodes)).collect();
    for (node, performance) in nodes.iter_mut().zip(performance) {
        node.performance.extend(performance);
    }
    nodes
}

/// Without either file the links to the CPUs count; memory without CPUs has an empty list.
fn linked(root: &Root, folder: &str) -> CpuSet {
    root.numbered(folder, "cpu").into_iter().filter(|cpu| *cpu <= LARGEST_PARSED).map(CpuId).collect()
}

/// The distances, where every node gives one to every node.
pub(super) fn distances(root: &Root, nodes: &[NumaNode]) -> Option<Distances> {
    let nodes: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    let row = |node: &NodeId| -> Option<Vec<u64>> {
        let text = root.text(&format!("{NODES}/node{node}/distance"))?;
        let row: Option<Vec<u64>> = text.split_whitespace().map(|distance| distance.parse().ok()).collect();
        row.filter(|row| row.len() == nodes.len())
    };
    let rows: Option<Vec<Vec<u64>>> = nodes.iter().map(row).collect();
    let values = rows?.concat();
    (nodes.len() > 1).then_some(Distances { nodes, values })
}

/// The line `Node 0 MemTotal:  16747124 kB` of a node's `meminfo`; its kB are of 1024 bytes.
pub(crate) fn total_memory(meminfo: &str) -> Option<DataSize> {
    let amount = meminfo.lines().find_map(|line| Some(line.split_once("MemTotal:")?.1))?;
    let kib: u64 = amount.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).map(DataSize::bytes)
}

/// Linux is built for at most 1,024 nodes (`CONFIG_NODES_SHIFT`).
const LARGEST_NODE: u32 = 1023;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_memory_is_found_among_the_lines() {
        let meminfo = "\nNode 0 MemTotal:  8386704 kB\nNode 0 MemFree:  1 kB\n";
        assert_eq!(total_memory(meminfo), Some(DataSize::bytes(8_386_704 * 1024)));
        for text in ["", "Node 0 MemTotal: x kB", "Node 0 MemTotal: 5", "Node 0 MemTotal: 18446744073709551615 kB"] {
            assert_eq!(total_memory(text), None, "{text:?}");
        }
    }
}
