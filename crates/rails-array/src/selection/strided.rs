//! Selected elements: for each axis a first one, a number of them and a step.

use crate::{
    region::Region,
    shape::{MAX_RANK, PerAxis, Shape},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Elements of an array: on each axis a first coordinate, and others at a distance of `step`.
///
/// A selected axis may be dropped, as an index drops it in numpy: it has one coordinate, and the
/// result has no such axis.
///
/// Two selections with elements are equal if they select the same ones and drop the same axes; a
/// step has no meaning on an axis with fewer than two elements, and is 1 there. Those without
/// elements have a place, as regions have.
///
/// ```
/// use rails_array::{Region, Selection, Shape};
///
/// let rows = Region::new([0, 100], Shape::new([64, 150])?)?;
/// let every_third = Selection::new(rows, [3, 1])?;
/// assert_eq!(every_third.shape().to_string(), "22x150");
/// assert_eq!(every_third.bounds().to_string(), "[0:64, 100:250]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedSelection", into = "UncheckedSelection")]
pub struct Selection {
    /// From the first element of each axis to the last.
    bounds: Region,
    counts: Shape,
    steps: PerAxis,
    /// One bit for each axis that the result has not.
    dropped: u32,
}

/// An error in a selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// The number of steps is not that of the axes.
    #[error("{steps} steps do not fit the {rank} axes of {region}")]
    Rank {
        /// The number of steps.
        steps: usize,
        /// The number of axes.
        rank: usize,
        /// The region, in the syntax of slices.
        region: String,
    },
    /// A step is zero.
    #[error("the step of axis {axis} of {region} is 0: it has to be 1 or more")]
    Step {
        /// The axis.
        axis: usize,
        /// The region, in the syntax of slices.
        region: String,
    },
    /// An axis cannot be dropped: it does not exist, or has not one element.
    #[error("axis {axis} of {selection} cannot be dropped: it has not one element")]
    Drop {
        /// The axis.
        axis: usize,
        /// The selection, in the syntax of slices.
        selection: String,
    },
}

impl Selection {
    /// The first element of a region on each axis, and those at multiples of the step from there.
    ///
    /// # Errors
    /// [`SelectionError::Rank`] if there is not one step for each axis, [`SelectionError::Step`]
    /// for a step of zero.
    pub fn new(region: Region, steps: impl IntoIterator<Item = u64>) -> Result<Self, SelectionError> {
        let mut steps: PerAxis = steps.into_iter().take(MAX_RANK + 1).collect();
        if steps.len() != region.rank() {
            return Err(SelectionError::Rank { steps: steps.len(), rank: region.rank(), region: region.to_string() });
        }
        if let Some(axis) = steps.iter().position(|step| *step == 0) {
            return Err(SelectionError::Step { axis, region: region.to_string() });
        }
        let extents = region.shape().extents().iter();
        let counts: PerAxis = extents.zip(&steps).map(|(extent, step)| extent.div_ceil(*step)).collect();
        let start = PerAxis::from_slice(region.start());
        for (step, count) in steps.iter_mut().zip(&counts) {
            if *count < 2 {
                *step = 1;
            }
        }
        Ok(Self::from_checked(start, counts, steps, 0))
    }

    /// The selection whose result has not this axis.
    ///
    /// # Errors
    /// [`SelectionError::Drop`] if there is no such axis, or if it has not one element.
    pub fn without_axis(mut self, axis: usize) -> Result<Self, SelectionError> {
        if self.counts.extents().get(axis) != Some(&1) {
            return Err(SelectionError::Drop { axis, selection: self.to_string() });
        }
        self.dropped |= 1 << axis;
        Ok(self)
    }

    /// The smallest region with all selected elements. Of an empty selection, an empty region.
    pub fn bounds(&self) -> &Region {
        &self.bounds
    }

    /// The number of axes of the array, dropped ones among them.
    pub fn rank(&self) -> usize {
        self.bounds.rank()
    }

    /// The number of selected coordinates of each axis of the array; 1 for dropped ones.
    pub fn counts(&self) -> &Shape {
        &self.counts
    }

