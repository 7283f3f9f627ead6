//! One record: a file that is whole or absent, locked by its owner.

use super::{JournalError, file_error, file_lock};
use crate::settings::{
    Change, Setting, Value,
    put_back::{Entry, Progress},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The owner of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Owner {
    /// The number of the owner's process, in the PID namespace of that process: another namespace
    /// may have another process of that number.
    pub pid: u32,
    /// The command line of the owner's process.
    pub command: String,
}

/// The contents of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The record's owner.
    pub owner: Owner,
    /// Whether the owner lives, and will put the changes back itself.
    pub is_live: bool,
    /// Whether the owner kept the changes.
    pub is_kept: bool,
    /// The changes: the former and the requested value of each setting.
    pub changes: Vec<(Value, Change)>,
}

/// A record in its file.
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
    /// The record, locked by this process; `None` if its owner holds it.
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
    lock: File,
}

impl Held {
    /// Replaces the record's text in one step, and locks the new file.
    pub(super) fn rewrite(&mut self, document: &Document) -> Result<(), JournalError> {
        let beside = self.path.with_extension("new");
        let failed = |call| move |source| (call, source);
        let write = || {
            // A killed process may have left an unlocked file there.
            match fs::remove_file(&beside) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(("remove", source)),
                _ => {}
            }
            let mut file =
                File::options().write(true).create_new(true).mode(0o600).open(&beside).map_err(failed("make"))?;
            if !file_lock::try_lock(&file).map_err(failed("lock"))? {
                return Err(("lock", io::ErrorKind::WouldBlock.into()));
            }
            let text = serde_json::to_vec_pretty(document).expect("a record has no map whose keys are not strings");
            file.write_all(&text).map_err(failed("write"))?;
            file.sync_all().map_err(failed("write"))?;
            fs::rename(&beside, &self.path).map_err(failed("rename"))?;
            Ok(file)
        };
        self.lock = write().map_err(|(call, source)| file_error(call, &beside, source))?;
        Ok(())
    }

    pub(super) fn remove(&mut self) -> Result<(), JournalError> {
        fs::remove_file(&self.path).map_err(|source| file_error("remove", &self.path, source))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A forked child has the file open too; unlocking frees the lock for both, closing does
        // not.
        let _ = file_lock::unlock(&self.lock);
    }
}

/// A record of this process, locked until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenRecord {
    held: Held,
    document: Document,
    /// Whether the file has the text of `document`.
    is_written: bool,
    /// Dropped after `held`.
    _own: OwnRecord,
}

impl OpenRecord {
    pub(super) fn create(
        folder: &Path,
        sequence: u64,
        entries: impl IntoIterator<Item = (Setting, Value, Value)>,
    ) -> Result<Self, JournalError> {
        let entries: Vec<Entry> = { entries.into_iter() }
            .map(|(setting, former, ours)| Entry { setting, former, ours, progress: Progress::Planned })
            .collect();
        let command: Vec<String> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let owner = Owner { pid: process::id(), command: command.join(" ") };
        let document = Document { boot: boot_id(), owner, kept: false, entries };
        let path = folder.join(format!("{sequence:010}.{EXTENSION}"));
        // The lock of the journal is held, so no other process takes the same number; until the record's
        // text is complete there is no file of that name, and `rewrite` puts it there in one step.
        let lock = File::open(folder).map_err(|source| file_error("open", folder, source))?;
        let id = record_id(&lock, sequence).map_err(|source| file_error("look at", folder, source))?;
        let mut held = Held { path, lock };
        held.rewrite(&document)?;
        Ok(Self { held, document, is_written: true, _own: OwnRecord::new(id) })
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.document.entries
    }

    /// Records that the setting is changed next, together with the values [`made`](Self::made) of
    /// the settings before it.
    pub(crate) fn begin(&mut self, setting: &Setting) -> Result<(), JournalError> {
        self.advance(setting, Progress::Changing, None);
        self.settle()
    }

    /// Notes the value that the kernel made of the request, which is written with the next change
    /// that [begins](Self::begin), or when the record [settles](Self::settle).
    pub(crate) fn made(&mut self, setting: &Setting, got: &Value) {
        self.advance(setting, Progress::Made, Some(got));
    }

    fn advance(&mut self, setting: &Setting, progress: Progress, got: Option<&Value>) {
        for entry in self.document.entries.iter_mut().filter(|entry| entry.setting == *setting) {
            entry.progress = progress;
            if let Some(got) = got {
                entry.ours = got.clone();
            }
            self.is_written = false;
        }
    }

