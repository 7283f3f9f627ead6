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

/// The memory of one application for one dataset, numbered by the node. No two budgets of a node
/// have the same number, even if one has ended before the other was declared.
///
/// The low bits of the number are a seat in the node's list, the others count its budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetId(pub(crate) u32);

impl BudgetId {
    /// The first budget of a seat.
    pub(crate) fn first(seat: usize) -> Self {
        assert!(seat < MAX_BUDGETS, "seats are numbered by a few bits");
        Self(seat as u32)
    }

    /// The next budget of the same seat. `None` once its numbers are used up.
    pub(crate) fn next(self) -> Option<Self> {
        self.0.checked_add(MAX_BUDGETS as u32).map(Self)
    }

    pub(crate) fn seat(self) -> usize {
        self.0 as usize % MAX_BUDGETS
    }
}

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
    /// Whether nobody reads the dataset any more. A few blocks of it may still hold slots.
    pub(crate) is_ended: bool,
    layout: Arc<dyn Layout>,
    element_bytes: u32,
    slot_bytes: u32,
}

impl Dataset {
    pub(crate) fn new(layout: Arc<dyn Layout>, generation: Generation, element_bytes: u32, slot_bytes: u32) -> Self {
        Self { generation, is_ended: false, layout, element_bytes, slot_bytes }
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

/// The budgets that a node has at a time. Some decisions look at all of them.
pub(crate) const MAX_BUDGETS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_seat_differ_until_they_are_used_up() {
        let numbers: Vec<BudgetId> = std::iter::successors(Some(BudgetId::first(3)), |id| id.next()).collect();
        assert_eq!(numbers.len(), 1 << 22);
        assert!(numbers.iter().all(|id| id.seat() == 3) && numbers.is_sorted_by(|one, other| one < other));
    }
}
