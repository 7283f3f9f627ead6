//! Nodes that ask this one for blocks, and blocks that are pushed to them before they ask.

use crate::block::{BudgetId, DownstreamId};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rails_array::BlockIndex;
use std::collections::{BTreeMap, VecDeque};

/// What this node knows of the nodes that ask it.
#[derive(Debug, Clone)]
pub(crate) struct Downstreams {
    /// By the node, and the budget that its blocks count against here.
    outlets: BTreeMap<(DownstreamId, BudgetId), Outlet>,
    seed: u64,
}

/// Credit of a node downstream that this node will not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UnusedCredit {
    /// The node that gave the credit.
    pub downstream: DownstreamId,
    /// The budget whose blocks it was for.
    pub budget: BudgetId,
    /// The slots that were promised.
    pub slots: u32,
}

/// The way of one dataset's blocks to one node.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    /// The slots that the node has promised.
    credit: u32,
    /// Slots of blocks that are being sent.
    presenting: u32,
    /// Blocks to push, in this order.
    queue: VecDeque<BlockIndex>,
    held: Digest,
    /// Blocks of these that were pushed, and that the node has not asked for since.
    pushed: Digest,
}

/// The blocks that a node is known to hold: a bit for each, and nothing for 64 blocks in a row
/// without any.
#[derive(Debug, Clone)]
struct Digest {
    words: HashMap<u64, u64, FixedState>,
}

impl Downstreams {
    pub(crate) fn new(seed: u64) -> Self {
        Self { outlets: BTreeMap::new(), seed }
    }

    pub(crate) fn outlet(&mut self, downstream: DownstreamId, budget: BudgetId) -> &mut Outlet {
        let seed = self.seed;
        self.outlets.entry((downstream, budget)).or_insert_with(|| Outlet::new(seed))
    }

    pub(crate) fn known(&mut self, downstream: DownstreamId, budget: BudgetId) -> Option<&mut Outlet> {
        self.outlets.get_mut(&(downstream, budget))
    }

    #[cfg(feature = "internals")]
    pub(crate) fn get(&self, downstream: DownstreamId, budget: BudgetId) -> Option<&Outlet> {
        self.outlets.get(&(downstream, budget))
    }

    pub(crate) fn remove(&mut self, downstream: DownstreamId) {
        self.outlets.retain(|(of, _), _| *of != downstream);
    }

    /// The blocks of a budget have changed: no node holds any of the new ones, nor wants the old.
    pub(crate) fn forget_blocks(&mut self, budget: BudgetId) {
        for outlet in self.outlets.iter_mut().filter(|((_, of), _)| *of == budget).map(|(_, outlet)| outlet) {
            outlet.queue.clear();
            outlet.forget_held();
        }
    }

    /// A block cannot be had: it is pushed to nobody who reads of its dataset, as a budget tells.
    pub(crate) fn forget_block(&mut self, index: BlockIndex, is_of: impl Fn(BudgetId) -> bool) {
        for (_, outlet) in self.outlets.iter_mut().filter(|((_, budget), _)| is_of(*budget)) {
            outlet.queue.retain(|queued| *queued != index);
        }
    }

    /// No block of a budget is pushed any more. Returns the credit that was left for its blocks.
    pub(crate) fn end_budget(&mut self, budget: BudgetId) -> Vec<UnusedCredit> {
        let ended = self.outlets.extract_if(.., |(_, of), _| *of == budget);
        let credit =
            ended.map(|((downstream, budget), outlet)| UnusedCredit { downstream, budget, slots: outlet.credit });
        credit.filter(|credit| credit.slots > 0).collect()
    }

    /// The outlets that have something to push.
    pub(crate) fn busy(&self) -> impl Iterator<Item = (DownstreamId, BudgetId)> + '_ {
        let busy = self.outlets.iter().filter(|(_, outlet)| !outlet.queue.is_empty() && outlet.credit > 0);
        busy.map(|(owner, _)| *owner)
    }
}

impl Outlet {
    fn new(seed: u64) -> Self {
        let digest = || Digest { words: HashMap::with_hasher(FixedState::with_seed(seed)) };
        Self { credit: 0, presenting: 0, queue: VecDeque::new(), held: digest(), pushed: digest() }
    }

    pub(crate) fn credit(&self) -> u32 {
        self.credit
    }

    /// The slots of blocks that are being sent.
    pub(crate) fn presenting(&self) -> u32 {
        self.presenting
    }

    /// A block has been sent.
    pub(crate) fn sent(&mut self, slots: u32) {
        self.presenting -= slots;
    }

    pub(crate) fn add_credit(&mut self, slots: u32) {
        self.credit = self.credit.saturating_add(slots);
    }

    /// Gives up the credit that is left. Returns how much that is.
    pub(crate) fn take_credit(&mut self) -> u32 {
        std::mem::take(&mut self.credit)
    }

