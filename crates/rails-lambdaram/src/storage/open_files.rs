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
    thread,
    time::{Duration, Instant},
};

/// The open files of all datasets.
#[derive(Debug)]
pub(super) struct OpenFiles {
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Files {
    max: usize,
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
        let max = max_files.unwrap_or_else(default_files);
        Self { files: Mutex::new(Files { max, open: HashMap::new(), uses: 0 }) }
    }

    /// Lends the file of a number, which is opened if it is not open. It blocks.
    pub(super) fn numbered(&self, dataset: &PublishedDataset, object: u32) -> Result<Arc<Source>, ReadError> {
        let key = (dataset.number(), object);
        if let Some(source) = self.files().lend(key) {
            return Ok(source);
        }
        let source = Arc::new(self.opened(|| dataset.numbered(object))?);
        let closed = self.files().add(key, Arc::clone(&source));
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
        let of_dataset = |(number, _): &(u64, u32), _: &mut Open| *number == dataset.number();
        let closed: Vec<_> = self.files().open.extract_if(of_dataset).collect();
        drop(closed);
    }

    /// The number of open files.
    pub(super) fn len(&self) -> usize {
        self.files().open.len()
    }

    /// Opens a file. If the process has no descriptor left, those that stay open are closed, and
    /// fewer stay open from then on. Where all of them are in use, this thread waits for a moment:
    /// other threads close theirs as they finish a read.
    fn opened<T>(&self, open: impl Fn() -> Result<T, ReadError>) -> Result<T, ReadError> {
        let began = Instant::now();
        loop {
            match open() {
                Err(ReadError::Open { error, .. })
                    if is_out_of_descriptors(error.raw_os_error()) && began.elapsed() < MAX_WAIT =>
                {
                    let closed = self.files().halve();
                    if closed.is_empty() {
                        thread::sleep(WAIT);
                    }
                }
                result => return result,
            }
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

    /// Adds a file. The result is the one that makes room: its last use is longest ago.
    fn add(&mut self, key: (u64, u32), source: Arc<Source>) -> Option<Open> {
        let oldest =
            if self.open.len() < self.max { None } else { self.open.iter().min_by_key(|(_, open)| open.last_use) };
        let closed = oldest.map(|(key, _)| *key).and_then(|key| self.open.remove(&key));
        let other = self.open.insert(key, Open { source, last_use: self.uses });
        closed.or(other)
    }

    /// Takes all files, and half of the room, if any file is open.
    fn halve(&mut self) -> HashMap<(u64, u32), Open> {
        if !self.open.is_empty() {
            self.max = (self.max / 2).max(1);
        }
        std::mem::take(&mut self.open)
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

/// The longest wait for a descriptor, and the time between two tries.
const MAX_WAIT: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_millis(1);
