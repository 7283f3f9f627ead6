//! Open files: those that were used last, as many as are allowed.

use crate::catalogue::PublishedDataset;
use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit},
};
use rails_formats::{
    manifest::ObjectPath,
    reader::{ReadError, Source},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The open files of all datasets.
#[derive(Debug)]
pub(super) struct OpenFiles {
    max_files: usize,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    /// By the number of the dataset and that of the file in it.
    open: HashMap<(u64, u32), Open>,
    uses: u64,
}

#[derive(Debug)]
struct Open {
    source: Arc<Source>,
    last_use: u64,
}

impl OpenFiles {
    pub(super) fn new(max_files: Option<usize>) -> Self {
        Self { max_files: max_files.unwrap_or_else(default_files), files: Mutex::default() }
    }

    /// Lends the file of a number, which is opened if it is not open. It blocks.
    pub(super) fn numbered(&self, dataset: &PublishedDataset, object: u32) -> Result<Arc<Source>, ReadError> {
        let key = (dataset.number(), object);
        if let Some(source) = self.files().lend(key) {
            return Ok(source);
        }
        let source = Arc::new(self.opened(|| dataset.numbered(object))?);
        let mut files = self.files();
        let closed = files.make_room(self.max_files);
        files.add(key, Arc::clone(&source));
        drop(files);
        // A file is closed without the lock: a file server may be asked.
        drop(closed);
        Ok(source)
    }

    /// Opens the file of a chunk, if it is there. It does not stay open. It blocks.
    pub(super) fn keyed(&self, dataset: &PublishedDataset, path: &ObjectPath) -> Result<Option<Source>, ReadError> {
        self.opened(|| dataset.keyed(path))
    }

    /// Closes the files of a dataset.
    pub(super) fn forget(&self, dataset: &PublishedDataset) {
        let (closed, kept) = {
            let mut files = self.files();
            let all = std::mem::take(&mut files.open);
            let (closed, kept): (HashMap<_, _>, HashMap<_, _>) =
                all.into_iter().partition(|((number, _), _)| *number == dataset.number());
            files.open = kept;
            (closed, files.open.len())
        };
        tracing::trace!(closed = closed.len(), kept, "the files of a dataset are closed");
    }

    /// The number of open files.
    pub(super) fn len(&self) -> usize {
        self.files().open.len()
    }

    /// Opens a file. If the process has no descriptor left, those that nobody reads are closed
    /// first.
    fn opened<T>(&self, open: impl Fn() -> Result<T, ReadError>) -> Result<T, ReadError> {
        match open() {
            Err(ReadError::Open { error, .. }) if is_out_of_descriptors(error.raw_os_error()) => {
                let closed = std::mem::take(&mut self.files().open);
                drop(closed);
                open()
            }
            result => result,
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        // Nothing panics while it holds the lock.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    fn lend(&mut self, key: (u64, u32)) -> Option<Arc<Source>> {
        self.uses += 1;
        let open = self.open.get_mut(&key)?;
        open.last_use = self.uses;
        Some(Arc::clone(&open.source))
    }

    fn add(&mut self, key: (u64, u32), source: Arc<Source>) {
        self.open.insert(key, Open { source, last_use: self.uses });
    }

    /// Takes the file whose last use is longest ago, if there is no room for one more.
    fn make_room(&mut self, max_files: usize) -> Option<Open> {
        if self.open.len() < max_files {
            return None;
        }
        let oldest = self.open.iter().min_by_key(|(_, open)| open.last_use).map(|(key, _)| *key)?;
        self.open.remove(&oldest)
    }
}

fn is_out_of_descriptors(error: Option<i32>) -> bool {
    error.is_some_and(|error| matches!(Errno::from_raw(error), Errno::EMFILE | Errno::ENFILE))
}

/// A quarter of the process' descriptors: sockets need others.
fn default_files() -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(MAX_DEFAULT_FILES as u64, |(soft, _)| soft / 4);
    limit.clamp(1, MAX_DEFAULT_FILES as u64) as usize
}

const MAX_DEFAULT_FILES: usize = 1024;
