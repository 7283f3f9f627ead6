//! The journal: the record of each change, written before the change, for the process that has to
//! put it back.
//!
//! A folder has one record (a JSON file) per guard, with the progress of each change. The owner
//! locks the record while it lives; the kernel drops the lock when the owner ends in any way, so a
//! record without a lock belongs to a dead process.

mod file_lock;
mod record;

pub(super) use self::record::OpenRecord as LiveRecord;
use self::record::{Document, OpenRecord, read_record};
pub use self::record::{Owner, Record};
use super::{Host, PutBack, Setting, Value, put_back::put_back};
use std::{
    collections::HashMap,
    env,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// A folder of records.
#[derive(Debug, Clone)]
pub struct Journal {
    folder: PathBuf,
}

/// The records to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undo {
    /// Records of owners that died without putting their changes back.
    Abandoned,
    /// Abandoned records, and the kept ones ([`SettingsGuard::keep`](super::SettingsGuard::keep)).
    AbandonedAndKept,
}

/// The result of undoing one setting of a record.
#[derive(Debug)]
#[non_exhaustive]
pub struct Undone {
    /// The record's owner.
    pub owner: Owner,
    /// The setting.
    pub setting: Setting,
    /// The outcome.
    pub outcome: PutBack,
}

/// The error of reading or writing a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Neither `/run/rails` nor `$XDG_RUNTIME_DIR/rails` can be used.
    #[error("no folder for the journal: {} cannot be used, and XDG_RUNTIME_DIR names no other", path.display())]
    NoFolder {
        /// The first that was tried.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// A file of the journal could not be read or written.
    #[error("cannot {call} {}", path.display())]
    File {
        /// The operation.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// Others could put records there, and undoing writes a record's values with the privileges of
    /// its caller.
    #[error("{} cannot hold a journal: others can write to it (user {owner}, mode {mode:03o})", path.display())]
    OpenToOthers {
        /// The folder.
        path: PathBuf,
        /// The folder's owner.
        owner: u32,
        /// The folder's permissions.
        mode: u32,
    },

    /// Another process is changing settings and does not finish: it may have been stopped.
    #[error("another process has been holding {} for {} s; it may have been stopped", path.display(), PATIENCE.as_secs())]
    Busy {
        /// The lock (`fuser FILE` says whose).
        path: PathBuf,
    },

    /// A record cannot be read; no change is made while it exists.
    #[error("{} is no record of the journal; look at it, and remove it", path.display())]
    Malformed {
        /// The record.
        path: PathBuf,
        /// The fault.
        source: serde_json::Error,
    },
}

impl Journal {
    /// The folder of the machine's journal. file-hierarchy(7): runtime data of system packages, on
    /// a file system in memory.
    pub const MACHINE: &str = "/run/rails";

    /// The machine's journal, [`Journal::MACHINE`]; for a user who may not write there,
    /// `$XDG_RUNTIME_DIR/rails`. A reboot removes both, and resets the settings. A relative
    /// `XDG_RUNTIME_DIR` is ignored, as its specification demands.
    ///
    /// # Errors
    /// [`JournalError::NoFolder`], [`JournalError::OpenToOthers`].
    pub fn standard() -> Result<Self, JournalError> {
        let machine = Path::new(Self::MACHINE);
        let refused = match Self::at(machine) {
            Ok(journal) => return Ok(journal),
            Err(JournalError::File { source, .. }) => source,
            Err(error) => return Err(error),
        };
        match env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute()) {
            Some(folder) => Self::at(folder.join("rails")),
            None => Err(JournalError::NoFolder { path: machine.to_owned(), source: refused }),
        }
    }

    /// The journal in this folder, which is made if it does not exist. This process must be able to
    /// write to the folder, and no other user but user 0; the folders above it are not checked.
    ///
    /// # Errors
    /// [`JournalError::File`], [`JournalError::OpenToOthers`].
    pub fn at(folder: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let journal = Self { folder: folder.into() };
        // The mode keeps others from opening a file: a process that can open one, even for reading,
        // can lock it and keep all others out.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&journal.folder);
        made.map_err(|source| file_error("make", &journal.folder, source))?;
        journal.lock_file()?;
        Ok(journal)
    }

    /// The journal's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The journal's records, oldest first.
    ///
    /// # Errors
    /// [`JournalError::File`], [`JournalError::Malformed`], [`JournalError::Busy`].
    pub fn records(&self) -> Result<Vec<Record>, JournalError> {
        let session = self.session()?;
        let opened: Result<Vec<_>, _> = session.paths()?.iter().map(|path| read_record(path)).collect();
        Ok(opened?.iter().flatten().map(record::Found::summary).collect())
    }

    /// Puts recorded changes back, the latest first. The changes of living processes, and settings
    /// that another program has changed since, stay; with `force` the latter are put back too.
    ///
    /// # Errors
    /// [`JournalError`]; a setting that could not be put back is no error: its [`Undone::outcome`]
    /// says so, and its record stays.
    pub fn undo(&self, host: &Host, which: Undo, force: bool) -> Result<Vec<Undone>, JournalError> {
        self.session()?.undo(host, which, force)
    }

    /// Keeps every other process from reading or changing the journal until the session is dropped.
    pub(super) fn session(&self) -> Result<Session<'_>, JournalError> {
        self.session_within(PATIENCE)
    }

    fn session_within(&self, patience: Duration) -> Result<Session<'_>, JournalError> {
        let lock = self.lock_file()?;
        let path = self.folder.join(LOCK);
        let began = Instant::now();
        loop {
            match file_lock::try_lock(&lock) {
                Ok(true) => return Ok(Session { journal: self, lock }),
                Ok(false) if began.elapsed() >= patience => return Err(JournalError::Busy { path }),
                Ok(false) => thread::sleep(BETWEEN_TRIES),
                Err(source) => return Err(file_error("lock", &path, source)),
            }
        }
    }

    fn lock_file(&self) -> Result<File, JournalError> {
        self.is_ours_alone()?;
        let path = self.folder.join(LOCK);
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| file_error("open", &path, source))
    }

    /// Fails if a user other than this one and user 0 could put records there.
    fn is_ours_alone(&self) -> Result<(), JournalError> {
        let path = &self.folder;
        let folder = fs::metadata(path).map_err(|source| file_error("look at", path, source))?;
        let (owner, mode) = (folder.uid(), folder.mode() & 0o777);
        let is_ours = owner == 0 || owner == nix::unistd::geteuid().as_raw();
        if is_ours && mode & 0o022 == 0 {
            return Ok(());
        }
        Err(JournalError::OpenToOthers { path: path.clone(), owner, mode })
    }
}

