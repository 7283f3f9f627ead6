//! The names of blocks, and of the parties that a node knows.

use rails_array::{BlockIndex, BlockRange, Layout, PartitionIndex, QueryError, Region, Selection};
use std::sync::Arc;

/// A dataset that a node caches, numbered by the node's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatasetId(pub u32);

/// A version of a dataset's source. Blocks of two generations are different blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// A block of one generation of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The dataset.
    pub dataset: DatasetId,
    /// The generation of the dataset.
    pub generation: Generation,
    /// The block's number in the dataset's layout.
    pub index: BlockIndex,
}

/// The memory of one application for one dataset, numbered by the node in the order of
/// declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetId(pub(crate) u32);

/// A node or a storage that blocks come from, numbered by the node's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(pub u32);

/// A node that asks this one for blocks, numbered by the node's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DownstreamId(pub u32);

/// A request, numbered by the node in the order of arrival: a smaller number is an older request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u64);

/// A dataset as a node sees it: blocks of known length, in partitions.
#[derive(Debug, Clone)]
pub(crate) struct Dataset {
    pub(crate) generation: Generation,
    layout: Arc<dyn Layout>,
    element_bytes: u32,
    slot_bytes: u32,
}

impl Dataset {
    pub(crate) fn new(layout: Arc<dyn Layout>, generation: Generation, element_bytes: u32, slot_bytes: u32) -> Self {
        Self { generation, layout, element_bytes, slot_bytes }
    }

    pub(crate) fn blocks_of(&self, region: &Region) -> Result<BlockRange, QueryError> {
        self.layout.blocks_of(region)
    }

    pub(crate) fn blocks_of_selection(&self, selection: &Selection) -> Result<BlockRange, QueryError> {
        // Blocks of a box cost a third of those of its steps.
        if selection.steps().iter().all(|step| *step == 1) {
            return self.layout.blocks_of(selection.bounds());
        }
        self.layout.blocks_of_selection(selection)
    }

    pub(crate) fn bytes_of(&self, selection: &Selection) -> u64 {
        selection.elements().saturating_mul(u64::from(self.element_bytes))
    }

    /// Checks a number that comes from outside.
    pub(crate) fn check(&self, index: BlockIndex) -> Result<(), QueryError> {
        self.layout.block(index.0).map(drop)
    }

    /// The slots that a block takes, one at least.
    pub(crate) fn slots_of(&self, index: BlockIndex) -> u32 {
        let slots = self.slots_for(self.layout.elements_of(index));
        u32::try_from(slots).expect("no block is larger than the largest, which a node has checked")
    }

    /// The slots of the largest block.
    pub(crate) fn max_slots(&self) -> u64 {
        self.slots_for(self.layout.max_elements())
    }

    fn slots_for(&self, elements: u64) -> u64 {
        let bytes = elements.saturating_mul(u64::from(self.element_bytes));
        bytes.div_ceil(u64::from(self.slot_bytes)).max(1)
    }

    pub(crate) fn partition_of(&self, index: BlockIndex) -> PartitionIndex {
        self.layout.partition_of(index)
    }
}
