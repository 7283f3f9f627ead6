//! Settings of the reading threads.

use std::{num::NonZeroUsize, path::PathBuf};

/// The number of reading threads, their place, and the number of files that stay open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageOptions {
    pub(super) threads: NonZeroUsize,
    pub(super) max_open_files: Option<NonZeroUsize>,
    pub(super) beside: Vec<PathBuf>,
}

impl StorageOptions {
    /// The number of threads. Default: 8, which took two and a half times less time for cold planes
    /// than one did on a virtual disk; 32 gained nothing more.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// The largest number of files that stay open between reads. Each thread has one more open
    /// while it reads. Default: a quarter of the process' limit (`RLIMIT_NOFILE`), at most 1,024.
    pub fn max_open_files(mut self, files: NonZeroUsize) -> Self {
        self.max_open_files = Some(files);
        self
    }

    /// Files or folders beside whose disks the threads run, on machines of several NUMA nodes.
    /// Default: none, and the threads run anywhere.
    pub fn beside(mut self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.beside = paths.into_iter().map(Into::into).collect();
        self
    }
}

impl Default for StorageOptions {
    fn default() -> Self {
        let threads = NonZeroUsize::new(8).expect("the number is not 0");
        Self { threads, max_open_files: None, beside: Vec::new() }
    }
}
