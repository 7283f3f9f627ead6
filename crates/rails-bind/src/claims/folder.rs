//! The folder of the claims, and the files in it.

use super::{ClaimError, resource::Kind};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, open, openat},
    sys::stat::{Mode, fchmod, fstatat},
    unistd::{UnlinkatFlags, linkat, unlinkat},
};
use std::{
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::PathBuf,
    process,
};

/// A folder that every user may put files into, and take only his own out of.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

/// The identity of a file, however it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// The folder while it is open: its files are reached by its descriptor, so that nobody can put another folder in its
/// place in between.
#[derive(Debug)]
pub(super) struct OpenFolder<'a> {
    folder: &'a Folder,
    descriptor: OwnedFd,
}

impl Folder {
    /// Opens it; `None` if it is not there.
    pub(super) fn open(&self) -> Result<Option<OpenFolder<'_>>, ClaimError> {
        // Not by a link: where the kernel protects links in sticky folders (`fs.protected_symlinks`), users would be
        // led to different folders.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match open(&self.path, flags, Mode::empty()) {
            Ok(descriptor) => Ok(Some(OpenFolder { folder: self, descriptor })),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.unusable("open", errno.into())),
        }
    }

    /// Opens it, and makes it first if it is not there.
    pub(super) fn open_or_make(&self) -> Result<OpenFolder<'_>, ClaimError> {
        for _ in 0..TRIES {
            if let Some(open) = self.open()? {
                return Ok(open);
            }
            self.make().map_err(|source| self.unusable("make", source))?;
        }
        Err(ClaimError::Unsteady { path: self.path.clone() })
    }

    /// Makes it, open to every user from the first moment on: it is made under another name, as the umask has a say in
    /// the mode of a folder that is made.
    fn make(&self) -> io::Result<()> {
        let Some(name) = self.path.file_name() else { return Err(io::ErrorKind::NotFound.into()) };
        if let Some(parent) = self.path.parent() {
            DirBuilder::new().recursive(true).create(parent)?;
        }
        let mut beside = Err(io::ErrorKind::AlreadyExists.into());
        for attempt in 0..TRIES {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}.{attempt}", process::id()));
            let path = self.path.with_file_name(hidden);
            // A killed process may have left one of that name.
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => beside = made.map(|()| path),
            }
            break;
        }
        let beside = beside?;
        let put = fs::set_permissions(&beside, Permissions::from_mode(0o1777))
            // An empty folder that somebody else has just made is replaced, which nobody notices; one with files stays.
            .and_then(|()| fs::rename(&beside, &self.path));
        if let Err(error) = put {
            // Nobody else uses it; an empty folder left behind does no harm.
            let _ = fs::remove_dir(&beside);
            return if self.path.symlink_metadata().is_ok() { Ok(()) } else { Err(error) };
        }
        Ok(())
    }

    /// The kinds that there are files of, in order.
    pub(super) fn kinds(&self) -> Result<Vec<Kind>, ClaimError> {
        let failed = |source| self.unusable("list", source);
        let mut kinds = Vec::new();
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(kinds),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            kinds.extend(entry.map_err(failed)?.file_name().to_str().and_then(Kind::of_file));
        }
        kinds.sort();
        Ok(kinds)
    }

    fn unusable(&self, call: &'static str, source: io::Error) -> ClaimError {
        ClaimError::Folder { call, path: self.path.clone(), source }
    }
}

impl OpenFolder<'_> {
    pub(super) fn path_of(&self, kind: &Kind) -> PathBuf {
        self.folder.path.join(kind.file())
    }

    /// The file that has the name now; `None` if there is none.
    pub(super) fn look(&self, kind: &Kind) -> Result<Option<FileId>, ClaimError> {
        match fstatat(&self.descriptor, kind.file().as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if found.st_mode & nix::libc::S_IFMT != nix::libc::S_IFREG => {
                Err(ClaimError::NotAFile { path: self.path_of(kind) })
            }
            #[allow(clippy::unnecessary_cast, reason = "the fields are narrower on some machines")]
            Ok(found) => Ok(Some(FileId { device: found.st_dev as u64, inode: found.st_ino as u64 })),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.failed("look at", kind, errno)),
        }
    }

    /// Opens it to lock bytes, or else only to see the locks; `None` if there is none. It is not made here: where the
    /// kernel protects files in sticky folders (`fs.protected_regular`), `O_CREAT` refuses other users' files.
    pub(super) fn open_file(&self, kind: &Kind, to_lock: bool) -> Result<Option<(FileId, File)>, ClaimError> {
        let access = if to_lock { OFlag::O_RDWR } else { OFlag::O_RDONLY };
        // `O_NONBLOCK`: to open a pipe would wait for its other end.
        let flags = access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match openat(&self.descriptor, kind.file().as_str(), flags, Mode::empty()) {
            Ok(descriptor) => File::from(descriptor),
            Err(Errno::ENOENT) => return Ok(None),
            // A link, or a socket.
            Err(Errno::ELOOP | Errno::ENXIO) => return Err(ClaimError::NotAFile { path: self.path_of(kind) }),
            Err(errno) => return Err(self.failed("open", kind, errno)),
        };
        let metadata =
            file.metadata().map_err(|source| ClaimError::File { call: "look at", path: self.path_of(kind), source })?;
        if !metadata.is_file() {
            return Err(ClaimError::NotAFile { path: self.path_of(kind) });
        }
        Ok(Some((FileId { device: metadata.dev(), inode: metadata.ino() }, file)))
    }

    /// Makes it, unless there is one, or the folder has been removed. As the folder, it can be written by every user from the first moment on.
    pub(super) fn make_file(&self, kind: &Kind) -> Result<(), ClaimError> {
        for attempt in 0..TRIES {
            let beside = format!(".new.{}.{attempt}", process::id());
            let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let file = match openat(&self.descriptor, beside.as_str(), flags, Mode::from_bits_truncate(0o600)) {
                Ok(file) => file,
                Err(Errno::EEXIST) => continue,
                // The folder itself has been removed: the caller opens it anew.
                Err(Errno::ENOENT) => return Ok(()),
                Err(errno) => return Err(self.folder.unusable("make a file in", errno.into())),
            };
            let linked = fchmod(&file, Mode::from_bits_truncate(0o666)).and_then(|()| {
                linkat(&self.descriptor, beside.as_str(), &self.descriptor, kind.file().as_str(), AtFlags::empty())
            });
            // One that is left behind does no harm.
            let _ = unlinkat(&self.descriptor, beside.as_str(), UnlinkatFlags::NoRemoveDir);
            return match linked {
                Ok(()) | Err(Errno::EEXIST | Errno::ENOENT) => Ok(()),
                Err(errno) => Err(self.failed("make", kind, errno)),
            };
        }
        Err(self.failed("make", kind, Errno::EEXIST))
    }

    fn failed(&self, call: &'static str, kind: &Kind, errno: Errno) -> ClaimError {
        ClaimError::File { call, path: self.path_of(kind), source: errno.into() }
    }
}

/// How often something is tried again that somebody else has just undone. Each try takes microseconds.
pub(super) const TRIES: usize = 16;
