//! Regions that are read again and again.

use rails_array::{Grid, Layout, Region, Selection, Shape};

/// Watches the reads that use the blocks of a whole array, and says when a region deserves blocks
/// of its own.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// There was a read.
    has_begun: bool,
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
    ///
    /// The first read of all is enough if it takes a part of some axes and one place of others:
    /// programs loop over places. If this one does not, the blocks of the array lack one read.
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
        let (blocks, part) = (grid.blocks(), read.shape().extents());
        let whole = blocks.region().shape().extents();
        let is_part = |axis: usize| part[axis] < whole[axis];
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let is_fixed = |axis: usize| if is_first { part[axis] > 1 } else { self.fixed[axis] };
        // A place that does not change along any axis needs no blocks of its own: it is in memory.
        let moves = (0..read.rank()).any(|axis| is_part(axis) && !is_fixed(axis));
        let is_cut = |axis: usize| is_part(axis) && is_fixed(axis);
        let (is_enough, times) =
            if is_first { (is_dense, MIN_TIMES_AT_FIRST) } else { (self.alike >= MIN_ALIKE, MIN_TIMES) };
        if !is_enough || !moves || !(0..read.rank()).any(is_cut) || times_of_read(selection, grid) < times {
            return None;
        }
        let start = (0..read.rank()).map(|axis| if is_cut(axis) { read.start()[axis] } else { 0 });
        let extents = (0..read.rank()).map(|axis| if is_cut(axis) { part[axis] } else { whole[axis] });
        let region = Region::new(start, Shape::new(extents).ok()?).ok()?;
        // A source in chunks decodes one for all of its places, so these stay together.
        let together = blocks.block_shape().extents();
        let wanted =
            (0..read.rank()).map(|axis| if is_part(axis) && part[axis] == 1 { together[axis] } else { part[axis] });
        let shape = block_shape(&Shape::new(wanted).ok()?, element_bytes, max_block_bytes);
        self.alike = 0;
        Some((region, shape))
    }
}

/// How many times as many elements as a read its blocks have.
fn times_of_read(selection: &Selection, grid: &Grid) -> f64 {
    let Ok(blocks) = grid.blocks_of_selection(selection) else { return 0.0 };
    let elements: u64 = blocks.map(|block| grid.elements_of(block)).sum();
    elements as f64 / selection.elements().max(1) as f64
}

/// Extents, halved along the first long axis until a block is no larger than blocks usually are.
pub(crate) fn block_shape(wanted: &Shape, element_bytes: u64, max_block_bytes: u64) -> Shape {
    let max_bytes = USUAL_BLOCK_BYTES.min(max_block_bytes);
    let mut extents = wanted.extents().to_vec();
    let bytes = |extents: &[u64]| extents.iter().fold(element_bytes, |bytes, extent| bytes.saturating_mul(*extent));
    while bytes(&extents) > max_bytes {
        let Some(long) = extents.iter_mut().find(|extent| **extent > 1) else { break };
        *long = long.div_ceil(2);
    }
    Shape::new(extents).expect("a part of a shape is one")
}

/// The blocks of an array are left if they have so many times the bytes of a read.
const MIN_TIMES: f64 = 1.25;
/// The least ratio after a single read, which may be chance.
const MIN_TIMES_AT_FIRST: f64 = 2.0;
/// As in the design of the thesis' reader: two may be chance, and each costs bytes beside it.
const MIN_ALIKE: u32 = 4;
/// A block of this size takes 4 ms on a link of 500 Mbit/s.
const USUAL_BLOCK_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_regions_beyond_all_bytes_are_small() {
        let extents = |wanted: [u64; 2]| block_shape(&Shape::new(wanted).unwrap(), 16, 1 << 20).extents().to_vec();
        // 2^66 bytes, of which 64 bits have none.
        assert_eq!(extents([1 << 62, 1]), [1 << 14, 1]);
        assert_eq!(extents([1, u64::MAX]), [1, 1 << 14]);
        assert_eq!(extents([3, 4]), [3, 4]);
    }
}