    /// Removes a setting that was not changed: it must not be put back, and others may change it.
    pub(crate) fn forget(&mut self, setting: &Setting) {
        self.document.entries.retain(|entry| entry.setting != *setting);
        self.is_written = false;
    }

    /// Writes the pending values.
    pub(crate) fn settle(&mut self) -> Result<(), JournalError> {
        if !self.is_written {
            self.held.rewrite(&self.document)?;
            self.is_written = true;
        }
        Ok(())
    }

    /// Keeps only these changes for putting back; without any the record is removed.
    pub(crate) fn leave(&mut self, entries: Vec<Entry>) -> Result<(), JournalError> {
        self.document.entries = entries;
        if self.document.entries.is_empty() { self.held.remove() } else { self.held.rewrite(&self.document) }
    }

    /// Gives the record up: it has no owner from here on, and its changes stay.
    pub(crate) fn keep(mut self) -> Result<(), JournalError> {
        if self.document.entries.is_empty() {
            return self.held.remove();
        }
        self.document.kept = true;
        self.held.rewrite(&self.document)
    }
}

/// A record by its folder's device and inode, and by its own number.
type RecordId = (u64, u64, u64);

fn record_id(folder: &File, sequence: u64) -> io::Result<RecordId> {
    let folder = folder.metadata()?;
    Ok((folder.dev(), folder.ino(), sequence))
}

/// A mark that this process holds a record, until it is dropped. The lock on a record does not say
/// which process holds it; nor does the process number, which another PID namespace may have too.
#[derive(Debug)]
struct OwnRecord(RecordId);

impl OwnRecord {
    fn new(id: RecordId) -> Self {
        own_records().1.insert(id);
        Self(id)
    }
}

impl Drop for OwnRecord {
    fn drop(&mut self) {
        own_records().1.remove(&self.0);
    }
}

/// The records that this process holds.
fn own_records() -> MutexGuard<'static, (u32, BTreeSet<RecordId>)> {
    static OWN: Mutex<(u32, BTreeSet<RecordId>)> = Mutex::new((0, BTreeSet::new()));
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if own.0 != process::id() {
        // A forked child: the records are its parent's.
        *own = (process::id(), BTreeSet::new());
    }
    own
}

/// Whether this process holds the record.
pub(super) fn is_own(folder: &Path, path: &Path) -> Result<bool, JournalError> {
    let failed = |source| file_error("look at", folder, source);
    let folder = File::open(folder).map_err(failed)?;
    let Some(sequence) = sequence(path) else { return Ok(false) };
    let id = record_id(&folder, sequence).map_err(failed)?;
    Ok(own_records().1.contains(&id))
}

/// Reads a record, and locks it if no other process holds it; `None` if it has gone.
pub(super) fn read_record(path: &Path) -> Result<Option<Found>, JournalError> {
    let (mut file, is_held) = loop {
        // A lock for writing takes a file that is open for it.
        let file = match File::options().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(file_error("open", path, source)),
        };
        let is_held = !file_lock::try_lock(&file).map_err(|source| file_error("lock", path, source))?;
        // The owner may have replaced or removed the record after it was opened and before it was locked.
        // Such a file has no owner.
        if is_the_one_at(&file, path).map_err(|source| file_error("look at", path, source))? {
            break (file, is_held);
        }
    };
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|source| file_error("read", path, source))?;
    let document =
        serde_json::from_slice(&text).map_err(|source| JournalError::Malformed { path: path.to_owned(), source })?;
    let abandoned = (!is_held).then(|| Held { path: path.to_owned(), lock: file });
    Ok(Some(Found { document, abandoned }))
}

fn is_the_one_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((opened.dev(), opened.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The number of a record; `None` for other files.
pub(super) fn sequence(path: &Path) -> Option<u64> {
    (path.extension()? == EXTENSION).then_some(())?;
    path.file_stem()?.to_str()?.parse().ok()
}

/// The identity of this boot of the machine; empty if unknown.
pub(super) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

const EXTENSION: &str = "json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_and_removed_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, beside) = (folder.path().join("0000000001.json"), folder.path().join("0000000001.new"));
        let is_the_one = |file: &File| is_the_one_at(file, &path).expect("the folder can be read");
        fs::write(&path, "former").expect("it can be written");
        let former = File::open(&path).expect("it is there");
        assert!(is_the_one(&former));
        fs::write(&beside, "latter").expect("it can be written");
        fs::rename(&beside, &path).expect("it can be renamed");
        assert!(!is_the_one(&former));
        assert!(is_the_one(&File::open(&path).expect("it is there")));
        fs::remove_file(&path).expect("it is there");
        assert!(!is_the_one(&former));
    }
}
