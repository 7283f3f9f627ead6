//! A selection cut into slabs, which are read one after the other.

use rails_array::{Region, Selection, Shape};

/// The slabs of a selection: parts of at most so many bytes, whose elements one behind the other
/// are those of the selection. Where a slab need not end inside a block, it ends at the edge of
/// one.
///
/// A part of one element is larger than the limit, if elements are.
pub(crate) struct Slabs {
    selection: Selection,
    block_shape: Shape,
    /// The axis that is cut into ranges. Each coordinate of the axes before it has slabs of its
    /// own.
    axis: usize,
    /// The largest number of coordinates of a range.
    max_count: u64,
    /// The next slab's first coordinate on the axes up to `axis`, counted from the selection's
    /// corner in steps; `None` behind the last slab.
    next: Option<Vec<u64>>,
}

impl Slabs {
    pub(crate) fn new(selection: &Selection, block_shape: &Shape, element_bytes: u64, max_bytes: u64) -> Self {
        let counts = selection.counts().extents();
        let mut axis = counts.len().saturating_sub(1);
        // The bytes of one coordinate of the axis.
        let mut bytes = element_bytes;
        while axis > 0 && bytes.saturating_mul(counts[axis]) <= max_bytes {
            bytes *= counts[axis];
            axis -= 1;
        }
        let max_count = (max_bytes / bytes.max(1)).max(1);
        let next = (!selection.is_empty()).then(|| vec![0; (axis + 1).min(counts.len())]);
        Self { selection: selection.clone(), block_shape: block_shape.clone(), axis, max_count, next }
    }

    /// The number behind the last one of a range that begins at this number of a coordinate.
    fn end_of(&self, first: u64) -> u64 {
        let (start, step) = (self.selection.bounds().start()[self.axis], self.selection.steps()[self.axis]);
        let count = self.selection.counts().extents()[self.axis];
        let end = first.saturating_add(self.max_count);
        if end >= count {
            return count;
        }
        let block = self.block_shape.extents().get(self.axis).copied().unwrap_or(1).max(1);
        let edge = (start + end * step) / block * block;
        let at_edge = edge.saturating_sub(start).div_ceil(step);
        if at_edge > first { at_edge } else { end }
    }
}

impl Iterator for Slabs {
    type Item = Selection;

    fn next(&mut self) -> Option<Selection> {
        let mut at = self.next.take()?;
        let (bounds, steps) = (self.selection.bounds(), self.selection.steps());
        if at.is_empty() {
            return Some(self.selection.clone());
        }
        let first = at[self.axis];
        let end = self.end_of(first);
        let (mut starts, mut extents) = (bounds.start().to_vec(), bounds.shape().extents().to_vec());
        for axis in 0..self.axis {
            starts[axis] += at[axis] * steps[axis];
            extents[axis] = 1;
        }
        starts[self.axis] += first * steps[self.axis];
        extents[self.axis] = (end - first - 1) * steps[self.axis] + 1;
        let shape = Shape::new(extents).expect("a part is no larger than the whole");
        let region = Region::new(starts, shape).expect("a part ends where the whole does, or before");
        let slab = self.selection.within(&region).expect("a part has elements");
        // On to the next one, as an odometer does.
        at[self.axis] = end;
        for axis in (0..=self.axis).rev() {
            if at[axis] < self.selection.counts().extents()[axis] {
                self.next = Some(at);
                break;
            }
            at[axis] = 0;
            if axis > 0 {
                at[axis - 1] += 1;
            }
        }
        Some(slab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    /// The coordinates of a selection's elements, in order.
    fn elements(selection: &Selection) -> Vec<Vec<u64>> {
        let mut all = vec![Vec::new()];
        for axis in 0..selection.rank() {
            let (start, step) = (selection.bounds().start()[axis], selection.steps()[axis]);
            let coordinates = (0..selection.counts().extents()[axis]).map(|number| start + number * step);
            let coordinates: Vec<u64> = coordinates.collect();
            all = all
                .into_iter()
                .flat_map(|before| coordinates.iter().map(move |at| [&before[..], &[*at]].concat()))
                .collect();
        }
        all
    }

    proptest! {
        #[test]
        fn slabs_are_the_selection_in_order(
            axes in vec((0_u64..4, 1_u64..7, 1_u64..4, 1_u64..5, any::<bool>()), 0..4),
            max_bytes in 1_u64..200,
        ) {
            let region = Region::new(axes.iter().map(|axis| axis.0), Shape::new(axes.iter().map(|axis| axis.1)).unwrap());
            let mut selection = Selection::new(region.unwrap(), axes.iter().map(|axis| axis.2)).unwrap();
            for (number, axis) in axes.iter().enumerate() {
                if axis.4 && selection.counts().extents()[number] == 1 {
                    selection = selection.without_axis(number).unwrap();
                }
            }
            let block_shape = Shape::new(axes.iter().map(|axis| axis.3)).unwrap();
            let slabs: Vec<Selection> = Slabs::new(&selection, &block_shape, 4, max_bytes).collect();
            prop_assert_eq!(slabs.iter().flat_map(elements).collect::<Vec<_>>(), elements(&selection));
            for slab in &slabs {
                prop_assert!(slab.elements() * 4 <= max_bytes.max(4), "{slab} of {selection}");
            }
        }
    }

    #[test]
    fn slabs_end_at_the_edges_of_blocks() {
        let region = Region::new([3, 0], Shape::new([20, 5]).unwrap()).unwrap();
        let slabs = Slabs::new(&region.into(), &Shape::new([4, 5]).unwrap(), 1, 45);
        let slabs: Vec<String> = slabs.map(|slab| slab.to_string()).collect();
        assert_eq!(slabs, ["[3:12, 0:5]", "[12:20, 0:5]", "[20:23, 0:5]"]);
    }
}
