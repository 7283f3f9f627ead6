//! The claims of this process: the files that it has open, and the numbers that it holds in each.
//!
//! Record locks have two traps (fcntl_locking(2)), for which there is one registry for the whole
//! process. They do not conflict within a process: the registry knows what the process holds. And
//! closing *any* descriptor of a file drops all locks that the process has on it: the registry has
//! one descriptor for each file, and never closes it. A file that was removed keeps its descriptor
//! too, so that no other file gets its inode's number.

use super::{
    ClaimError,
    folder::{FileId, Folder, OpenFolder, TRIES},
    record_lock::{self, Locked, Owner},
    resource::{ClaimFile, Numbers, Span, spans},
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::File,
    io, mem,
    ops::Deref,
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Debug)]
pub(super) struct Registry {
    /// The process that holds the locks; a forked child has none of them.
    pid: u32,
    files: BTreeMap<FileId, OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    held: Numbers,
}

/// Numbers that were taken in one file.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) file: FileId,
    pub(super) claim_file: ClaimFile,
    pub(super) numbers: Numbers,
}

/// The reason why numbers were not taken.
#[derive(Debug)]
pub(super) enum NotTaken {
    Held { number: u32, owner: Owner },
    Failed(ClaimError),
}

impl From<ClaimError> for NotTaken {
    fn from(error: ClaimError) -> Self {
        Self::Failed(error)
    }
}

/// The registry, locked for the calling thread.
pub(super) fn registry() -> MutexGuard<'static, Registry> {
    // Nothing is half changed where a panic could leave it.
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = process::id();
    if registry.pid != pid {
        // A forked child: the locks are its parent's. It has inherited the descriptors, and locks are a
        // process's own, so it can take and drop its own through the same descriptors.
        registry.files.values_mut().for_each(|open| open.held = Numbers::new());
        registry.pid = pid;
    }
    registry
}

impl Registry {
    /// Takes all of these numbers, or none.
    pub(super) fn take(
        &mut self,
        folder: &Folder,
        claim_file: &ClaimFile,
        numbers: &Numbers,
    ) -> Result<Taken, NotTaken> {
        let mut path = folder.path.clone();
        for _ in 0..TRIES {
            let open_folder = folder.open_or_make()?;
            path = open_folder.path_of(claim_file);
            let file = match self.open(&open_folder, claim_file) {
                Ok(Some(file)) => file,
                Ok(None) => {
                    open_folder.make_file(claim_file)?;
                    continue;
                }
                Err(ClaimError::NotAFile { .. }) if open_folder.put_aside(claim_file) => continue,
                Err(error) => return Err(error.into()),
            };
            let open = self.files.get_mut(&file).expect("it was opened just now");
            if let Some(number) = open.held.intersection(numbers).first() {
                return Err(NotTaken::Held { number: number.0, owner: Owner::Process(process::id()) });
            }
            let failed = |source| ClaimError::File { call: "lock", path: path.clone(), source };
            match open.lock(numbers).map_err(failed)? {
                Some((number, owner)) => return Err(NotTaken::Held { number, owner }),
                // Another process may have removed the file, or the folder, before it was locked.
                None if is_the_one_there(folder, claim_file, file) => {
                    open.held = open.held.union(numbers);
                    return Ok(Taken { file, claim_file: claim_file.clone(), numbers: numbers.clone() });
                }
                None => open.unlock(numbers).map_err(failed)?,
            }
        }
        Err(ClaimError::Unsteady { path }.into())
    }

    /// Releases numbers that [`take`](Self::take) has taken.
    pub(super) fn let_go(&mut self, taken: &Taken) -> io::Result<()> {
        let open = self.files.get_mut(&taken.file).expect("a file of claims stays open");
        // A lock that the kernel does not drop stays with this process.
        open.unlock(&taken.numbers)?;
        open.held = open.held.difference(&taken.numbers);
        Ok(())
    }

