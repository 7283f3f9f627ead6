//! A source that keeps the files that are read through it.

use super::tree::{Entry, Tree};
use crate::linux::{Kind, Source, is_shortage, without_links};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A source that answers as another one does, and keeps the answers: files, folders with their
/// entries, and every folder and link on the way.
///
/// The recorder answers a repeated question from memory, so that a capture has one state even if
/// the machine changes.
pub(super) struct Recorder<S> {
    source: S,
    kept: Arc<Mutex<Kept>>,
}

/// The entries that a recorder has kept.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) tree: Tree,
    /// The folders whose names are all known.
    listed: BTreeSet<String>,
    /// The most bytes that were asked for, by file.
    read: BTreeMap<String, u64>,
}

impl<S: Source> Recorder<S> {
    pub(super) fn new(source: S) -> (Self, Arc<Mutex<Kept>>) {
        let kept = Arc::default();
        (Self { source, kept: Arc::clone(&kept) }, kept)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path, without links, of an entry that exists; the recorder keeps all entries on the way.
    fn trace(&self, path: &str, follow_last: bool) -> io::Result<String> {
        let link = |path: &str| match self.look(path)? {
            Entry::Link(target) => Ok(Some(target)),
            Entry::Folder(_) | Entry::File(_) => Ok(None),
        };
        without_links(path, follow_last, link)
    }

    /// The entry at a path of which only the last component may be a link. A folder or a file comes
    /// without its contents.
    fn look(&self, path: &str) -> io::Result<Entry> {
        let known = self.kept().tree.at(path).map(|entry| match entry {
            Entry::Link(target) => Entry::Link(target.clone()),
            Entry::Folder(_) => Entry::Folder(Default::default()),
            Entry::File(_) => Entry::File(Vec::new()),
        });
        known.map_or_else(
            || {
                let entry = match self.source.kind(path)? {
                    Kind::Folder => Entry::Folder(Default::default()),
                    Kind::Link => Entry::Link(self.source.link(path)?),
                    // No reader opens a device or a pipe, so an empty file stands for it.
                    Kind::File | Kind::Other => Entry::File(Vec::new()),
                };
                self.keep(path, entry.clone());
                Ok(entry)
            },
            Ok,
        )
    }

    fn keep(&self, path: &str, entry: Entry) {
        // An entry that turns from a file into a folder stays a file.
        let _ = self.kept().tree.insert(path, entry);
    }
}

impl<S: Source> Source for Recorder<S> {
    fn file(&self, path: &str, longest: u64) -> io::Result<Vec<u8>> {
        let real = self.trace(path, true)?;
        let read_before = self.kept().read.get(&real).copied().unwrap_or(0);
        if read_before < longest {
            let bytes = self.source.file(&real, longest)?;
            self.keep(&real, Entry::File(bytes));
            self.kept().read.insert(real.clone(), longest);
        }
        self.kept().tree.file(&real, longest)
    }

    fn is_folder(&self, path: &str) -> io::Result<bool> {
        let real = self.trace(path, true)?;
        Ok(real.is_empty() || matches!(self.look(&real)?, Entry::Folder(_)))
    }

    fn names(&self, path: &str) -> io::Result<Vec<String>> {
        // A path that cannot be traced is asked for all the same, to get the error.
        let Ok(real) = self.trace(path, true) else { return self.source.names(path) };
        if !self.kept().listed.contains(&real) {
            for name in self.source.names(&real)? {
                // An entry may go before it is looked at.
                if let Err(error) = self.look(&format!("{real}/{name}"))
                    && is_shortage(&error)
                {
                    return Err(error);
                }
            }
            self.kept().listed.insert(real.clone());
        }
        self.kept().tree.names(&real)
    }

    fn link(&self, path: &str) -> io::Result<String> {
        match self.look(&self.trace(path, false)?)? {
            Entry::Link(target) => Ok(target),
            Entry::Folder(_) | Entry::File(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn real_path(&self, path: &str) -> io::Result<String> {
        self.trace(path, true)
    }

    fn kind(&self, path: &str) -> io::Result<Kind> {
        let real = self.trace(path, false)?;
        if real.is_empty() {
            return Ok(Kind::Folder);
        }
        Ok(match self.look(&real)? {
            Entry::Folder(_) => Kind::Folder,
            Entry::Link(_) => Kind::Link,
            Entry::File(_) => Kind::File,
        })
    }
}
