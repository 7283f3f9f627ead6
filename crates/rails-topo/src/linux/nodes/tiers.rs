//! The kernel's memory tiers (Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers in the
//! kernel's sources).

use crate::{NodeId, NodeSet, linux::Root};

/// The tiers and their nodes, the fastest first.
pub(super) struct Tiers(Vec<(u32, NodeSet)>);

impl Tiers {
    pub(super) fn read(root: &Root) -> Self {
        let nodes = |tier| Some((tier, root.value(&format!("{TIERS}/{PREFIX}{tier}/nodelist"))?));
        Self(root.numbered(TIERS, PREFIX).into_iter().filter_map(nodes).collect())
    }

    /// The tier of a node; none where two claim it.
    pub(super) fn of(&self, node: NodeId) -> Option<u32> {
        let mut tiers = self.0.iter().filter(|(_, nodes)| nodes.contains(node)).map(|(tier, _)| *tier);
        tiers.next().filter(|_| tiers.next().is_none())
    }
}

const TIERS: &str = "sys/devices/virtual/memory_tiering";
const PREFIX: &str = "memory_tier";