    /// Adds blocks to push, as many as an outlet keeps. Returns how many were added.
    pub(crate) fn push_later(&mut self, blocks: impl Iterator<Item = BlockIndex>) -> usize {
        let before = self.queue.len();
        self.queue.extend(blocks.take(MAX_QUEUED - before));
        self.queue.len() - before
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }

    /// Notes whether the node holds a block.
    pub(crate) fn note(&mut self, index: BlockIndex, is_held: bool) {
        if is_held {
            self.held.insert(index);
        } else {
            self.held.remove(index);
            self.pushed.remove(index);
        }
    }

    pub(crate) fn forget_held(&mut self) {
        self.held.words.clear();
        self.pushed.words.clear();
    }

    pub(crate) fn holds(&self, index: BlockIndex) -> bool {
        self.held.contains(index)
    }

    /// Whether a block was pushed to the node. A push is forgotten by that.
    pub(crate) fn take_pushed(&mut self, index: BlockIndex) -> bool {
        let is_pushed = self.pushed.contains(index);
        self.pushed.remove(index);
        is_pushed
    }

    /// The first blocks of the queue that the node does not hold, which are looked at together, so
    /// that several are fetched at a time. Those that it holds leave the queue.
    pub(crate) fn next_blocks(&mut self) -> Vec<BlockIndex> {
        while self.queue.front().is_some_and(|index| self.holds(*index)) {
            self.queue.pop_front();
        }
        self.queue.iter().copied().filter(|index| !self.holds(*index)).take(LOOK_AHEAD).collect()
    }

    /// A block is pushed: it uses credit, leaves the queue, and the node holds it.
    pub(crate) fn push(&mut self, index: BlockIndex, slots: u32) {
        self.credit -= slots;
        self.presenting += slots;
        if let Some(at) = self.queue.iter().take(2 * LOOK_AHEAD).position(|queued| *queued == index) {
            self.queue.remove(at);
        }
        self.held.insert(index);
        self.pushed.insert(index);
    }
}

impl Digest {
    /// Adds a block, unless the digest is full.
    fn insert(&mut self, index: BlockIndex) {
        let (word, bit) = place(index);
        if self.words.len() < MAX_WORDS || self.words.contains_key(&word) {
            *self.words.entry(word).or_default() |= bit;
        }
    }

    fn remove(&mut self, index: BlockIndex) {
        let (word, bit) = place(index);
        if let Some(bits) = self.words.get_mut(&word) {
            *bits &= !bit;
            if *bits == 0 {
                self.words.remove(&word);
            }
        }
    }

    fn contains(&self, index: BlockIndex) -> bool {
        let (word, bit) = place(index);
        self.words.get(&word).is_some_and(|bits| bits & bit != 0)
    }
}

/// The word of a block, and its bit.
fn place(index: BlockIndex) -> (u64, u64) {
    (index.0 / 64, 1 << (index.0 % 64))
}

/// The blocks that an outlet keeps to push: 1 GiB of blocks of 256 KiB.
const MAX_QUEUED: usize = 4096;
/// The blocks that are fetched for a push at a time: 16 MiB of blocks of 256 KiB.
const LOOK_AHEAD: usize = 64;
/// The words of a digest: 16 bytes each, 4 Mi blocks if they lie together.
const MAX_WORDS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_held_are_not_pushed() {
        let mut outlet = Outlet::new(1);
        let blocks = |range: std::ops::Range<u64>| range.map(BlockIndex);
        assert_eq!(outlet.push_later(blocks(60..70)), 10);
        outlet.note(BlockIndex(60), true);
        outlet.note(BlockIndex(65), true);
        let next: Vec<u64> = outlet.next_blocks().into_iter().map(|index| index.0).collect();
        assert_eq!(next, [61, 62, 63, 64, 66, 67, 68, 69]);
        outlet.note(BlockIndex(65), false);
        outlet.add_credit(3);
        outlet.push(BlockIndex(62), 2);
        let next: Vec<u64> = outlet.next_blocks().into_iter().map(|index| index.0).collect();
        assert_eq!((next, outlet.credit()), (vec![61, 63, 64, 65, 66, 67, 68, 69], 1));
    }

    #[test]
    fn what_a_node_can_make_this_one_keep_is_bounded() {
        let mut outlet = Outlet::new(1);
        assert_eq!(outlet.push_later((0..10_000).map(BlockIndex)), MAX_QUEUED);
        (0..100_000).for_each(|word| outlet.note(BlockIndex(word * 64), true));
        assert_eq!(outlet.held.words.len(), MAX_WORDS);
        assert!(outlet.holds(BlockIndex(0)) && !outlet.holds(BlockIndex(99_999 * 64)));
        outlet.add_credit(u32::MAX);
        outlet.add_credit(1);
        assert_eq!((outlet.take_credit(), outlet.credit()), (u32::MAX, 0));
    }
}
