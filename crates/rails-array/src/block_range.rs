//! Ranges of blocks: those that a region or a selection touches, as an iterator.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::{fmt, iter::FusedIterator};

/// The number of a block in its layout. Those of a grid are counted in C order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockIndex(pub u64);

/// Blocks of a layout in ascending order, as an iterator over those that are still to come.
///
/// A range takes as much memory as the array has axes, however many blocks there are, and is not
/// allocated for up to four axes. Its length is exact, and [`contains`](Self::contains) takes time
/// for each axis only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BlockRange {
    axes: SmallVec<[Axis; 4]>,
    /// The block that comes next, if one remains.
    next: u64,
    remaining: u64,
}

/// The blocks that a range takes of one axis of a grid: the ones at `(offset + k * step) / block`,
/// for each `k` below `count`.
///
/// No two of them are alike, because a step is at least as long as a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Axis {
    /// The first coordinate that is wanted, from the grid's origin.
    offset: u64,
    step: u64,
    block: u64,
    count: u64,
    /// The distance of the numbers of blocks that are neighbours on this axis.
    stride: u64,
    /// The `k` of the block that comes next.
    at: u64,
}

impl BlockRange {
    /// The range of the blocks of a grid that lie on every axis at one of the coordinates
    /// `offset + k * step`, for each `k` below `count`. `axes` has offset, step, count, the extent
    /// of a block, and the distance of neighbours.
    pub(crate) fn of_grid(axes: impl Iterator<Item = (u64, u64, u64, u64, u64)>) -> Self {
        let axes: SmallVec<[Axis; 4]> = axes.map(Axis::new).collect();
        let remaining = axes.iter().map(|axis| axis.count).product();
        let next = axes.iter().map(Axis::contribution).sum();
        Self { axes, next, remaining }
    }

    /// The range without blocks.
    pub fn empty() -> Self {
        Self { axes: SmallVec::new(), next: 0, remaining: 0 }
    }

    /// The block that comes next.
    pub fn first(&self) -> Option<BlockIndex> {
        (self.remaining > 0).then_some(BlockIndex(self.next))
    }

    /// Whether the block is still to come.
    pub fn contains(&self, block: BlockIndex) -> bool {
        if self.remaining == 0 || block.0 < self.next {
            return false;
        }
        let mut rest = block.0;
        self.axes.iter().all(|axis| {
            let coordinate = rest / axis.stride;
            rest %= axis.stride;
            axis.has(coordinate)
        }) && rest == 0
    }
}

impl Iterator for BlockRange {
    type Item = BlockIndex;

    fn next(&mut self) -> Option<BlockIndex> {
        let block = self.first()?;
        self.remaining -= 1;
        if self.remaining > 0 {
            for axis in self.axes.iter_mut().rev() {
                self.next -= axis.contribution();
                let is_last = axis.at + 1 == axis.count;
                axis.at = if is_last { 0 } else { axis.at + 1 };
                self.next += axis.contribution();
                if !is_last {
                    break;
                }
            }
        }
        Some(block)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.remaining) {
            Ok(remaining) => (remaining, Some(remaining)),
            Err(_) => (usize::MAX, None),
        }
    }
}

/// On machines whose `usize` is smaller, [`len`](Self::len) panics for a range that does not fit
/// it.
impl ExactSizeIterator for BlockRange {}

impl FusedIterator for BlockRange {}

impl fmt::Debug for BlockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first() {
            Some(first) => write!(f, "BlockRange({} blocks from {first})", self.remaining),
            None => f.write_str("BlockRange(no block)"),
        }
    }
}

impl Axis {
    fn new((offset, step, count, block, stride): (u64, u64, u64, u64, u64)) -> Self {
        if count == 0 || step > block {
            return Self { offset, step, block, count, stride, at: 0 };
        }
        // Steps that leave out no block are made as long as a block.
        let (first, last) = (offset / block, (offset + (count - 1) * step) / block);
        Self { offset: first * block, step: block, block, count: last - first + 1, stride, at: 0 }
    }

    /// The coordinate of the next block in the grid.
    fn coordinate(&self, at: u64) -> u64 {
        if self.step == self.block {
            self.offset / self.block + at
        } else {
            (self.offset + at * self.step) / self.block
        }
    }

    /// The next block's coordinate as a part of its number.
    fn contribution(&self) -> u64 {
        self.coordinate(self.at) * self.stride
    }

    fn has(&self, coordinate: u64) -> bool {
        let Some(begin) = coordinate.checked_mul(self.block) else { return false };
        // The first one that does not lie before the block.
        let at = begin.saturating_sub(self.offset).div_ceil(self.step);
        at < self.count && self.coordinate(at) == coordinate
    }
}

impl fmt::Display for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
