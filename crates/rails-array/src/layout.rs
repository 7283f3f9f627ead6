//! Layouts: how the elements of a dataset are divided into blocks, and blocks into partitions.

use crate::{
    block_range::{BlockIndex, BlockRange},
    grid::{BlockGrid, GridError, QueryError},
    partition::{PartitionIndex, Partitioning},
    region::Region,
    selection::Selection,
    shape::Shape,
};
use std::fmt;

/// A division of a dataset into numbered blocks, and of those into numbered partitions.
///
/// [`Grid`] is the one of arrays. Another could hold the points of an unstructured mesh, divided by
/// a tree of boxes; regions are asked about in the coordinates of the dataset.
pub trait Layout: fmt::Debug + Send + Sync {
    /// The number of blocks. They are numbered from 0.
    fn block_count(&self) -> u64;

    /// The number of elements of a block.
    ///
    /// # Panics
    /// If there is no such block.
    fn elements_of(&self, block: BlockIndex) -> u64;

    /// The number of partitions. They are numbered from 0.
    fn partition_count(&self) -> u64;

    /// The partition of a block.
    ///
    /// # Panics
    /// If there is no such block.
    fn partition_of(&self, block: BlockIndex) -> PartitionIndex;

    /// The blocks that hold elements of a region.
    ///
    /// # Errors
    /// [`QueryError`] for a region that is none of this dataset's.
    fn blocks_of(&self, region: &Region) -> Result<BlockRange, QueryError>;

    /// The blocks that hold selected elements.
    ///
    /// # Errors
    /// [`QueryError`] for a selection that is none of this dataset's.
    fn blocks_of_selection(&self, selection: &Selection) -> Result<BlockRange, QueryError>;

    /// The block of that number: the check of a number that comes from outside.
    ///
    /// # Errors
    /// [`QueryError::NoBlock`] if there is none.
    fn block(&self, number: u64) -> Result<BlockIndex, QueryError> {
        let count = self.block_count();
        if number < count { Ok(BlockIndex(number)) } else { Err(QueryError::NoBlock { number, count }) }
    }
}

/// The layout of an array: a grid of blocks, and boxes of blocks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grid {
    blocks: BlockGrid,
    partitions: Partitioning,
}

impl Grid {
    /// The layout with partitions of [`Partitioning::DEFAULT_BLOCKS`] blocks along each axis.
    pub fn new(blocks: BlockGrid) -> Self {
        let partitions = Partitioning::new(blocks.counts(), Partitioning::DEFAULT_BLOCKS);
        Self { partitions: partitions.expect("a partition has blocks"), blocks }
    }

    /// The layout with partitions of that many blocks along each axis.
    ///
    /// # Errors
    /// [`GridError`] if the ranks differ, and for partitions without blocks.
    pub fn with_partitions(blocks: BlockGrid, partition_shape: Shape) -> Result<Self, GridError> {
        Ok(Self { partitions: Partitioning::with_shape(blocks.counts(), partition_shape)?, blocks })
    }

    /// The blocks.
    pub fn blocks(&self) -> &BlockGrid {
        &self.blocks
    }

    /// The partitions.
    pub fn partitions(&self) -> &Partitioning {
        &self.partitions
    }

    /// The number of partitions along each axis that hold a box of that shape, if its corner is a
    /// partition's: a typical read, as [`Cyclic`](crate::Cyclic) wants to know it.
    ///
    /// # Errors
    /// [`QueryError::Rank`] if the ranks differ.
    pub fn partitions_of(&self, shape: &Shape) -> Result<Shape, QueryError> {
        let (rank, asked) = (self.blocks.counts().rank(), shape.rank());
        if asked != rank {
            return Err(QueryError::Rank { asked, rank });
        }
        let blocks = self.blocks.block_shape().extents().iter().zip(self.partitions.partition_shape().extents());
        let extents = shape.extents().iter().zip(blocks);
        Ok(Shape::from_checked(
            extents.map(|(extent, (block, count))| extent.div_ceil(*block).div_ceil(*count)).collect(),
        ))
    }
}

impl Layout for Grid {
    fn block_count(&self) -> u64 {
        self.blocks.block_count()
    }

    fn elements_of(&self, block: BlockIndex) -> u64 {
        self.blocks.block_region(block).elements()
    }

    fn partition_count(&self) -> u64 {
        self.partitions.partition_count()
    }

    fn partition_of(&self, block: BlockIndex) -> PartitionIndex {
        self.partitions.partition_of(block)
    }

    fn blocks_of(&self, region: &Region) -> Result<BlockRange, QueryError> {
        self.blocks.blocks_of(region)
    }

    fn blocks_of_selection(&self, selection: &Selection) -> Result<BlockRange, QueryError> {
        self.blocks.blocks_of_selection(selection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_a_layout() {
        let array = Region::whole(&Shape::new([64, 361, 540]).unwrap());
        let blocks = BlockGrid::new(array.clone(), Shape::new([1, 91, 135]).unwrap()).unwrap();
        let layout: Box<dyn Layout> = Box::new(Grid::new(blocks.clone()));
        assert_eq!((layout.block_count(), layout.partition_count()), (64 * 16, 16));
        assert_eq!(layout.elements_of(BlockIndex(0)), 91 * 135);
        assert_eq!(layout.elements_of(BlockIndex(15)), 88 * 135);
        assert_eq!(layout.partition_of(BlockIndex(64)), PartitionIndex(1));
        assert_eq!(layout.blocks_of(&array).unwrap().len(), 64 * 16);
        let every_other = Selection::new(array, [2, 1, 1]).unwrap();
        assert_eq!(layout.blocks_of_selection(&every_other).unwrap().len(), 32 * 16);
        assert_eq!(layout.block(1023), Ok(BlockIndex(1023)));
        assert_eq!(layout.block(1024), Err(QueryError::NoBlock { number: 1024, count: 1024 }));
        assert!(Grid::with_partitions(blocks, Shape::new([1, 1]).unwrap()).is_err());
    }

    #[test]
    fn a_typical_read_is_counted_in_partitions() {
        let array = Region::whole(&Shape::new([64, 361, 540]).unwrap());
        let grid = Grid::new(BlockGrid::new(array, Shape::new([1, 30, 30]).unwrap()).unwrap());
        assert_eq!(grid.partitions_of(&Shape::new([5, 120, 1]).unwrap()), Ok(Shape::new([2, 1, 1]).unwrap()));
        assert!(grid.partitions_of(&Shape::new([5]).unwrap()).is_err());
    }
}
