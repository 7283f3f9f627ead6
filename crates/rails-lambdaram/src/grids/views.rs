//! The divisions that a reader has beside that of the whole array, and the choice among them.

use super::watch::Watch;
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
    /// that it deserves.
    pub(crate) fn propose(
        &mut self,
        selection: &Selection,
        whole: &Grid,
        element_bytes: u64,
        max_block_bytes: u64,
    ) -> Option<(Region, Shape)> {
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

/// The views of one reader. Each has blocks of its own in memory.
const MAX_VIEWS: usize = 8;