/// A living process that holds a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct LiveHolder {
    /// The process's number, in its own PID namespace.
    pub(super) pid: u32,
    /// Whether the holder is this process.
    pub(super) is_own: bool,
}

/// The journal under its lock.
#[derive(Debug)]
pub(super) struct Session<'a> {
    journal: &'a Journal,
    lock: File,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // A forked child has the file open too; unlocking frees the lock for both, closing does
        // not.
        let _ = file_lock::unlock(&self.lock);
    }
}

impl Session<'_> {
    pub(super) fn undo(&self, host: &Host, which: Undo, force: bool) -> Result<Vec<Undone>, JournalError> {
        let mut undone = Vec::new();
        let live = self.live()?;
        for path in self.paths()?.iter().rev() {
            let Some(found) = read_record(path)? else { continue };
            let Some(mut open) = found.abandoned else { continue };
            if found.document.kept && which == Undo::Abandoned {
                continue;
            }
            if found.document.boot != record::boot_id() {
                // The machine has been rebooted since, which has reset its settings.
                open.remove()?;
                continue;
            }
            let mut left = Vec::new();
            for entry in found.document.entries.iter().rev() {
                let outcome = match live.get(&entry.setting) {
                    Some(holder) => PutBack::Held { by: holder.pid },
                    None => put_back(host, entry, force),
                };
                // A setting that another program has changed since stays recorded, so that it can still be put back
                // by force.
                if !outcome.is_final() || matches!(outcome, PutBack::ChangedSince { .. }) {
                    left.insert(0, entry.clone());
                }
                let owner = found.document.owner.clone();
                undone.push(Undone { owner, setting: entry.setting.clone(), outcome });
            }
            if left.is_empty() {
                open.remove()?;
            } else {
                open.rewrite(&Document { entries: left, ..found.document })?;
            }
        }
        Ok(undone)
    }

    /// The changes of living processes that are not put back yet.
    pub(super) fn live(&self) -> Result<HashMap<Setting, LiveHolder>, JournalError> {
        let mut live = HashMap::new();
        for path in self.paths()? {
            if let Some(found) = read_record(&path)?.filter(|found| found.abandoned.is_none()) {
                let is_own = record::is_own(&self.journal.folder, &path)?;
                let holder = LiveHolder { pid: found.document.owner.pid, is_own };
                live.extend(found.document.entries.into_iter().map(|entry| (entry.setting, holder)));
            }
        }
        Ok(live)
    }

    /// Writes a new record, and locks it.
    pub(super) fn begin(
        &self,
        entries: impl IntoIterator<Item = (Setting, Value, Value)>,
    ) -> Result<OpenRecord, JournalError> {
        let last = self.paths()?.last().and_then(|path| record::sequence(path)).unwrap_or(0);
        OpenRecord::create(&self.journal.folder, last + 1, entries)
    }

    /// The records, oldest first.
    fn paths(&self) -> Result<Vec<PathBuf>, JournalError> {
        let folder = &self.journal.folder;
        let failed = |source| file_error("list", folder, source);
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if record::sequence(&path).is_some() {
                paths.push(path);
            }
        }
        paths.sort_by_key(|path| record::sequence(path));
        Ok(paths)
    }
}

