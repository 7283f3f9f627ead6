//! The uses of blocks that a program announced, or that a pattern predicts.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rails_array::BlockIndex;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Expected uses of the blocks of one dataset, in their order.
///
/// A use that does not come although [`MAX_LATER_USES`] that were expected after it have is
/// expected no more: its reader has left it out.
#[derive(Debug, Clone)]
pub(crate) struct Future {
    uses: HashMap<BlockIndex, Uses, FixedState>,
    /// The block of each position from the first that is expected on; none where the use is past.
    line: VecDeque<Option<BlockIndex>>,
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
        let uses = HashMap::with_hasher(FixedState::with_seed(seed));
        Self { uses, line: VecDeque::new(), next_position: 0, expected: 0 }
    }

    /// Expects a use of a block after all others. Returns `false` if [`MAX_EXPECTED`] uses are
    /// expected already.
    pub(crate) fn expect(&mut self, index: BlockIndex) -> bool {
        if self.expected == MAX_EXPECTED {
            return false;
        }
        self.uses.entry(index).or_default().positions.push(self.next_position);
        self.line.push_back(Some(index));
        self.next_position += 1;
        self.expected += 1;
        true
    }

    /// Forgets every expectation. Returns the position of the next one.
    pub(crate) fn forget(&mut self) -> u64 {
        self.uses.clear();
        self.line.clear();
        self.expected = 0;
        self.next_position
    }

    /// The position of a block's next use.
    pub(crate) fn next_use(&self, index: BlockIndex) -> Option<u64> {
        self.uses.get(&index).map(|uses| uses.expected()[0])
    }

    /// Notes a use of a block, which ends the first expectation of one. Returns the blocks whose
    /// next use is expected no more because it was left out.
    pub(crate) fn used(&mut self, index: BlockIndex) -> SmallVec<[BlockIndex; 2]> {
        let mut left_out = SmallVec::new();
        if let Some(position) = self.next_use(index) {
            self.end_first(index);
            let first = self.next_position - self.line.len() as u64;
            self.line[(position - first) as usize] = None;
        }
        while let Some(first) = self.line.front().copied() {
            if let Some(index) = first {
                // The first use is still to come, so that the past ones in the line come after it.
                if self.line.len() - self.expected < MAX_LATER_USES {
                    break;
                }
                self.end_first(index);
                left_out.push(index);
            }
            self.line.pop_front();
        }
        left_out
    }

    fn end_first(&mut self, index: BlockIndex) {
        let uses = self.uses.get_mut(&index).expect("a use in the line is expected of its block");
        if !uses.end_first() {
            self.uses.remove(&index);
        }
        self.expected -= 1;
    }

    /// Blocks in the order of their numbers, and the places of their expected uses in the line;
    /// and the length of the line.
    #[cfg(feature = "internals")]
    pub(crate) fn places(&self) -> (Vec<(u64, Vec<u64>)>, usize) {
        let first = self.next_position - self.line.len() as u64;
        let place = |position: &u64| position - first;
        let mut places: Vec<_> =
            self.uses.iter().map(|(index, uses)| (index.0, uses.expected().iter().map(place).collect())).collect();
        places.sort_unstable();
        (places, self.line.len())
    }
}

/// The uses that a budget keeps: 103 MB of them if each is of another block, and a list of 256 GiB
/// in blocks of 256 KiB.
pub(crate) const MAX_EXPECTED: usize = 1 << 20;
/// Readers that share a list, each with a part of it, may be this far apart: 256 MiB of blocks of
/// 256 KiB. Folklore.
pub(crate) const MAX_LATER_USES: usize = 1024;

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

    #[test]
    fn a_use_that_is_left_out_is_expected_no_more() {
        let mut future = Future::new(0);
        let [skipped, twice] = [5000, 5001].map(BlockIndex);
        assert!([skipped, twice].into_iter().all(|index| future.expect(index)));
        assert!((0..2000).all(|index| future.expect(BlockIndex(index))));
        assert!(future.expect(twice));
        // Uses that nobody expected count for nothing.
        (0..2000).for_each(|_| assert_eq!(future.used(BlockIndex(9000))[..], []));
        for index in 0..1023 {
            assert_eq!(future.used(BlockIndex(index))[..], []);
        }
        assert_eq!((future.next_use(skipped), future.next_use(twice)), (Some(0), Some(1)));
        assert_eq!(future.used(BlockIndex(1023))[..], [skipped, twice]);
        assert_eq!((future.next_use(skipped), future.next_use(twice)), (None, Some(2002)));
        assert_eq!((future.expected, future.line.len()), (2000 - 1024 + 1, 2000 - 1024 + 1));
    }
}
