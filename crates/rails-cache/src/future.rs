//! The uses of blocks that a program announced, or that a pattern predicts.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rails_array::BlockIndex;
use smallvec::SmallVec;

/// Expected uses of the blocks of one dataset, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Future {
    uses: HashMap<BlockIndex, Uses, FixedState>,
    next_position: u64,
    expected: usize,
}

/// The expected uses of one block.
#[derive(Debug, Clone, Default)]
struct Uses {
    /// Their positions, in order, behind some that are past.
    positions: SmallVec<[u64; 2]>,
    past: u32,
}

impl Uses {
    fn expected(&self) -> &[u64] {
        &self.positions[self.past as usize..]
    }

    /// Ends the first. Returns whether there are others.
    fn end_first(&mut self) -> bool {
        self.past += 1;
        let past = self.past as usize;
        // A position moves once on average, however many there are.
        if 2 * past > self.positions.len() {
            self.positions.drain(..past);
            self.past = 0;
        }
        !self.positions.is_empty()
    }
}

impl Future {
    pub(crate) fn new(seed: u64) -> Self {
        Self { uses: HashMap::with_hasher(FixedState::with_seed(seed)), next_position: 0, expected: 0 }
    }

    /// Expects a use of a block after all others. Returns `false` if [`MAX_EXPECTED`] uses are
    /// expected already.
    pub(crate) fn expect(&mut self, index: BlockIndex) -> bool {
        if self.expected == MAX_EXPECTED {
            return false;
        }
        self.uses.entry(index).or_default().positions.push(self.next_position);
        self.next_position += 1;
        self.expected += 1;
        true
    }

    /// The position of a block's next use.
    pub(crate) fn next_use(&self, index: BlockIndex) -> Option<u64> {
        self.uses.get(&index).map(|uses| uses.expected()[0])
    }

    /// Notes a use of a block, which ends the first expectation of one.
    pub(crate) fn used(&mut self, index: BlockIndex) {
        let Some(uses) = self.uses.get_mut(&index) else { return };
        if !uses.end_first() {
            self.uses.remove(&index);
        }
        self.expected -= 1;
    }

    /// Blocks in the order of their numbers, and the ranks of their expected uses.
    #[cfg(feature = "internals")]
    pub(crate) fn ranked(&self) -> Vec<(u64, Vec<usize>)> {
        let mut positions: Vec<u64> = self.uses.values().flat_map(Uses::expected).copied().collect();
        positions.sort_unstable();
        let rank = |position: &u64| positions.binary_search(position).expect("every position is among them");
        let mut ranked: Vec<_> =
            self.uses.iter().map(|(index, uses)| (index.0, uses.expected().iter().map(rank).collect())).collect();
        ranked.sort_unstable();
        ranked
    }
}

/// The uses that a budget keeps: 86 MB of them if each is of another block, and a list of 256 GiB
/// in blocks of 256 KiB.
pub(crate) const MAX_EXPECTED: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_forgotten_in_order_once_seen() {
        let [seven, eight, nine] = [7, 8, 9].map(BlockIndex);
        let mut future = Future::new(0);
        assert!([seven, eight, seven].into_iter().all(|index| future.expect(index)));
        let next = |future: &Future| [seven, eight, nine].map(|index| future.next_use(index));
        assert_eq!(next(&future), [Some(0), Some(1), None]);
        future.used(seven);
        future.used(nine);
        assert_eq!(next(&future), [Some(2), Some(1), None]);
        future.used(seven);
        assert_eq!(next(&future), [None, Some(1), None]);
    }

    #[test]
    fn many_uses_of_one_block_end_in_their_order() {
        let mut future = Future::new(0);
        let mut used = 0;
        for position in 0..1000 {
            assert!(future.expect(BlockIndex(0)));
            if position % 3 > 0 {
                assert_eq!(future.next_use(BlockIndex(0)), Some(used));
                future.used(BlockIndex(0));
                used += 1;
            }
        }
        for used in used..1000 {
            assert_eq!(future.next_use(BlockIndex(0)), Some(used));
            future.used(BlockIndex(0));
        }
        assert_eq!(future.next_use(BlockIndex(0)), None);
    }

    #[test]
    fn expectations_are_bounded() {
        let mut future = Future::new(0);
        assert!((0..MAX_EXPECTED as u64).all(|index| future.expect(BlockIndex(index % 4096))));
        assert!(!future.expect(BlockIndex(0)));
        future.used(BlockIndex(1));
        assert!(future.expect(BlockIndex(0)) && !future.expect(BlockIndex(0)));
    }
}