fn file_error(call: &'static str, path: &Path, source: io::Error) -> JournalError {
    JournalError::File { call, path: path.to_owned(), source }
}

const LOCK: &str = "lock";
/// Changing settings takes milliseconds, moving the memory of a large process seconds.
const PATIENCE: Duration = Duration::from_secs(10);
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// For [`crate::fuzzing`]: a record that can be read is written so that it reads the same, and can
/// be shown.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(bytes: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Document>(bytes) else { return };
    let written = serde_json::to_vec(&document).expect("a record has no map whose keys are not strings");
    let read: Document = serde_json::from_slice(&written).expect("the written document can be read");
    assert_eq!(serde_json::to_vec(&read).ok(), Some(written));
    let found = record::Found { document, abandoned: None };
    for (former, change) in found.summary().changes {
        let _ = (former.to_string(), change.setting.to_string(), change.command());
    }
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz_seeds() -> Vec<Vec<u8>> {
    use super::{
        Change,
        put_back::{Entry, Progress},
    };
    let cpus = |list: &str| list.parse().expect("it is a list of CPUs");
    let entries = [Change::interrupt(24, cpus("0-3")), Change::ban(24)].map(|Change { setting, value }| Entry {
        setting,
        former: value.clone(),
        ours: value,
        progress: Progress::Made,
    });
    let owner = Owner { pid: 77, command: "rails-bench doctor".to_owned() };
    let boot = "9d1c6e0e-0000-4000-8000-000000000000".to_owned();
    let document = Document { boot, owner, kept: false, entries: entries.into() };
    vec![serde_json::to_vec(&document).expect("a record has no map whose keys are not strings")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_wait_for_a_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::at(folder.path()).expect("it is ours");
        let session = journal.session().expect("the journal is free");
        let error = journal.session_within(Duration::ZERO).expect_err("somebody has it");
        assert!(matches!(&error, JournalError::Busy { path } if *path == folder.path().join(LOCK)), "{error}");
        drop(session);
        journal.session_within(Duration::ZERO).expect("the journal is free");
    }
}
