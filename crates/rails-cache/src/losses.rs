//! Blocks that a node has given up, for those who have to tell it upstream.

use rails_array::BlockIndex;

/// The blocks of a dataset that a node has given up since it was asked last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lost {
    /// These blocks, in ascending order.
    Blocks(Vec<BlockIndex>),
    /// More than a node remembers, which is 4,096: any block may be gone.
    Unknown,
}

/// A record of given-up blocks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Losses {
    /// Blocks in the order in which they went; one may have come back, and gone again.
    blocks: Vec<BlockIndex>,
    has_more: bool,
}

impl Losses {
    pub(crate) fn add(&mut self, index: BlockIndex) {
        if self.blocks.len() < MAX_LOST {
            self.blocks.push(index);
        } else {
            self.has_more = true;
        }
    }

    /// The losses of blocks that have not come back.
    pub(crate) fn into_lost(self, is_back: impl Fn(BlockIndex) -> bool) -> Lost {
        let Self { mut blocks, has_more } = self;
        if has_more {
            return Lost::Unknown;
        }
        blocks.sort_unstable();
        blocks.dedup();
        blocks.retain(|index| !is_back(*index));
        Lost::Blocks(blocks)
    }
}

/// 32 KiB of them.
const MAX_LOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_came_back_are_not_told() {
        let mut losses = Losses::default();
        [5, 3, 5, 4].map(BlockIndex).into_iter().for_each(|index| losses.add(index));
        assert_eq!(losses.into_lost(|index| index.0 == 4), Lost::Blocks(vec![BlockIndex(3), BlockIndex(5)]));
    }

    #[test]
    fn too_many_losses_are_unknown() {
        let mut losses = Losses::default();
        (0..4096).for_each(|index| losses.add(BlockIndex(index)));
        assert!(matches!(losses.clone().into_lost(|_| false), Lost::Blocks(blocks) if blocks.len() == 4096));
        losses.add(BlockIndex(0));
        assert_eq!(losses.into_lost(|_| true), Lost::Unknown);
    }
}
