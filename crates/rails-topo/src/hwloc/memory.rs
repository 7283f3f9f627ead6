//! Memory, from hwloc.

use super::{object, sets};
use crate::{Bandwidth, CpuSet, DataSize, Hugepages, MemoryPerformance};
use hwlocality::{
    Topology as Hwloc,
    memory::attribute::{Initiator, MemoryAttribute},
    object::{TopologyObject, attributes::ObjectAttributes},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// The node's pools of huge pages. hwloc lists all sizes of pages, the ordinary one first, and does
/// not count the free ones.
pub(super) fn hugepages(node: &TopologyObject) -> Vec<Hugepages> {
    let Some(ObjectAttributes::NUMANode(attributes)) = node.attributes() else { return Vec::new() };
    let pool = |size: u64, count| Hugepages { size: DataSize::bytes(size), total: Some(count), free: None };
    let pages: BTreeMap<u64, u64> =
        attributes.page_types().iter().map(|page| (page.size().get(), page.count())).collect();
    pages.into_iter().skip(1).map(|(size, count)| pool(size, count)).collect()
}

/// hwloc's rank of the node's memory: 0 is the fastest.
pub(super) fn tier(node: &TopologyObject) -> Option<u32> {
    object::info(node, "MemoryTier")?.parse().ok()
}

/// The speed of the node's memory by initiators, the nearest first.
///
/// Where hwloc knows only an average of reads and writes (all that versions before 2.8 kept), it
/// stands for both.
pub(super) fn performance(hwloc: &Hwloc, node: &TopologyObject) -> Vec<MemoryPerformance> {
    let attributes: [(MemoryAttribute<'_>, Setter); 6] = [
        (MemoryAttribute::read_bandwidth(hwloc), |known, value| known.read_bandwidth = bandwidth(value)),
        (MemoryAttribute::write_bandwidth(hwloc), |known, value| known.write_bandwidth = bandwidth(value)),
        (MemoryAttribute::read_latency(hwloc), |known, value| known.read_latency = Some(value)),
        (MemoryAttribute::write_latency(hwloc), |known, value| known.write_latency = Some(value)),
        (MemoryAttribute::bandwidth(hwloc), |known, value| {
            if known.read_bandwidth.or(known.write_bandwidth).is_none() {
                (known.read_bandwidth, known.write_bandwidth) = (bandwidth(value), bandwidth(value));
            }
        }),
        (MemoryAttribute::latency(hwloc), |known, value| {
            if known.read_latency.or(known.write_latency).is_none() {
                (known.read_latency, known.write_latency) = (Some(value), Some(value));
            }
        }),
    ];
    let mut seen = Vec::new();
    for (attribute, set) in attributes {
        let Ok((initiators, values)) = attribute.initiators(node) else { continue };
        for (initiator, value) in initiators.iter().zip(values) {
            let from = cpus_of(initiator);
            if !from.is_empty() && value > 0 {
                set(of_initiator(&mut seen, from), value);
            }
        }
    }
    seen.retain(MemoryPerformance::is_known);
    seen.sort_by_key(|known| {
        let latency = known.read_latency.or(known.write_latency).unwrap_or(u64::MAX);
        (latency, Reverse(known.read_bandwidth.or(known.write_bandwidth)), known.from.first())
    });
    seen
}

/// Puts an attribute's value where it belongs.
type Setter = fn(&mut MemoryPerformance, u64);

fn cpus_of(initiator: &Initiator<'_>) -> CpuSet {
    match initiator {
        Initiator::CpuSet(cpuset) => sets::cpus(cpuset),
        Initiator::Object(object) => object::cpus_of(object),
    }
}

fn of_initiator(seen: &mut Vec<MemoryPerformance>, from: CpuSet) -> &mut MemoryPerformance {
    let known = seen.iter().position(|performance| performance.from == from);
    let index = known.unwrap_or_else(|| {
        seen.push(MemoryPerformance { from, ..MemoryPerformance::default() });
        seen.len() - 1
    });
    &mut seen[index]
}

/// hwloc's documentation states MiB/s, but on Linux hwloc passes the kernel's figures on, which are
/// in MB/s (10^6 bytes).
fn bandwidth(megabytes_per_second: u64) -> Option<Bandwidth> {
    megabytes_per_second.checked_mul(8_000_000).map(Bandwidth::bits_per_second)
}
