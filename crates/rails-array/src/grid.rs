//! Block grids: a region of an array, cut into blocks.

use crate::{
    block_range::{BlockIndex, BlockRange},
    region::Region,
    selection::Selection,
    shape::{PerAxis, Shape},
};

/// A region cut into blocks of one shape, from the region's own corner on.
///
/// The region may be a whole array, or a view: a part of an array that is read again and again, and
/// so has blocks that begin where it begins. All coordinates are the array's own. A block at an
/// upper edge of the region is cut there, not padded.
///
/// ```
/// use rails_array::{BlockGrid, BlockIndex, Region, Shape};
///
/// let basin = Region::new([0, 100, 200], Shape::new([64, 100, 150])?)?;
/// let grid = BlockGrid::new(basin, Shape::new([4, 100, 100])?)?;
/// assert_eq!(grid.block_count(), 32);
/// assert_eq!(grid.block_region(BlockIndex(3)).to_string(), "[4:8, 100:200, 300:350]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BlockGrid {
    region: Region,
    block_shape: Shape,
    /// The number of blocks along each axis.
    counts: Shape,
    /// The distance of the numbers of neighbours.
    strides: PerAxis,
}

/// An error in the shape of a grid's cells, blocks or partitions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// The ranks differ.
    #[error("cells of {cell} do not fit a grid of {rank} axes")]
    Rank {
        /// The shape of a cell.
        cell: Shape,
        /// The number of axes of the grid.
        rank: usize,
    },
    /// A cell has no extent along an axis.
    #[error("cells of {cell} have no extent along axis {axis}")]
    Extent {
        /// The axis.
        axis: usize,
        /// The shape of a cell.
        cell: Shape,
    },
}

/// A question that does not fit the layout that is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The ranks differ.
    #[error("blocks of {rank} axes were asked about {asked} axes")]
    Rank {
        /// The number of axes asked about.
        asked: usize,
        /// The number of axes of the blocks.
        rank: usize,
    },
    /// There is no element with these coordinates.
    #[error("coordinate {coordinate} of axis {axis} lies outside {region}")]
    Outside {
        /// The axis.
        axis: usize,
        /// The coordinate.
        coordinate: u64,
        /// The region that is cut into blocks, in the syntax of slices.
        region: String,
    },
    /// There is no block of that number.
    #[error("there is no block {number} among {count} blocks")]
    NoBlock {
        /// The number.
        number: u64,
        /// The number of blocks.
        count: u64,
    },
}

impl BlockGrid {
    /// The region, cut into blocks of that shape, which may be larger than the region.
    ///
    /// # Errors
    /// [`GridError`] if the ranks differ, and for blocks with an extent of zero.
    pub fn new(region: Region, block_shape: Shape) -> Result<Self, GridError> {
        if block_shape.rank() != region.rank() {
            return Err(GridError::Rank { cell: block_shape, rank: region.rank() });
        }
        if let Some(axis) = block_shape.extents().iter().position(|extent| *extent == 0) {
            return Err(GridError::Extent { axis, cell: block_shape });
        }
        let extents = region.shape().extents().iter().zip(block_shape.extents());
        let counts = Shape::from_checked(extents.map(|(extent, block)| extent.div_ceil(*block)).collect());
        Ok(Self { strides: counts.strides(), region, block_shape, counts })
    }

    /// The region that is cut.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The shape of the blocks that are not cut by an edge.
    pub fn block_shape(&self) -> &Shape {
        &self.block_shape
    }

    /// The number of blocks along each axis.
    pub fn counts(&self) -> &Shape {
        &self.counts
    }

    /// The number of blocks.
    pub fn block_count(&self) -> u64 {
        self.counts.elements()
    }

