//! One record: a file that is there whole or not at all, locked by its owner.

use super::{JournalError, file_error};
use crate::settings::{Change, Setting, Value, put_back::Entry};
use serde::{Deserialize, Serialize};
use std::{
    env,
    fs::{self, File, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
    process,
};

/// Who changed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its process.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Who made it.
    pub owner: Owner,
    /// Whether its owner lives and will put things back itself.
    pub is_live: bool,
    /// Whether its owner meant it to stay.
    pub is_kept: bool,
    /// What was changed: what each setting was, and what it was set to.
    pub changes: Vec<(Value, Change)>,
}

/// A record as it lies on the disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Document {
    /// The boot that the settings belong to (`/proc/sys/kernel/random/boot_id`).
    pub(super) boot: String,
    pub(super) owner: Owner,
    pub(super) kept: bool,
    pub(super) entries: Vec<Entry>,
}

/// A record that was read.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) document: Document,
    /// The record itself, held by us from here on; `None` if its owner holds it.
    pub(super) abandoned: Option<Held>,
}

impl Found {
    pub(super) fn summary(&self) -> Record {
        let change = |entry: &Entry| {
            let change = Change { setting: entry.setting.clone(), value: entry.ours.clone() };
            (entry.former.clone(), change)
        };
        Record {
            owner: self.document.owner.clone(),
            is_live: self.abandoned.is_none(),
            is_kept: self.document.kept,
            changes: self.document.entries.iter().map(change).collect(),
        }
    }
}

/// A record's file, locked.
#[derive(Debug)]
pub(super) struct Held {
    path: PathBuf,
    _lock: File,
}

impl Held {
    /// Puts another text in its place, in one step, and holds that.
    pub(super) fn rewrite(&mut self, document: &Document) -> Result<(), JournalError> {
        let beside = self.path.with_extension("new");
        let failed = |call| move |source| (call, source);
        let write = || {
            // What a killed process may have left there is nobody's.
            let mut file = File::create(&beside).map_err(failed("make"))?;
            file.try_lock().map_err(|error| ("lock", error.into()))?;
            let text = serde_json::to_vec_pretty(document).expect("a record has no map whose keys are not strings");
            file.write_all(&text).map_err(failed("write"))?;
            file.sync_all().map_err(failed("write"))?;
            fs::rename(&beside, &self.path).map_err(failed("rename"))?;
            Ok(file)
        };
        self._lock = write().map_err(|(call, source)| file_error(call, &beside, source))?;
        Ok(())
    }

    pub(super) fn remove(&mut self) -> Result<(), JournalError> {
        fs::remove_file(&self.path).map_err(|source| file_error("remove", &self.path, source))
    }
}

/// A record of this process, held until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenRecord {
    held: Held,
    document: Document,
}

impl OpenRecord {
    pub(super) fn create(
        folder: &Path,
        sequence: u64,
        entries: impl IntoIterator<Item = (Setting, Value, Value)>,
    ) -> Result<Self, JournalError> {
        let entries = entries.into_iter().map(|(setting, former, ours)| Entry { setting, former, ours }).collect();
        let command: Vec<String> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let owner = Owner { pid: process::id(), command: command.join(" ") };
        let document = Document { boot: boot_id(), owner, kept: false, entries };
        let path = folder.join(format!("{sequence:010}.{EXTENSION}"));
        // The lock of the journal is held, so nobody takes the same number; until the record's text is in place there
        // is no file of that name, and `rewrite` puts it there in one step.
        let lock = File::open(folder).map_err(|source| file_error("open", folder, source))?;
        let mut held = Held { path, _lock: lock };
        held.rewrite(&document)?;
        Ok(Self { held, document })
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.document.entries
    }

    /// The kernel made something else of the value than was asked for.
    pub(crate) fn correct(&mut self, setting: &Setting, got: &Value) -> Result<(), JournalError> {
        for entry in self.document.entries.iter_mut().filter(|entry| entry.setting == *setting) {
            entry.ours = got.clone();
        }
        self.held.rewrite(&self.document)
    }

    /// Only these are still to be put back; with none left the record is removed.
    pub(crate) fn leave(&mut self, entries: Vec<Entry>) -> Result<(), JournalError> {
        self.document.entries = entries;
        if self.document.entries.is_empty() { self.held.remove() } else { self.held.rewrite(&self.document) }
    }

    /// From here on the record is nobody's, and its changes are meant to stay.
    pub(crate) fn keep(mut self) -> Result<(), JournalError> {
        if self.document.entries.is_empty() {
            return self.held.remove();
        }
        self.document.kept = true;
        self.held.rewrite(&self.document)
    }
}

/// Reads a record, and takes hold of it if nobody else does; `None` if it has gone meanwhile.
pub(super) fn read_record(path: &Path) -> Result<Option<Found>, JournalError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(file_error("open", path, source)),
    };
    let is_held = match file.try_lock() {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(source)) => return Err(file_error("lock", path, source)),
    };
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|source| file_error("read", path, source))?;
    let document =
        serde_json::from_slice(&text).map_err(|source| JournalError::Malformed { path: path.to_owned(), source })?;
    let abandoned = (!is_held).then(|| Held { path: path.to_owned(), _lock: file });
    Ok(Some(Found { document, abandoned }))
}

/// The number of a record; `None` for other files.
pub(super) fn sequence(path: &Path) -> Option<u64> {
    (path.extension()? == EXTENSION).then_some(())?;
    path.file_stem()?.to_str()?.parse().ok()
}

/// What tells one start of the machine from another; empty where the kernel does not say.
pub(super) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

const EXTENSION: &str = "json";
