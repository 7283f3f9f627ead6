//! Lists of blocks and regions, and their division among frames.

use super::limits::{MAX_BLOCKS, MAX_FRAME_BYTES, MAX_REGIONS, MAX_RUNS};
use rails_array::{BlockIndex, Region};
use serde::{Deserialize, Serialize};

/// Blocks with numbers that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The first block.
    pub first: BlockIndex,
    /// The number of blocks.
    pub count: u32,
}

impl Run {
    /// The blocks, in ascending order. A run that a decoder has refused may lack its last blocks.
    pub fn blocks(self) -> impl Iterator<Item = BlockIndex> + Clone {
        (self.first.0..self.first.0.saturating_add(self.count.into())).map(BlockIndex)
    }

    /// Whether the number behind the last block fits 64 bits.
    pub(super) fn has_end(self) -> bool {
        self.first.0.checked_add(self.count.into()).is_some()
    }
}

/// The number of blocks in a list.
pub fn count(runs: &[Run]) -> u64 {
    runs.iter().map(|run| u64::from(run.count)).sum()
}

/// The runs of blocks in their order: a block whose number follows that of the block before it
/// joins its run. The list may be too long for one frame: see [`split_runs`].
///
/// ```
/// use rails_array::BlockIndex;
/// use rails_lambdaram::wire::{Run, runs_of};
///
/// let runs = runs_of([7, 8, 9, 3].map(BlockIndex));
/// assert_eq!(runs, [Run { first: BlockIndex(7), count: 3 }, Run { first: BlockIndex(3), count: 1 }]);
/// ```
pub fn runs_of(blocks: impl IntoIterator<Item = BlockIndex>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.first.0.checked_add(run.count.into()) == Some(block.0) && run.count < u32::MAX => {
                run.count += 1;
            }
            _ => runs.push(Run { first: block, count: 1 }),
        }
    }
    runs
}

/// Divides a list among frames: each part has at most [`MAX_RUNS`] runs and [`MAX_BLOCKS`] blocks,
/// and is not empty. A run that does not fit is cut.
pub fn split_runs(runs: &[Run]) -> impl Iterator<Item = Vec<Run>> + '_ {
    let mut rest = runs.iter().copied();
    let mut next = rest.next();
    std::iter::from_fn(move || {
        let (mut part, mut room) = (Vec::new(), MAX_BLOCKS as u32);
        while let Some(run) = next
            && room > 0
            && part.len() < MAX_RUNS
        {
            let count = run.count.min(room);
            part.push(Run { first: run.first, count });
            room -= count;
            next = if count < run.count {
                Some(Run { first: BlockIndex(run.first.0.saturating_add(count.into())), count: run.count - count })
            } else {
                rest.next()
            };
        }
        (!part.is_empty()).then_some(part)
    })
}

/// Divides regions among frames: each part has at most [`MAX_REGIONS`] regions, fits
/// [`MAX_FRAME_BYTES`], and is not empty.
pub fn split_regions(regions: &[Region]) -> impl Iterator<Item = &[Region]> {
    let mut rest = regions;
    std::iter::from_fn(move || {
        let mut room = MAX_FRAME_BYTES - INTEND_BYTES;
        let fits = |region: &&Region| {
            let bytes = encoded_bytes(region);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let part = rest.iter().take(MAX_REGIONS).take_while(fits).count();
        let (part, behind) = rest.split_at(part);
        rest = behind;
        (!part.is_empty()).then_some(part)
    })
}

/// The size of an encoded region: two lists of numbers, each behind a byte for the number of axes.
fn encoded_bytes(region: &Region) -> usize {
    let numbers = region.start().iter().chain(region.shape().extents());
    // Postcard's numbers have seven bits a byte.
    2 + numbers.map(|number| (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize).sum::<usize>()
}

/// Room for the bytes before the regions in an `Intend`: its kind, its number, the handle and the
/// number of regions.
const INTEND_BYTES: usize = 16;
