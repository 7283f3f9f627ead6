//! The bounds of opening.

use rails_formats::reader;

/// The bounds of a search for datasets, and of the blocks that are proposed for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenLimits {
    pub(super) max_entries: usize,
    pub(super) max_depth: usize,
    pub(super) block_bytes: u64,
    pub(super) max_block_bytes: u64,
}

impl OpenLimits {
    /// The largest number of files and folders that are looked at, for each argument. Default:
    /// 1,000,000. Each that is meant costs its name in memory.
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.max_entries = entries;
        self
    }

    /// The largest depth of folders into which a dataset file's patterns lead, and of groups of
    /// Zarr. Default: 16.
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// The size in bytes that proposed blocks come near to without exceeding it. Default: 256 KiB,
    /// the compromise between a basin out of planes, which wants less, and a scan of all, which
    /// wants more. At most [`max_block_bytes`](Self::max_block_bytes) are heeded.
    pub fn block_bytes(mut self, bytes: u64) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// The largest size of a block in bytes. Default: 4 MiB. A dataset file that asks for larger
    /// ones is an error.
    pub fn max_block_bytes(mut self, bytes: u64) -> Self {
        self.max_block_bytes = bytes;
        self
    }

    pub(super) fn search(&self) -> reader::OpenLimits {
        reader::OpenLimits::default().max_entries(self.max_entries).max_depth(self.max_depth)
    }
}

impl Default for OpenLimits {
    fn default() -> Self {
        Self { max_entries: 1_000_000, max_depth: 16, block_bytes: 256 << 10, max_block_bytes: 4 << 20 }
    }
}
