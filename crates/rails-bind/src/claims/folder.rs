//! The folder of the claims, and the files in it.

use super::{
    ClaimError,
    resource::{ClaimFile, Kind},
    user::{self, ROOT},
};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, open, openat, renameat},
    sys::stat::{Mode, fchmod, fstat, fstatat},
    unistd::{Gid, Uid, UnlinkatFlags, fchown, linkat, unlinkat},
};
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::PathBuf,
};

/// A folder in which every user may make files, and remove only their own.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

/// The identity of a file, under any path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// The open folder: files are reached by its descriptor, so that no process can exchange the folder
/// in between.
#[derive(Debug)]
pub(super) struct OpenFolder<'a> {
    folder: &'a Folder,
    descriptor: OwnedFd,
}

impl Folder {
    /// Opens the folder; `None` if it does not exist.
    pub(super) fn open(&self) -> Result<Option<OpenFolder<'_>>, ClaimError> {
        // Not by a link: where the kernel protects links in sticky folders (`fs.protected_symlinks`), users
        // would be led to different folders.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match open(&self.path, flags, Mode::empty()) {
            Ok(descriptor) => Ok(Some(OpenFolder { folder: self, descriptor })),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.unusable("open", errno.into())),
        }
    }

    /// Opens the folder, and makes it first if it does not exist. Root takes the folder over from
    /// another user, who could close it or remove files, and moves anything else of another user
    /// out of its place.
    pub(super) fn open_or_make(&self) -> Result<OpenFolder<'_>, ClaimError> {
        for _ in 0..TRIES {
            match self.open() {
                Ok(Some(open)) => {
                    open.take_over().map_err(|errno| self.unusable("take over", errno.into()))?;
                    return Ok(open);
                }
                Ok(None) => self.make().map_err(|source| self.unusable("make", source))?,
                Err(_) if is_foreign(fs::symlink_metadata(&self.path).ok().map(|found| found.uid())) => {
                    let aside = hidden(self.path.file_name().unwrap_or_default(), "aside");
                    aside
                        .and_then(|aside| fs::rename(&self.path, self.path.with_file_name(aside)))
                        .map_err(|source| self.unusable("put aside", source))?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(ClaimError::Unsteady { path: self.path.clone() })
    }

    /// Makes the folder, open to every user from the first moment on: it gets its mode under
    /// another name, because the umask limits the mode of a new folder.
    fn make(&self) -> io::Result<()> {
        let Some(name) = self.path.file_name() else { return Err(io::ErrorKind::NotFound.into()) };
        if let Some(parent) = self.path.parent() {
            DirBuilder::new().recursive(true).create(parent)?;
        }
        let mut beside = Err(io::ErrorKind::AlreadyExists.into());
        for _ in 0..TRIES {
            let path = self.path.with_file_name(hidden(name, "new")?);
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => beside = made.map(|()| path),
            }
            break;
        }
        let beside = beside?;
        let put = fs::set_permissions(&beside, Permissions::from_mode(0o1777))
            // The rename replaces an empty folder that another process has just made; one with
            // files stays.
            .and_then(|()| fs::rename(&beside, &self.path));
        if let Err(error) = put {
            // No other process uses it; an empty folder left behind does no harm.
            let _ = fs::remove_dir(&beside);
            return if self.path.symlink_metadata().is_ok() { Ok(()) } else { Err(error) };
        }
        Ok(())
    }

    /// The kinds that have files, in order: those of the first [`MAX_KINDS`], as any user can make
    /// more.
    pub(super) fn kinds(&self) -> Result<BTreeSet<Kind>, ClaimError> {
        let failed = |source| self.unusable("list", source);
        let mut kinds = BTreeSet::new();
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(kinds),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let claim_file = entry.map_err(failed)?.file_name().to_str().and_then(ClaimFile::of_file);
            kinds.extend(claim_file.map(|claim_file| claim_file.kind));
            if kinds.len() > MAX_KINDS {
                kinds.pop_last();
            }
        }
        Ok(kinds)
    }

    fn unusable(&self, call: &'static str, source: io::Error) -> ClaimError {
        ClaimError::Folder { call, path: self.path.clone(), source }
    }
}

