//! Sets of CPUs and nodes, from hwloc's bitmaps.

use crate::{CpuId, CpuSet, NodeId, NodeSet};
use hwlocality::bitmap::BitmapIndex;

pub(super) fn cpus(bitmap: &hwlocality::cpu::cpuset::CpuSet) -> CpuSet {
    numbers(bitmap.iter_set()).map(CpuId).collect()
}

pub(super) fn node_set(bitmap: &hwlocality::memory::nodeset::NodeSet) -> NodeSet {
    numbers(bitmap.iter_set()).map(NodeId).collect()
}

/// hwloc's bitmaps may be infinite.
fn numbers(bits: impl Iterator<Item = BitmapIndex>) -> impl Iterator<Item = u32> {
    bits.take(MAX_BITS).map(|index| usize::from(index) as u32)
}

/// The most CPUs or nodes that a set takes from text.
const MAX_BITS: usize = 1 << 20;
