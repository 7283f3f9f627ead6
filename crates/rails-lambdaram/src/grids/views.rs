//! The divisions that a reader has beside that of the whole array, and the choice among them.

use super::watch::{Watch, block_shape};
use rails_array::{Grid, Region, Selection, Shape};

/// A division of a part of an array.
pub(crate) trait Division: Clone {
    /// The part.
    fn region(&self) -> &Region;
}

/// The divisions of one reader, and whether reads deserve another one.
#[derive(Debug)]
pub(crate) struct Views<V> {
    /// The one that was used last is the last one.
    views: Vec<V>,
    watch: Watch,
}

impl<V: Division> Views<V> {
    /// The view for a read, which is used now.
    pub(crate) fn use_for(&mut self, read: &Region) -> Option<V> {
        let at = self.views.iter().rposition(|view| view.region().contains(read))?;
        let view = self.views.remove(at);
        self.views.push(view.clone());
        Some(view)
    }

    /// The view that a read would use.
    pub(crate) fn of(&self, read: &Region) -> Option<&V> {
        self.views.iter().rev().find(|view| view.region().contains(read))
    }

    /// Takes a read that no view is for. Returns the region and the shape of the blocks of a view
    /// that it deserves: the smallest of those `declared` for the array that has it, or a new one.
    pub(crate) fn propose(
        &mut self,
        selection: &Selection,
        declared: &[Region],
        whole: &Grid,
        element_bytes: u64,
        max_block_bytes: u64,
    ) -> Option<(Region, Shape)> {
        let has_read = |view: &&Region| view.contains(selection.bounds());
        if let Some(view) = declared.iter().filter(has_read).min_by_key(|view| view.elements()) {
            return Some((view.clone(), shape_of_declared(view, whole, element_bytes, max_block_bytes)));
        }
        self.watch.observe(selection, whole, element_bytes, max_block_bytes)
    }

    /// Adds a view, which is used now. Of too many, the one that was used longest ago goes.
    pub(crate) fn add(&mut self, view: V) {
        if self.views.len() == MAX_VIEWS {
            self.views.remove(0);
        }
        self.views.push(view);
    }

    /// Keeps those views alone.
    pub(crate) fn retain(&mut self, is_kept: impl FnMut(&V) -> bool) {
        self.views.retain(is_kept);
    }

    /// All views, the one that was used last at the end.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.views.iter()
    }
}

impl<V> Default for Views<V> {
    fn default() -> Self {
        Self { views: Vec::new(), watch: Watch::default() }
    }
}

/// The shape of the blocks of a declared view: the array's, but along axes of which the view is a
/// part.
fn shape_of_declared(view: &Region, whole: &Grid, element_bytes: u64, max_block_bytes: u64) -> Shape {
    let (blocks, extents) = (whole.blocks(), view.shape().extents());
    let axes = extents.iter().zip(blocks.region().shape().extents()).zip(blocks.block_shape().extents());
    let wanted = axes.map(|((part, whole), block)| if part < whole { *part } else { (*block).min(*part) });
    // A part of the array has no more elements than it.
    Shape::new(wanted)
        .map_or_else(|_| blocks.block_shape().clone(), |wanted| block_shape(&wanted, element_bytes, max_block_bytes))
}

/// The views of one reader. Each has blocks of its own in memory.
const MAX_VIEWS: usize = 8;
