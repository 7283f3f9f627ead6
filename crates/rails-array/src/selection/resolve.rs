//! From a text and the shape of an array to a selection.

use super::{
    strided::Selection,
    text::{Entry, Position, SelectionText},
};
use crate::{
    region::Region,
    shape::{PerAxis, Shape},
};

/// A text that selects nothing of an array of a certain shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// There are more entries than axes.
    #[error("`{text}` has entries for {entries} axes, and the array ({shape}) has {}", .shape.rank())]
    Axes {
        /// The text.
        text: String,
        /// The number of entries, without an ellipsis.
        entries: usize,
        /// The array's shape.
        shape: Shape,
    },
    /// A coordinate lies outside the array.
    #[error("`{entry}` lies outside axis {axis}, which has {extent} coordinates, in `{text}` (the array is {shape})")]
    Outside {
        /// The entry.
        entry: String,
        /// The axis.
        axis: usize,
        /// The axis' extent.
        extent: u64,
        /// The text.
        text: String,
        /// The array's shape.
        shape: Shape,
    },
    /// A slice ends before it begins.
    #[error("`{entry}` on axis {axis} begins at {start} and ends before, at {end}, in `{text}` (the array is {shape})")]
    Backwards {
        /// The entry.
        entry: String,
        /// The axis.
        axis: usize,
        /// The first coordinate.
        start: u64,
        /// The coordinate at which it ends.
        end: u64,
        /// The text.
        text: String,
        /// The array's shape.
        shape: Shape,
    },
}

impl SelectionText {
    /// The selected elements of an array of that shape.
    ///
    /// # Errors
    /// [`ResolveError::Axes`] if the array has fewer axes, [`ResolveError::Outside`] if it does not
    /// reach as far, [`ResolveError::Backwards`] for a slice that ends before it begins. A slice
    /// that ends where it begins selects nothing, which is no error.
    pub fn resolve(&self, shape: &Shape) -> Result<Selection, ResolveError> {
        let (mut starts, mut extents, mut steps) = (PerAxis::new(), PerAxis::new(), PerAxis::new());
        let entries = self.entry_per_axis(shape)?;
        for (axis, (entry, extent)) in entries.iter().zip(shape.extents()).enumerate() {
            let (start, end, step) = self.resolve_entry(*entry, axis, *extent, shape)?;
            starts.push(start);
            extents.push(end - start);
            steps.push(step);
        }
        let region = Region::from_checked(starts, Shape::from_checked(extents));
        let selection = Selection::new(region, steps).expect("the steps were checked when they were read");
        let indices = entries.iter().enumerate().filter(|(_, entry)| matches!(entry, Entry::Index(_)));
        Ok(indices.fold(selection, |selection, (axis, _)| {
            selection.without_axis(axis).expect("an index selects one coordinate")
        }))
    }

    /// The entries with `...`, and all that is not written, as whole axes.
    fn entry_per_axis(&self, shape: &Shape) -> Result<Vec<Entry>, ResolveError> {
        let ellipsis = self.entries().iter().position(|entry| *entry == Entry::Ellipsis);
        let entries = self.entries().len() - usize::from(ellipsis.is_some());
        let Some(whole) = shape.rank().checked_sub(entries) else {
            return Err(ResolveError::Axes { text: self.to_string(), entries, shape: shape.clone() });
        };
        let at = ellipsis.unwrap_or(entries);
        let mut all = self.entries()[..at].to_vec();
        all.resize(at + whole, Entry::Slice { start: None, end: None, step: 1 });
        all.extend(self.entries().iter().skip(at + 1));
        Ok(all)
    }

    /// The first coordinate, the one at which the entry ends, and the step.
    fn resolve_entry(
        &self,
        entry: Entry,
        axis: usize,
        extent: u64,
        shape: &Shape,
    ) -> Result<(u64, u64, u64), ResolveError> {
        let outside = || ResolveError::Outside {
            entry: entry.to_string(),
            axis,
            extent,
            text: self.to_string(),
            shape: shape.clone(),
        };
        let bound = |position| coordinate(position, extent).ok_or_else(outside);
        match entry {
            Entry::Index(position) => {
                let at = bound(position)?;
                if at == extent { Err(outside()) } else { Ok((at, at + 1, 1)) }
            }
            Entry::Slice { start, end, step } => {
                let start = start.map_or(Ok(0), bound)?;
                let end = end.map_or(Ok(extent), bound)?;
                if start > end {
                    let (entry, text) = (entry.to_string(), self.to_string());
                    return Err(ResolveError::Backwards { entry, axis, start, end, text, shape: shape.clone() });
                }
                Ok((start, end, step))
            }
            Entry::Ellipsis => unreachable!("an ellipsis was replaced by whole axes"),
        }
    }
}

/// The coordinate, which is at most the extent.
fn coordinate(position: Position, extent: u64) -> Option<u64> {
    match position {
        Position::FromStart(at) => Some(at).filter(|at| *at <= extent),
        Position::FromEnd(distance) => extent.checked_sub(distance),
    }
}