    /// The elements of a block.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn block_region(&self, block: BlockIndex) -> Region {
        let (mut start, mut extents) = (PerAxis::new(), PerAxis::new());
        for (axis, coordinate) in self.coordinates(block).into_iter().enumerate() {
            let extent = self.block_shape.extents()[axis];
            let first = self.region.start()[axis] + coordinate * extent;
            start.push(first);
            extents.push(extent.min(self.region.end(axis) - first));
        }
        Region::from_checked(start, Shape::from_checked(extents))
    }

    /// The place of a block among the blocks, for each axis.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn coordinates(&self, block: BlockIndex) -> PerAxis {
        self.counts.coordinates_of(block.0)
    }

    /// The block of the element with these coordinates of the array.
    ///
    /// # Errors
    /// [`QueryError::Rank`] if there is not one coordinate for each axis, [`QueryError::Outside`]
    /// for an element that is not in the region.
    pub fn block_at(&self, coordinates: &[u64]) -> Result<BlockIndex, QueryError> {
        self.check_rank(coordinates.len())?;
        let mut block = 0;
        for (axis, at) in coordinates.iter().enumerate() {
            let start = self.region.start()[axis];
            if !(start..self.region.end(axis)).contains(at) {
                return Err(QueryError::Outside { axis, coordinate: *at, region: self.region.to_string() });
            }
            block += (at - start) / self.block_shape.extents()[axis] * self.strides[axis];
        }
        Ok(BlockIndex(block))
    }

    /// The blocks with elements of a region of the array. The region may reach beyond the grid,
    /// where there are no blocks.
    ///
    /// # Errors
    /// [`QueryError::Rank`] if the ranks differ.
    pub fn blocks_of(&self, region: &Region) -> Result<BlockRange, QueryError> {
        self.check_rank(region.rank())?;
        let Some(part) = self.region.intersection(region) else { return Ok(BlockRange::empty()) };
        Ok(self.range(&part, part.shape(), |_| 1))
    }

    /// The blocks with selected elements of the array: a block that the steps of the selection
    /// leave out is not among them. The selection may reach beyond the grid, where there are no
    /// blocks.
    ///
    /// # Errors
    /// [`QueryError::Rank`] if the ranks differ.
    pub fn blocks_of_selection(&self, selection: &Selection) -> Result<BlockRange, QueryError> {
        self.check_rank(selection.rank())?;
        let Some(part) = selection.within(&self.region) else { return Ok(BlockRange::empty()) };
        Ok(self.range(part.bounds(), part.counts(), |axis| part.steps()[axis]))
    }

    /// The blocks of `counts` coordinates along each axis, from the start of `bounds` on.
    fn range(&self, bounds: &Region, counts: &Shape, step: impl Fn(usize) -> u64) -> BlockRange {
        BlockRange::of_grid((0..self.region.rank()).map(|axis| {
            let offset = bounds.start()[axis] - self.region.start()[axis];
            let block = self.block_shape.extents()[axis];
            (offset, step(axis), counts.extents()[axis], block, self.strides[axis])
        }))
    }

    fn check_rank(&self, asked: usize) -> Result<(), QueryError> {
        let rank = self.region.rank();
        if asked == rank { Ok(()) } else { Err(QueryError::Rank { asked, rank }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_RANK;
    use proptest::{collection::vec, prelude::*};
    use std::collections::BTreeSet;

    fn shape<const N: usize>(extents: [u64; N]) -> Shape {
        Shape::new(extents).unwrap()
    }

    #[test]
    fn blocks_at_the_edges_are_cut() {
        let grid = BlockGrid::new(Region::whole(&shape([5, 7])), shape([2, 4])).unwrap();
        assert_eq!(grid.counts(), &shape([3, 2]));
        assert_eq!(grid.block_region(BlockIndex(5)).to_string(), "[4:5, 4:7]");
    }

    #[test]
    fn bad_blocks_are_refused() {
        let array = Region::whole(&shape([5, 7]));
        let error = BlockGrid::new(array.clone(), shape([2])).unwrap_err();
        assert_eq!(error.to_string(), "cells of 2 do not fit a grid of 2 axes");
        let error = BlockGrid::new(array, shape([2, 0])).unwrap_err();
        assert_eq!(error.to_string(), "cells of 2x0 have no extent along axis 1");
    }

    #[test]
    fn questions_have_the_grids_rank() {
        let grid = BlockGrid::new(Region::whole(&shape([5, 7])), shape([2, 4])).unwrap();
        let error = grid.blocks_of(&Region::whole(&shape([5]))).unwrap_err();
        assert_eq!(error.to_string(), "blocks of 2 axes were asked about 1 axes");
        assert!(grid.block_at(&[1, 2, 3]).is_err());
        let error = grid.block_at(&[4, 7]).unwrap_err();
        assert_eq!(error.to_string(), "coordinate 7 of axis 1 lies outside [0:5, 0:7]");
    }

    #[test]
    fn an_empty_region_has_no_blocks() {
        let grid = BlockGrid::new(Region::whole(&shape([5, 0, 7])), shape([2, 2, 2])).unwrap();
        assert_eq!(grid.block_count(), 0);
        assert_eq!(grid.blocks_of(grid.region()).unwrap().len(), 0);
    }

    #[test]
    fn a_scalar_is_a_block() {
        let grid = BlockGrid::new(Region::whole(&shape([])), shape([])).unwrap();
        assert_eq!(grid.blocks_of(grid.region()).unwrap().collect::<Vec<_>>(), [BlockIndex(0)]);
        assert_eq!(grid.block_at(&[]), Ok(BlockIndex(0)));
        let mut range = grid.blocks_of(grid.region()).unwrap();
        assert!(range.contains(BlockIndex(0)) && !range.contains(BlockIndex(1)));
        range.next();
        assert!(!range.contains(BlockIndex(0)));
    }

    #[test]
    fn the_largest_array_is_cut() {
        let line = Region::new([1], shape([u64::MAX - 1])).unwrap();
        let grid = BlockGrid::new(line.clone(), shape([1])).unwrap();
        let mut range = grid.blocks_of(&line).unwrap();
        assert!(range.contains(BlockIndex(u64::MAX - 2)) && !range.contains(BlockIndex(u64::MAX - 1)));
        assert_eq!((range.next(), range.len() as u64), (Some(BlockIndex(0)), u64::MAX - 2));
        assert_eq!(grid.block_region(BlockIndex(u64::MAX - 2)).end(0), u64::MAX);
        let one = BlockGrid::new(line, shape([u64::MAX])).unwrap();
        assert_eq!(one.block_count(), 1);
        let flat = shape([1; MAX_RANK]);
        assert_eq!(BlockGrid::new(Region::whole(&flat), flat).unwrap().block_count(), 1);
    }

    /// A grid and a selection near it. An axis: origin, extent and block; start, extent and step.
    fn questions() -> impl Strategy<Value = (BlockGrid, Selection)> {
        vec(((0_u64..4, 0_u64..12, 1_u64..5), (0_u64..8, 0_u64..14, 1_u64..9)), 0..4).prop_map(|axes| {
            let region = |numbers: Vec<(u64, u64)>| {
                let extents = Shape::new(numbers.iter().map(|(_, extent)| *extent)).unwrap();
                Region::new(numbers.iter().map(|(start, _)| *start), extents).unwrap()
            };
            let cut = region(axes.iter().map(|(grid, _)| (grid.0, grid.1)).collect());
            let blocks = Shape::new(axes.iter().map(|(grid, _)| grid.2)).unwrap();
            let bounds = region(axes.iter().map(|(_, asked)| (asked.0, asked.1)).collect());
            let selection = Selection::new(bounds, axes.iter().map(|(_, asked)| asked.2)).unwrap();
            (BlockGrid::new(cut, blocks).unwrap(), selection)
        })
    }

    fn elements(region: &Region) -> impl Iterator<Item = Vec<u64>> {
        (0..region.elements()).map(|number| {
            let offsets = region.shape().coordinates_of(number);
            offsets.iter().zip(region.start()).map(|(offset, start)| start + offset).collect()
        })
    }

    proptest! {
        #[test]
        fn each_element_is_in_one_block((grid, _) in questions()) {
            let mut count = 0;
            for block in (0..grid.block_count()).map(BlockIndex) {
                let region = grid.block_region(block);
                prop_assert!(grid.region().contains(&region) && !region.is_empty());
                count += region.elements();
                for element in elements(&region) {
                    prop_assert_eq!(grid.block_at(&element), Ok(block));
                }
            }
            prop_assert_eq!(count, grid.region().elements());
        }

        #[test]
        fn a_range_has_the_blocks_that_are_touched((grid, selection) in questions()) {
            let touched = |is_wanted: &dyn Fn(&[u64]) -> bool| -> BTreeSet<BlockIndex> {
                elements(grid.region()).filter(|at| is_wanted(at)).map(|at| grid.block_at(&at).unwrap()).collect()
            };
            let selected = touched(&|at| selection.contains_element(at));
            let boxed = touched(&|at| selection.bounds().contains_element(at));
            for (mut range, expected) in [
                (grid.blocks_of_selection(&selection).unwrap(), selected),
                (grid.blocks_of(selection.bounds()).unwrap(), boxed),
            ] {
                let expected: Vec<_> = expected.into_iter().collect();
                prop_assert_eq!(range.clone().collect::<Vec<_>>(), &expected[..]);
                for taken in 0..=expected.len() {
                    prop_assert_eq!(range.len(), expected.len() - taken);
                    for block in (0..grid.block_count() + 3).map(BlockIndex) {
                        prop_assert_eq!(range.contains(block), expected[taken..].contains(&block));
                    }
                    prop_assert_eq!(range.next(), expected.get(taken).copied());
                }
            }
        }
    }
}
