//! The shapes of blocks that deserve a trial.

use crate::{
    grids::block_shape,
    trace::{ReadOutcome, Trace, TracedRead},
};
use rails_array::{Region, Shape};
use std::collections::BTreeMap;

/// The reads of an array, as far as blocks are concerned.
pub(super) struct Reads {
    array: Shape,
    element_bytes: u64,
    /// The extents that most of the bytes are read by.
    typical: Vec<u64>,
    /// For each axis the largest number that divides all places; 0 if all are 0.
    raster: Vec<u64>,
    min_elements: u64,
    max_bytes: u64,
}

impl Reads {
    /// The reads of an array. `None` without any.
    pub(super) fn of(trace: &Trace, array: u32) -> Option<Self> {
        let facts = &trace.arrays[array as usize];
        let reads = || trace.reads.iter().filter(|read| read.array == array && read.outcome == ReadOutcome::Done);
        let mut raster = vec![0; facts.shape.rank()];
        let mut extents: BTreeMap<&[u64], u64> = BTreeMap::new();
        for TracedRead { selection, .. } in reads() {
            let bounds: &Region = selection.bounds();
            raster.iter_mut().zip(bounds.start()).for_each(|(raster, start)| *raster = common_divisor(*raster, *start));
            let bytes = extents.entry(bounds.shape().extents()).or_default();
            *bytes = bytes.saturating_add(selection.elements());
        }
        // Of equal ones, the first.
        let typical = extents.iter().rev().max_by_key(|(_, bytes)| **bytes)?.0.to_vec();
        let element_bytes = u64::from(facts.element_bytes);
        let of_typical: u64 = typical.iter().product();
        Some(Self {
            array: facts.shape.clone(),
            element_bytes,
            min_elements: (MIN_BLOCK_BYTES / element_bytes).min(of_typical),
            typical,
            raster,
            max_bytes: trace.header.max_block_bytes,
        })
    }

    /// Shapes near the reads, and near the present blocks.
    pub(super) fn first(&self, present: &Shape) -> Vec<Shape> {
        let typical = Shape::new(self.typical.iter().copied()).expect("a read lies within its array");
        let usual = block_shape(&typical, self.element_bytes, self.max_bytes);
        let large = self.halved(self.typical.clone());
        let aligned: Vec<u64> =
            self.typical.iter().zip(&self.raster).map(|(extent, raster)| aligned(*extent, *raster)).collect();
        let aligned = self.halved(aligned);
        let mixed = (0..self.array.rank()).map(|axis| {
            let mut extents = present.extents().to_vec();
            extents[axis] = self.typical[axis];
            extents
        });
        let all = [usual.extents().to_vec(), large, aligned].into_iter().chain(mixed);
        let mut shapes = self.checked(all, present);
        shapes.extend(self.near(present));
        unique(shapes)
    }

    /// The halves and doubles of a shape along each axis.
    pub(super) fn near(&self, shape: &Shape) -> Vec<Shape> {
        let with = |axis: usize, extent: u64| {
            let mut extents = shape.extents().to_vec();
            extents[axis] = extent;
            extents
        };
        let axes = shape.extents().iter().enumerate();
        let all =
            axes.flat_map(|(axis, extent)| [with(axis, extent.div_ceil(2)), with(axis, extent.saturating_mul(2))]);
        self.checked(all, shape)
    }

    /// Those that are blocks of the array, of a size that is worth its request, and not `but`.
    fn checked(&self, all: impl IntoIterator<Item = Vec<u64>>, but: &Shape) -> Vec<Shape> {
        let fits = |shape: &Shape| {
            let elements = shape.elements();
            let is_small = elements < self.min_elements && elements < but.elements();
            !is_small && elements.saturating_mul(self.element_bytes) <= self.max_bytes && shape != but
        };
        let cut = |extents: Vec<u64>| {
            let extents =
                extents.iter().zip(self.array.extents()).map(|(extent, whole)| (*extent).clamp(1, (*whole).max(1)));
            Shape::new(extents).ok()
        };
        unique(all.into_iter().filter_map(cut).filter(fits).collect())
    }

    /// Extents, halved along the longest axis until a block may have them.
    fn halved(&self, mut extents: Vec<u64>) -> Vec<u64> {
        let bytes =
            |extents: &[u64]| extents.iter().fold(self.element_bytes, |bytes, extent| bytes.saturating_mul(*extent));
        while bytes(&extents) > self.max_bytes {
            let Some(longest) = extents.iter_mut().max().filter(|extent| **extent > 1) else { break };
            *longest = longest.div_ceil(2);
        }
        extents
    }
}

/// The extent of blocks that cut reads of this extent least, if all of them begin at multiples of
/// the raster.
fn aligned(extent: u64, raster: u64) -> u64 {
    if raster >= extent || raster > 0 && extent.is_multiple_of(raster) { raster } else { extent }
}

fn common_divisor(one: u64, other: u64) -> u64 {
    let (mut one, mut other) = (one, other);
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

fn unique(shapes: Vec<Shape>) -> Vec<Shape> {
    let mut unique = Vec::new();
    for shape in shapes {
        if !unique.contains(&shape) {
            unique.push(shape);
        }
    }
    unique
}

/// A request costs a node that serves some ten microseconds, which the model of a path does not
/// know: the bytes of a smaller block are no matter beside it on any line.
const MIN_BLOCK_BYTES: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_with_reads() {
        assert_eq!(
            [(38, 40), (40, 40), (40, 0), (100, 50), (100, 33), (7, 1)].map(|(e, r)| aligned(e, r)),
            [40, 40, 40, 50, 100, 1]
        );
        assert_eq!((common_divisor(0, 0), common_divisor(0, 12), common_divisor(12, 18)), (0, 12, 6));
    }
}
