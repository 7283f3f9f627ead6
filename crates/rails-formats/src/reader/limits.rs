//! The limits of a search for files.

/// The limits of the search for the files of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenLimits {
    pub(super) max_entries: usize,
    pub(super) max_depth: usize,
}

impl OpenLimits {
    /// The largest number of files and folders that are looked at. Default: 1,000,000. Each that a
    /// pattern means costs its name in memory.
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.max_entries = entries;
        self
    }

    /// The largest depth of folders that are looked at. A deeper one into which a pattern leads, or
    /// which is a group of Zarr, is an error. Default: 16.
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }
}

impl Default for OpenLimits {
    fn default() -> Self {
        Self { max_entries: 1_000_000, max_depth: 16 }
    }
}
