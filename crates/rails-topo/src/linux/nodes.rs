//! NUMA nodes and their distances, from `/sys/devices/system/node`.

use super::root::Root;
use crate::{CpuId, CpuSet, DataSize, Distances, NodeId, NumaNode};

/// The folder of the nodes; a kernel without NUMA has none.
const NODES: &str = "sys/devices/system/node";

/// The nodes; their CPUs are those that are online.
pub(super) fn nodes(root: &Root, online: &CpuSet) -> Vec<NumaNode> {
    let node = |number| {
        let folder = format!("{NODES}/node{number}");
        let listed: Option<CpuSet> = root.set(&format!("{folder}/cpulist"), &format!("{folder}/cpumap"));
        // Where neither file says anything, the links to the CPUs do; an empty list is how memory without CPUs looks.
        let linked = || root.numbered(&folder, "cpu").into_iter().map(CpuId).collect();
        NumaNode {
            memory: root.text(&format!("{folder}/meminfo")).as_deref().and_then(total_memory),
            ..NumaNode::of(NodeId(number), listed.unwrap_or_else(linked).intersection(online))
        }
    };
    root.numbered(NODES, "node").into_iter().map(node).collect()
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