impl OpenFolder<'_> {
    fn take_over(&self) -> Result<(), Errno> {
        let found = fstat(&self.descriptor)?;
        if is_foreign(Some(found.st_uid)) {
            fchown(&self.descriptor, Some(Uid::from_raw(ROOT)), Some(Gid::from_raw(ROOT)))?;
            fchmod(&self.descriptor, Mode::from_bits_truncate(0o1777))?;
        }
        Ok(())
    }

    /// Moves away, as root, anything else in the place of a file. Returns whether something was
    /// moved.
    pub(super) fn put_aside(&self, claim_file: &ClaimFile) -> bool {
        let name = claim_file.file_name();
        let found = fstatat(&self.descriptor, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        let Ok(aside) = hidden(name.as_ref(), "aside") else { return false };
        is_foreign(found.ok().map(|found| found.st_uid))
            && renameat(&self.descriptor, name.as_str(), &self.descriptor, aside.as_os_str()).is_ok()
    }

    pub(super) fn path_of(&self, claim_file: &ClaimFile) -> PathBuf {
        self.folder.path.join(claim_file.file_name())
    }

    /// The identity of the file of that name; `None` if there is none.
    pub(super) fn look(&self, claim_file: &ClaimFile) -> Result<Option<FileId>, ClaimError> {
        match fstatat(&self.descriptor, claim_file.file_name().as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if claim_file.overrides && found.st_uid != ROOT => Ok(None),
            Ok(found) if found.st_mode & nix::libc::S_IFMT != nix::libc::S_IFREG => {
                Err(ClaimError::NotAFile { path: self.path_of(claim_file) })
            }
            #[allow(clippy::unnecessary_cast, reason = "the fields are narrower on some machines")]
            Ok(found) => Ok(Some(FileId { device: found.st_dev as u64, inode: found.st_ino as u64 })),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.failed("look at", claim_file, errno)),
        }
    }

    /// Opens the file to lock bytes, or else only to see the locks; `None` if there is none. It is
    /// not created here: where the kernel protects files in sticky folders
    /// (`fs.protected_regular`), `O_CREAT` refuses other users' files.
    pub(super) fn open_file(
        &self,
        claim_file: &ClaimFile,
        to_lock: bool,
    ) -> Result<Option<(FileId, File)>, ClaimError> {
        let access = if to_lock { OFlag::O_RDWR } else { OFlag::O_RDONLY };
        // `O_NONBLOCK`: opening a pipe would wait for its other end.
        let flags = access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match openat(&self.descriptor, claim_file.file_name().as_str(), flags, Mode::empty()) {
            Ok(descriptor) => File::from(descriptor),
            Err(Errno::ENOENT) => return Ok(None),
            // A link, a socket, or a file whose owner has a lease on it, which `O_NONBLOCK` does not wait for.
            Err(Errno::ELOOP | Errno::ENXIO | Errno::EWOULDBLOCK) => {
                return Err(ClaimError::NotAFile { path: self.path_of(claim_file) });
            }
            Err(errno) => return Err(self.failed("open", claim_file, errno)),
        };
        let metadata = file.metadata().map_err(|source| ClaimError::File {
            call: "look at",
            path: self.path_of(claim_file),
            source,
        })?;
        if !metadata.is_file() {
            return Err(ClaimError::NotAFile { path: self.path_of(claim_file) });
        }
        if claim_file.overrides && metadata.uid() != ROOT {
            return Ok(None);
        }
        Ok(Some((FileId { device: metadata.dev(), inode: metadata.ino() }, file)))
    }

    /// Makes the file, unless there is one, or the folder has been removed. Every user can write to
    /// the file from the first moment on, as with the folder.
    pub(super) fn make_file(&self, claim_file: &ClaimFile) -> Result<(), ClaimError> {
        for _ in 0..TRIES {
            let beside = hidden(claim_file.file_name().as_ref(), "new");
            let beside = beside.map_err(|source| self.folder.unusable("name a file in", source))?;
            let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let file = match openat(&self.descriptor, beside.as_os_str(), flags, Mode::from_bits_truncate(0o600)) {
                Ok(file) => file,
                Err(Errno::EEXIST) => continue,
                // The folder itself has been removed: the caller opens it anew.
                Err(Errno::ENOENT) => return Ok(()),
                Err(errno) => return Err(self.folder.unusable("make a file in", errno.into())),
            };
            // Root alone overrides; others see root's locks.
            let mode = if claim_file.overrides { 0o644 } else { 0o666 };
            if claim_file.overrides {
                self.put_aside(claim_file);
            }
            let linked = fchmod(&file, Mode::from_bits_truncate(mode)).and_then(|()| {
                linkat(
                    &self.descriptor,
                    beside.as_os_str(),
                    &self.descriptor,
                    claim_file.file_name().as_str(),
                    AtFlags::empty(),
                )
            });
            // A name that is left behind does no harm.
            let _ = unlinkat(&self.descriptor, beside.as_os_str(), UnlinkatFlags::NoRemoveDir);
            return match linked {
                Ok(()) | Err(Errno::EEXIST | Errno::ENOENT) => Ok(()),
                Err(errno) => Err(self.failed("make", claim_file, errno)),
            };
        }
        Err(self.failed("make", claim_file, Errno::EEXIST))
    }

    fn failed(&self, call: &'static str, claim_file: &ClaimFile, errno: Errno) -> ClaimError {
        ClaimError::File { call, path: self.path_of(claim_file), source: errno.into() }
    }
}

/// Whether the calling process is root's, and this user is not root.
fn is_foreign(user: Option<u32>) -> bool {
    user::is_root() && user.is_some_and(|user| user != ROOT)
}

/// A hidden name beside this one that no other process can have used.
fn hidden(name: &OsStr, what: &str) -> io::Result<OsString> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{what}.{:016x}", u64::from_ne_bytes(random)));
    Ok(hidden)
}

/// More than any machine has interfaces with claimed queues.
const MAX_KINDS: usize = 1024;

/// The number of tries of a step that other processes may undo. Each try takes microseconds.
pub(super) const TRIES: usize = 16;
