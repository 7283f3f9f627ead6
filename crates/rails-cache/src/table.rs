//! The blocks that hold slots. A block that is not in the table is empty.

use crate::{
    block::{BlockId, BudgetId},
    list::{Linked, Links},
    slots::SlotChain,
};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// A block that holds slots.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) block: BlockId,
    pub(crate) chain: SlotChain,
    pub(crate) budget: BudgetId,
    /// The readers that are copying the block.
    pub(crate) pins: u32,
    pub(crate) state: State,
    pub(crate) place: Place,
    /// Whether the block came, or is to come, before a reader asked for it.
    pub(crate) is_ahead: bool,
    /// Whether a reader has asked for the block since.
    pub(crate) is_used: bool,
    /// Whether nobody is expected to use the block again.
    pub(crate) is_passed: bool,
    links: Links,
}

/// A held block's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    /// An upstream was asked for the block.
    InTransit,
    /// The block's bytes are in its slots.
    Cached,
}

/// An entry's place in the order of reclamation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// None: the block is in transit, or pinned.
    Outside,
    /// Among the blocks of a partition.
    Group(u32),
    /// Among blocks that nobody is expected to use again.
    Passed,
    /// Among blocks whose next use, as a position in the future, is expected.
    Expected(u64),
}

/// Every held block, found by its name. An entry keeps its index until it is removed.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    by_block: HashTable<u32>,
    hasher: FixedState,
}

impl Table {
    /// A table whose hashes depend on the seed, so that no peer can choose blocks that collide.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            entries: Vec::new(),
            vacant: Vec::new(),
            by_block: HashTable::new(),
            hasher: FixedState::with_seed(seed),
        }
    }

    pub(crate) fn find(&self, block: &BlockId) -> Option<u32> {
        let is_it = |entry: &u32| self.entries[*entry as usize].block == *block;
        self.by_block.find(self.hasher.hash_one(block), is_it).copied()
    }

    /// Adds a block, which must not be there.
    pub(crate) fn insert(&mut self, block: BlockId, chain: SlotChain, budget: BudgetId, state: State) -> u32 {
        let (place, links) = (Place::Outside, Links::NONE);
        let new = Entry {
            block,
            chain,
            budget,
            pins: 0,
            state,
            place,
            is_ahead: false,
            is_used: false,
            is_passed: false,
            links,
        };
        let entry = match self.vacant.pop() {
            Some(entry) => {
                self.entries[entry as usize] = new;
                entry
            }
            None => {
                self.entries.push(new);
                u32::try_from(self.entries.len() - 1).expect("entries hold a slot each, which u32 numbers")
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        let hash = |entry: &u32| hasher.hash_one(entries[*entry as usize].block);
        self.by_block.insert_unique(self.hasher.hash_one(block), entry, hash);
        entry
    }

    /// Removes an entry that is in no list, and returns its slots.
    pub(crate) fn remove(&mut self, entry: u32) -> SlotChain {
        let Entry { block, chain, .. } = self.entries[entry as usize];
        let found = self.by_block.find_entry(self.hasher.hash_one(block), |other| *other == entry);
        found.expect("an entry is found until it is removed").remove();
        self.vacant.push(entry);
        chain
    }

    pub(crate) fn get(&self, entry: u32) -> &Entry {
        &self.entries[entry as usize]
    }

    pub(crate) fn get_mut(&mut self, entry: u32) -> &mut Entry {
        &mut self.entries[entry as usize]
    }

    /// Every entry, in no order that means anything.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.by_block.iter().map(|entry| &self.entries[*entry as usize])
    }
}

impl Linked for Table {
    #[cfg(any(test, feature = "internals"))]
    fn links(&self, element: u32) -> Links {
        self.entries[element as usize].links
    }

    fn links_mut(&mut self, element: u32) -> &mut Links {
        &mut self.entries[element as usize].links
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{DatasetId, Generation};
    use rails_array::BlockIndex;
    use std::mem::size_of;

    #[test]
    fn a_block_is_found_until_it_is_removed() {
        let mut table = Table::new(1);
        let block = |index| BlockId { dataset: DatasetId(0), generation: Generation(0), index: BlockIndex(index) };
        let entries: Vec<u32> =
            (0..1000).map(|index| table.insert(block(index), SlotChain::NONE, BudgetId(0), State::Cached)).collect();
        for (index, entry) in (0..).zip(&entries) {
            assert_eq!(table.find(&block(index)), Some(*entry));
        }
        table.remove(entries[7]);
        assert_eq!((table.find(&block(7)), table.iter().count()), (None, 999));
        assert_eq!(table.insert(block(1000), SlotChain::NONE, BudgetId(0), State::Cached), entries[7]);
        assert_eq!(table.find(&block(7)), None);
    }

    #[test]
    fn an_entry_fits_a_cache_line() {
        assert!(size_of::<Entry>() <= 64, "{} bytes", size_of::<Entry>());
    }
}