    /// The distance of selected coordinates, for each axis of the array.
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// Whether the result has no such axis.
    pub fn is_dropped(&self, axis: usize) -> bool {
        axis < MAX_RANK && self.dropped & (1 << axis) != 0
    }

    /// The shape of the result: the counts of the axes that are not dropped.
    pub fn shape(&self) -> Shape {
        let counts = self.counts.extents().iter().enumerate();
        Shape::from_checked(counts.filter(|(axis, _)| !self.is_dropped(*axis)).map(|(_, count)| *count).collect())
    }

    /// The number of selected elements.
    pub fn elements(&self) -> u64 {
        self.counts.elements()
    }

    /// Whether no element is selected.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Whether the element with these coordinates is selected.
    pub fn contains_element(&self, coordinates: &[u64]) -> bool {
        let on_step = |axis: usize| (coordinates[axis] - self.bounds.start()[axis]).is_multiple_of(self.steps[axis]);
        self.bounds.contains_element(coordinates) && (0..self.rank()).all(on_step)
    }

    /// The selected elements that lie in a region; `None` if there is none, and if the ranks
    /// differ.
    pub fn within(&self, region: &Region) -> Option<Self> {
        if self.rank() != region.rank() {
            return None;
        }
        let (mut starts, mut counts, mut steps) = (PerAxis::new(), PerAxis::new(), PerAxis::new());
        for axis in 0..self.rank() {
            let (start, step) = (self.bounds.start()[axis], self.steps[axis]);
            // The numbers of the elements of this axis, from `first` to before `end`.
            let first = region.start()[axis].saturating_sub(start).div_ceil(step);
            let end = region.end(axis).saturating_sub(start).div_ceil(step).min(self.counts.extents()[axis]);
            if first >= end {
                return None;
            }
            starts.push(start + first * step);
            counts.push(end - first);
            steps.push(if end - first == 1 { 1 } else { step });
        }
        Some(Self::from_checked(starts, counts, steps, self.dropped))
    }

    /// The selection of these numbers, whose last elements lie in a checked region.
    fn from_checked(start: PerAxis, counts: PerAxis, steps: PerAxis, dropped: u32) -> Self {
        let extent = |(count, step): (&u64, &u64)| if *count == 0 { 0 } else { (count - 1) * step + 1 };
        let extents = counts.iter().zip(&steps).map(extent).collect();
        let bounds = Region::from_checked(start, Shape::from_checked(extents));
        Self { bounds, counts: Shape::from_checked(counts), steps, dropped }
    }
}

impl From<Region> for Selection {
    /// All elements of the region.
    fn from(region: Region) -> Self {
        let steps = PerAxis::from_elem(1, region.rank());
        Self { counts: region.shape().clone(), bounds: region, steps, dropped: 0 }
    }
}

impl fmt::Display for Selection {
    /// In the syntax of slices, which [`SelectionText`](super::SelectionText) reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (axis, (start, step)) in self.bounds.start().iter().zip(&self.steps).enumerate() {
            f.write_str(if axis == 0 { "" } else { ", " })?;
            match (self.is_dropped(axis), step) {
                (true, _) => write!(f, "{start}")?,
                (false, 1) => write!(f, "{start}:{}", self.bounds.end(axis))?,
                (false, step) => write!(f, "{start}:{}:{step}", self.bounds.end(axis))?,
            }
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selection{self}")
    }
}

/// A selection as it is written, before its numbers are checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedSelection {
    region: Region,
    steps: Vec<u64>,
    dropped_axes: Vec<usize>,
}

impl TryFrom<UncheckedSelection> for Selection {
    type Error = SelectionError;

    fn try_from(unchecked: UncheckedSelection) -> Result<Self, SelectionError> {
        let selection = Self::new(unchecked.region, unchecked.steps)?;
        unchecked.dropped_axes.into_iter().try_fold(selection, Self::without_axis)
    }
}

impl From<Selection> for UncheckedSelection {
    fn from(selection: Selection) -> Self {
        let dropped_axes = (0..selection.rank()).filter(|axis| selection.is_dropped(*axis)).collect();
        Self { steps: selection.steps.into_vec(), dropped_axes, region: selection.bounds }
    }
}
