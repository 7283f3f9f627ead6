//! A machine at a moment, and changes applied to it.

use super::{Change, MemoryBlockSet, apply::apply, differ::differ};
use crate::Topology;
use serde::{Deserialize, Serialize};

/// A machine at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// The machine's model.
    pub topology: Topology,
    /// The online memory blocks; `None` if the kernel has no such blocks.
    pub memory_blocks: Option<MemoryBlockSet>,
}

impl Snapshot {
    /// Applies a change. A change of an object that the model does not have changes nothing.
    ///
    /// A CPU that goes offline leaves the online and the allowed ones; packages, cores and caches
    /// follow when the machine is read again.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::MemoryBlockOffline { block } => {
                if let Some(blocks) = &mut self.memory_blocks {
                    blocks.remove(*block);
                }
            }
            Change::MemoryBlockOnline { block } => {
                self.memory_blocks.get_or_insert_default().insert(*block);
            }
            change => apply(&mut self.topology, change),
        }
    }

    /// The changes from here to `later`.
    pub fn changes_to(&self, later: &Self) -> Vec<Change> {
        let empty = MemoryBlockSet::new();
        let [old, new] = [self, later].map(|snapshot| snapshot.memory_blocks.as_ref().unwrap_or(&empty));
        let offline = old.difference(new);
        let online = new.difference(old);
        let blocks = offline
            .iter()
            .map(|block| Change::MemoryBlockOffline { block })
            .chain(online.iter().map(|block| Change::MemoryBlockOnline { block }));
        blocks.chain(differ(&self.topology, &later.topology)).collect()
    }
}
