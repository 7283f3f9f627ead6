//! Regions that are read again and again.

use rails_array::{Grid, Layout, Region, Selection, Shape};

/// Watches the reads that use the blocks of a whole array, and says when a region deserves blocks
/// of its own.
#[derive(Debug, Default)]
pub(super) struct Watch {
    last: Option<Region>,
    /// The number of reads in a row that have one extent, and one place along some axes.
    alike: u32,
    /// The axes along which the place has not changed.
    fixed: Vec<bool>,
}

impl Watch {
    /// Takes a read. Returns the region and the shape of its blocks, once several reads in a row
    /// had the same extents and the same place along axes of which they read a part, and the blocks
    /// of the array have many bytes beside them.
    pub(super) fn observe(
        &mut self,
        selection: &Selection,
        grid: &Grid,
        element_bytes: u64,
        max_block_bytes: u64,
    ) -> Option<(Region, Shape)> {
        let read = selection.bounds();
        let is_dense = selection.elements() == read.elements();
        match &self.last {
            Some(last) if is_dense && last.shape() == read.shape() => {
                self.alike += 1;
                let places = last.start().iter().zip(read.start());
                self.fixed.iter_mut().zip(places).for_each(|(fixed, (one, other))| *fixed &= one == other);
            }
            _ => {
                self.alike = 1;
                self.fixed = vec![true; read.rank()];
            }
        }
        self.last = is_dense.then(|| read.clone());
        if self.alike < MIN_ALIKE {
            return None;
        }
        let array = grid.blocks().region();
        let is_part = |axis: usize| read.shape().extents()[axis] < array.shape().extents()[axis];
        // A place that does not change along any axis needs no blocks of its own: it is in memory.
        let moves = self.fixed.contains(&false);
        let is_cut = |axis: usize| self.fixed[axis] && is_part(axis);
        if !moves || !(0..read.rank()).any(is_cut) || !has_many_elements_beside(selection, grid) {
            return None;
        }
        let start = (0..read.rank()).map(|axis| if is_cut(axis) { read.start()[axis] } else { array.start()[axis] });
        let extents = (0..read.rank()).map(|axis| {
            let whole = array.shape().extents()[axis];
            if is_cut(axis) { read.shape().extents()[axis] } else { whole }
        });
        let region = Region::new(start, Shape::new(extents).ok()?).ok()?;
        self.alike = 0;
        Some((region, block_shape(read.shape(), element_bytes, max_block_bytes)))
    }
}

/// Whether the blocks of a read are a quarter larger than the read.
fn has_many_elements_beside(selection: &Selection, grid: &Grid) -> bool {
    let Ok(blocks) = grid.blocks_of_selection(selection) else { return false };
    let elements: u64 = blocks.map(|block| grid.elements_of(block)).sum();
    elements.saturating_mul(4) > selection.elements().saturating_mul(5)
}

/// The extents of a read, halved along the first long axis until a block is no larger than blocks
/// usually are.
pub(crate) fn block_shape(read: &Shape, element_bytes: u64, max_block_bytes: u64) -> Shape {
    let max_bytes = USUAL_BLOCK_BYTES.min(max_block_bytes);
    let mut extents = read.extents().to_vec();
    while extents.iter().product::<u64>() * element_bytes > max_bytes {
        let Some(long) = extents.iter_mut().find(|extent| **extent > 1) else { break };
        *long = long.div_ceil(2);
    }
    Shape::new(extents).expect("a part of a shape is one")
}

/// As in the design of the thesis' reader: two may be chance, and each costs bytes beside it.
const MIN_ALIKE: u32 = 4;
/// A block of this size takes 4 ms on a link of 500 Mbit/s.
const USUAL_BLOCK_BYTES: u64 = 256 << 10;
