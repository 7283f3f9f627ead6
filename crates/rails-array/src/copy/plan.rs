//! The plan of a copy: nested loops over runs of bytes.

use super::runs::{Loop, Runs, SlotRuns};
use crate::{
    region::Region,
    selection::Selection,
    shape::{PerAxis, Shape},
};
use smallvec::SmallVec;
use std::num::NonZeroU64;

/// Which bytes of a region's memory go where in the memory of a selection's result.
///
/// The source is the memory of a region in C order: a block's, or that of a chunk of a file. The
/// destination is the memory of the selection's result, in C order or with distances of the
/// caller's. The plan copies the elements that both have, as runs of bytes. Axes along which both
/// sides are contiguous are one run, so that whole planes are copied at once. All offsets and
/// lengths are in bytes.
///
/// A plan is not allocated for up to four axes, and neither is a run.
///
/// ```
/// use rails_array::{CopyPlan, Region, Selection, Shape, copy};
///
/// // Two rows of three out of a block of 2x4 elements of one byte.
/// let block = Region::new([4, 8], Shape::new([2, 4])?)?;
/// let wanted = Region::new([4, 9], Shape::new([2, 3])?)?;
/// let plan = CopyPlan::new(&block, &Selection::from(wanted), 1)?;
/// let mut rows = [0; 6];
/// copy(&plan, &[0, 1, 2, 3, 4, 5, 6, 7], &mut rows)?;
/// assert_eq!(rows, [1, 2, 3, 5, 6, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CopyPlan {
    /// The outermost one first. All count to 2 or more.
    loops: SmallVec<[Loop; 4]>,
    source_start: u64,
    destination_start: u64,
    run_bytes: u64,
    /// 0 if there is nothing to copy.
    run_count: u64,
}

/// A copy that cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// An element has no bytes.
    #[error("an element has at least one byte")]
    Element,
    /// The ranks differ.
    #[error("a selection of {selected} axes does not fit a region of {rank} axes")]
    Rank {
        /// The number of axes of the selection.
        selected: usize,
        /// The number of axes of the region.
        rank: usize,
    },
    /// The number of strides is not that of the result's axes.
    #[error("{strides} strides do not fit a result of {shape}")]
    Strides {
        /// The number of strides.
        strides: usize,
        /// The result's shape.
        shape: Shape,
    },
    /// Elements of the result may overlap.
    #[error(
        "a stride of {stride} bytes along axis {axis} of the result is shorter than what it steps over ({span} bytes)"
    )]
    Overlap {
        /// The axis of the result.
        axis: usize,
        /// The stride of the axis.
        stride: u64,
        /// The bytes of an element, or of all elements along the axes with shorter strides.
        span: u64,
    },
    /// Source or destination have more bytes than 64 bits count.
    #[error("{shape} with elements of {element_bytes} bytes takes more bytes than fit 64 bits")]
    Bytes {
        /// The shape of the region, or of the result.
        shape: Shape,
        /// The size of an element.
        element_bytes: u64,
    },
}

impl CopyPlan {
    /// The plan for a destination in C order. It has all of the result, also where the source has
    /// none of it.
    ///
    /// # Errors
    /// [`PlanError`] if the ranks differ, for elements without bytes, and for more bytes than `u64`
    /// counts.
    pub fn new(source: &Region, selection: &Selection, element_bytes: u64) -> Result<Self, PlanError> {
        let shape = selection.shape();
        byte_count(&shape, element_bytes)?;
        let strides: PerAxis = shape.strides().iter().map(|stride| stride.saturating_mul(element_bytes)).collect();
        Self::with_strides(source, selection, element_bytes, &strides)
    }

    /// The plan for a destination whose neighbours along axis `k` of the result are `strides[k]`
    /// bytes apart, as in a view of numpy's. The destination begins at the first element of the
    /// result. Strides of axes with one element do not matter.
    ///
    /// Strides are positive, in any order, and each steps over an element and over all axes with
    /// shorter strides. So it is in every slice and every transposed view of an array in C order,
    /// and no two elements overlap.
    ///
    /// # Errors
    /// As [`new`](Self::new), [`PlanError::Strides`] if there is not one stride for each axis of
    /// the result, and [`PlanError::Overlap`] for a stride that is too short.
    pub fn with_strides(
        source: &Region,
        selection: &Selection,
        element_bytes: u64,
        strides: &[u64],
    ) -> Result<Self, PlanError> {
        if element_bytes == 0 {
            return Err(PlanError::Element);
        }
        if selection.rank() != source.rank() {
            return Err(PlanError::Rank { selected: selection.rank(), rank: source.rank() });
        }
        byte_count(source.shape(), element_bytes)?;
        check_strides(&selection.shape(), element_bytes, strides)?;
        let Some(part) = selection.within(source) else { return Ok(Self::nothing()) };
        Ok(Self::of_part(source, selection, &part, element_bytes, strides))
    }

    /// The number of bytes that are copied.
    pub fn bytes(&self) -> u64 {
        self.run_bytes * self.run_count
    }

    /// The number of bytes that the source has to have.
    pub fn source_end(&self) -> u64 {
        self.end(self.source_start, |inner| inner.source_step)
    }

