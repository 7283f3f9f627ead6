//! Partitions: boxes of blocks, which are placed on nodes and ordered by their last use as one.

use crate::{
    block_range::{BlockIndex, BlockRange},
    grid::{BlockGrid, GridError},
    region::Region,
    shape::Shape,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a partition in its layout. Those of a grid are counted in C order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionIndex(pub u64);

/// The blocks of a grid, divided into boxes of blocks. Partitions at the upper edges are cut.
///
/// ```
/// use rails_array::{BlockIndex, PartitionIndex, Partitioning, Shape};
///
/// let partitions = Partitioning::new(&Shape::new([16, 2, 6])?, Partitioning::DEFAULT_BLOCKS)?;
/// assert_eq!(partitions.counts().to_string(), "4x1x2");
/// assert_eq!(partitions.partition_of(BlockIndex(5)), PartitionIndex(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Partitioning {
    /// The grid whose elements are blocks.
    grid: BlockGrid,
}

impl Partitioning {
    /// The number of blocks of a partition along each axis, where none is chosen.
    pub const DEFAULT_BLOCKS: u64 = 4;

    /// Partitions of `blocks` blocks along each axis. `counts` are the blocks along each axis.
    ///
    /// # Errors
    /// [`GridError::Extent`] for partitions without blocks.
    pub fn new(counts: &Shape, blocks: u64) -> Result<Self, GridError> {
        // No more than there are, so that many short axes do not multiply to more than fits.
        let cell = counts.extents().iter().map(|count| blocks.min(*count.max(&1))).collect();
        Self::with_shape(counts, Shape::from_checked(cell))
    }

    /// Partitions of that many blocks along each axis. `counts` are the blocks along each axis.
    ///
    /// # Errors
    /// [`GridError`] if the ranks differ, and for partitions without blocks.
    pub fn with_shape(counts: &Shape, partition_shape: Shape) -> Result<Self, GridError> {
        Ok(Self { grid: BlockGrid::new(Region::whole(counts), partition_shape)? })
    }

    /// The number of partitions along each axis.
    pub fn counts(&self) -> &Shape {
        self.grid.counts()
    }

    /// The number of blocks along each axis of a partition that is not cut by an edge.
    pub fn partition_shape(&self) -> &Shape {
        self.grid.block_shape()
    }

    /// The number of partitions.
    pub fn partition_count(&self) -> u64 {
        self.grid.block_count()
    }

    /// The partition of a block.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn partition_of(&self, block: BlockIndex) -> PartitionIndex {
        let coordinates = self.grid.region().shape().coordinates_of(block.0);
        let cell = self.grid.block_at(&coordinates).expect("a block of the grid is in a partition");
        PartitionIndex(cell.0)
    }

    /// The blocks of a partition.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn blocks_of(&self, partition: PartitionIndex) -> BlockRange {
        let blocks = self.grid.block_region(BlockIndex(partition.0));
        let strides = self.grid.region().shape().strides();
        BlockRange::of_grid(
            (0..blocks.rank()).map(|axis| (blocks.start()[axis], 1, blocks.shape().extents()[axis], 1, strides[axis])),
        )
    }
}

impl fmt::Display for PartitionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_RANK;
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn partitions_without_blocks_are_refused() {
        let counts = Shape::new([5, 7]).unwrap();
        assert!(matches!(Partitioning::new(&counts, 0), Err(GridError::Extent { axis: 0, .. })));
        assert!(Partitioning::with_shape(&counts, Shape::new([2]).unwrap()).is_err());
    }

    #[test]
    fn many_short_axes_do_not_overflow() {
        let counts = Shape::new([1; MAX_RANK]).unwrap();
        assert_eq!(Partitioning::new(&counts, u64::MAX).unwrap().partition_count(), 1);
    }

    #[test]
    fn no_blocks_have_no_partitions() {
        let counts = Shape::new([5, 0]).unwrap();
        assert_eq!(Partitioning::new(&counts, 4).unwrap().partition_count(), 0);
    }

    proptest! {
        #[test]
        fn each_block_is_in_one_partition(axes in vec((0_u64..9, 1_u64..5), 0..4)) {
            let counts = Shape::new(axes.iter().map(|axis| axis.0)).unwrap();
            let shape = Shape::new(axes.iter().map(|axis| axis.1)).unwrap();
            let partitions = Partitioning::with_shape(&counts, shape.clone()).unwrap();
            let mut seen = vec![false; counts.elements() as usize];
            for partition in (0..partitions.partition_count()).map(PartitionIndex) {
                let blocks = partitions.blocks_of(partition);
                prop_assert!((1..=shape.elements()).contains(&(blocks.len() as u64)));
                for block in blocks {
                    prop_assert_eq!(partitions.partition_of(block), partition);
                    prop_assert!(!std::mem::replace(&mut seen[block.0 as usize], true));
                }
            }
            prop_assert!(seen.iter().all(|seen| *seen));
        }
    }
}