    /// The locks on these numbers, as the kernel lists them; `None` without a file.
    pub(super) fn locked(
        &self,
        folder: &OpenFolder<'_>,
        claim_file: &ClaimFile,
        within: &[Span],
    ) -> Result<Option<(FileId, Vec<Locked>)>, ClaimError> {
        let Some(file) = folder.look(claim_file)? else { return Ok(None) };
        let (file, opened) = match self.files.get(&file) {
            Some(open) => (file, Opened::Kept(&open.file)),
            None => match folder.open_file(claim_file, false)? {
                None => return Ok(None),
                // The file has been replaced by one that this process has open: closing it would
                // drop its locks.
                Some((file, again)) if self.files.contains_key(&file) => {
                    mem::forget(again);
                    (file, Opened::Kept(&self.files[&file].file))
                }
                // This process has no lock on it, and no other thread takes one before it is closed.
                Some((file, opened)) => (file, Opened::ForNow(opened)),
            },
        };
        let failed = |source| ClaimError::File { call: "look for locks on", path: folder.path_of(claim_file), source };
        let mut all = Vec::new();
        for span in within {
            match record_lock::all_locked(&opened, *span, MAX_LOCKS).map_err(failed)? {
                Ok(locks) => all.extend(locks),
                Err(last) => {
                    return Err(ClaimError::TooManyLocks {
                        path: folder.path_of(claim_file),
                        max: MAX_LOCKS,
                        pid: last.owner.pid(),
                    });
                }
            }
        }
        Ok(Some((file, all)))
    }

    /// Opens the file, unless it is open; `None` if there is none.
    fn open(&mut self, folder: &OpenFolder<'_>, claim_file: &ClaimFile) -> Result<Option<FileId>, ClaimError> {
        let Some(file) = folder.look(claim_file)? else { return Ok(None) };
        if self.files.contains_key(&file) {
            return Ok(Some(file));
        }
        let Some((id, file)) = folder.open_file(claim_file, true)? else { return Ok(None) };
        match self.files.entry(id) {
            Entry::Vacant(place) => {
                place.insert(OpenFile { file, held: Numbers::new() });
            }
            // The file was put back there in between; closing it would drop the locks of this
            // process.
            Entry::Occupied(_) => mem::forget(file),
        }
        Ok(Some(id))
    }
}

impl OpenFile {
    /// Locks all of these numbers or none; returns the first that could not be locked, with its
    /// owner.
    fn lock(&self, numbers: &Numbers) -> io::Result<Option<(u32, Owner)>> {
        let spans = spans(numbers);
        for (index, span) in spans.iter().enumerate() {
            let locked = self.lock_span(*span);
            if !matches!(locked, Ok(None)) {
                spans[..index].iter().try_for_each(|span| record_lock::unlock(&self.file, *span))?;
                return locked;
            }
        }
        Ok(None)
    }

    fn lock_span(&self, span: Span) -> io::Result<Option<(u32, Owner)>> {
        for _ in 0..TRIES {
            if record_lock::lock(&self.file, span)? {
                return Ok(None);
            }
            // The holder may have unlocked in between.
            if let Some(found) = record_lock::locked(&self.file, span)? {
                return Ok(Some((found.span.first, found.owner)));
            }
        }
        Ok(Some((span.first, Owner::Unseen)))
    }

    fn unlock(&self, numbers: &Numbers) -> io::Result<()> {
        spans(numbers).into_iter().try_for_each(|span| record_lock::unlock(&self.file, span))
    }
}

/// Whether the path still leads to this file.
fn is_the_one_there(folder: &Folder, claim_file: &ClaimFile, file: FileId) -> bool {
    let there = folder.open().ok().flatten().and_then(|folder| folder.look(claim_file).ok().flatten());
    there == Some(file)
}

/// A file of the registry, or one that is closed after use.
enum Opened<'a> {
    Kept(&'a File),
    ForNow(File),
}

impl Deref for Opened<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        match self {
            Self::Kept(file) => file,
            Self::ForNow(file) => file,
        }
    }
}

/// The number of locks of a file that are listed at most: every other CPU of 8,192. Listing as many
/// takes half a second.
const MAX_LOCKS: usize = 4096;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { pid: 0, files: BTreeMap::new() });
