//! The speed of a node's memory by the firmware (ACPI's HMAT), as the kernel passes it on
//! (Documentation/admin-guide/mm/numaperf.rst in its sources).

use super::NODES;
use crate::{Bandwidth, CpuSet, MemoryPerformance, NodeId, NumaNode, linux::Root};

/// The speed of the memory of `node`, seen from the nodes that reach it best; unknown if no such
/// node has CPUs.
pub(super) fn of(root: &Root, node: NodeId, nodes: &[NumaNode]) -> Option<MemoryPerformance> {
    ACCESS_CLASSES
        .into_iter()
        .find_map(|class| of_class(root, &format!("{NODES}/node{node}/{class}/initiators"), nodes))
}

fn of_class(root: &Root, folder: &str, nodes: &[NumaNode]) -> Option<MemoryPerformance> {
    let initiators = root.numbered(folder, "node");
    let is_initiator = |node: &&NumaNode| initiators.contains(&node.id.0);
    let from = nodes.iter().filter(is_initiator).fold(CpuSet::new(), |all, node| all.union(&node.cpus));
    // The kernel writes 0 for a figure that the table does not have.
    let figure = |file| root.value::<u64>(&format!("{folder}/{file}")).filter(|figure| *figure > 0);
    let performance = MemoryPerformance {
        read_bandwidth: figure("read_bandwidth").and_then(megabytes_per_second),
        write_bandwidth: figure("write_bandwidth").and_then(megabytes_per_second),
        read_latency: figure("read_latency"),
        write_latency: figure("write_latency"),
        from,
    };
    (!performance.from.is_empty() && performance.is_known()).then_some(performance)
}

/// The unit of the kernel's bandwidths.
fn megabytes_per_second(megabytes: u64) -> Option<Bandwidth> {
    megabytes.checked_mul(8_000_000).map(Bandwidth::bits_per_second)
}

/// Class 1 has processors alone among its initiators; class 0, the only one of older kernels, has
/// the best initiators of any kind, as a graphics device may be.
const ACCESS_CLASSES: [&str; 2] = ["access1", "access0"];