    /// The number of bytes that the destination has to have.
    pub fn destination_end(&self) -> u64 {
        self.end(self.destination_start, |inner| inner.destination_step)
    }

    /// The runs, in the order of the result.
    pub fn runs(&self) -> Runs<'_> {
        Runs::new(&self.loops, self.source_start, self.destination_start, self.run_bytes, self.run_count)
    }

    /// The runs for a source that lies in slots of one size, cut at the borders of the slots.
    pub fn source_slot_runs(&self, slot_bytes: NonZeroU64) -> SlotRuns<'_> {
        SlotRuns::of_source(self.runs(), slot_bytes)
    }

    /// The runs for a destination that lies in slots of one size, cut at the borders of the slots.
    pub fn destination_slot_runs(&self, slot_bytes: NonZeroU64) -> SlotRuns<'_> {
        SlotRuns::of_destination(self.runs(), slot_bytes)
    }

    /// The innermost loop, and the beginnings of its turns.
    pub(super) fn rows(&self) -> (Loop, Runs<'_>) {
        let once = Loop { count: 1, source_step: self.run_bytes, destination_step: self.run_bytes };
        let (inner, outer) = self.loops.split_last().map_or((once, &[][..]), |(inner, outer)| (*inner, outer));
        let turns = self.run_count / inner.count;
        (inner, Runs::new(outer, self.source_start, self.destination_start, self.run_bytes, turns))
    }

    fn nothing() -> Self {
        Self { loops: SmallVec::new(), source_start: 0, destination_start: 0, run_bytes: 0, run_count: 0 }
    }

    /// The plan for `part`, the elements of `selection` that lie in `source`.
    fn of_part(source: &Region, selection: &Selection, part: &Selection, element_bytes: u64, strides: &[u64]) -> Self {
        let mut plan = Self { run_bytes: element_bytes, run_count: 1, ..Self::nothing() };
        let source_strides = source.shape().strides();
        let mut result_axis = strides.len();
        for axis in (0..source.rank()).rev() {
            let source_stride = source_strides[axis] * element_bytes;
            let first = part.bounds().start()[axis];
            plan.source_start += (first - source.start()[axis]) * source_stride;
            if selection.is_dropped(axis) {
                continue;
            }
            result_axis -= 1;
            let position = (first - selection.bounds().start()[axis]) / selection.steps()[axis];
            let destination_step = strides[result_axis];
            // The first position has none, however large the stride of an axis with one element is.
            plan.destination_start += position * destination_step;
            let count = part.counts().extents()[axis];
            if count > 1 {
                plan.push_outer(Loop { count, source_step: source_stride * part.steps()[axis], destination_step });
            }
        }
        plan.run_count = plan.loops.iter().map(|inner| inner.count).product();
        plan.loops.reverse();
        plan
    }

    /// Adds a loop around those that there are, and merges it with the outermost of them, if it
    /// goes on where that one ends. The outermost loop is the last one.
    fn push_outer(&mut self, outer: Loop) {
        match self.loops.last_mut() {
            None if outer.source_step == self.run_bytes && outer.destination_step == self.run_bytes => {
                self.run_bytes *= outer.count;
            }
            Some(inner)
                if inner.source_step.checked_mul(inner.count) == Some(outer.source_step)
                    && inner.destination_step.checked_mul(inner.count) == Some(outer.destination_step) =>
            {
                inner.count *= outer.count;
            }
            _ => self.loops.push(outer),
        }
    }

    fn end(&self, start: u64, step: impl Fn(&Loop) -> u64) -> u64 {
        if self.run_count == 0 {
            return 0;
        }
        start + self.loops.iter().map(|inner| (inner.count - 1) * step(inner)).sum::<u64>() + self.run_bytes
    }
}

fn byte_count(shape: &Shape, element_bytes: u64) -> Result<u64, PlanError> {
    let bytes = shape.elements().checked_mul(element_bytes);
    bytes.ok_or_else(|| PlanError::Bytes { shape: shape.clone(), element_bytes })
}

/// Checks that no elements of the result overlap, and that the end of the last one fits 64 bits,
/// and so every offset.
fn check_strides(shape: &Shape, element_bytes: u64, strides: &[u64]) -> Result<(), PlanError> {
    if strides.len() != shape.rank() {
        return Err(PlanError::Strides { strides: strides.len(), shape: shape.clone() });
    }
    let axes = strides.iter().zip(shape.extents()).enumerate().filter(|(_, (_, extent))| **extent > 1);
    let mut axes: SmallVec<[_; 4]> = axes.map(|(axis, (stride, extent))| (*stride, *extent, axis)).collect();
    axes.sort_unstable();
    let mut span = element_bytes;
    for (stride, extent, axis) in axes {
        if stride < span {
            return Err(PlanError::Overlap { axis, stride, span });
        }
        let end = stride.checked_mul(extent - 1).and_then(|last| span.checked_add(last));
        span = end.ok_or_else(|| PlanError::Bytes { shape: shape.clone(), element_bytes })?;
    }
    Ok(())
}
