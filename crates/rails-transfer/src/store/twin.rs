//! Hard links: further names of files that the same batch has stored or kept.

use super::{Store, because, inside, place};
use crate::{path::RelPath, proto::MAX_TWINS, reason::Reason, stamp::Identity};
use cap_std::fs::{Dir, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, CWD, linkat};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::File,
    io,
    os::fd::AsRawFd,
    sync::{Mutex, PoisonError},
};

/// The files of a batch of which other names follow, at most [`MAX_TWINS`] of them.
///
/// The receiver knows them by device and inode: when another name of one comes, it links the file
/// that has the path then only if that is the same one.
#[derive(Debug, Default)]
pub(super) struct Twins(Mutex<BTreeSet<Identity>>);

impl Twins {
    pub(super) fn add(&self, file: &Metadata) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_TWINS {
            known.insert((file.dev(), file.ino()));
        }
    }

    pub(super) fn has(&self, identity: Identity) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&identity)
    }
}

impl Store {
    /// Gives a file of this batch a further name, in place of a file or a link.
    pub(crate) fn make_twin(&self, path: &RelPath, target: &RelPath) -> Result<(), Reason> {
        let (dir, name) = (self.folder_of(path)?, path.name());
        let (file, of) = self.open_twin(target)?;
        let there = match inside(&dir, || dir.symlink_metadata(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            there => Some(there.map_err(because("inspect the entry of this name"))?),
        };
        if there.as_ref().is_some_and(|there| (there.dev(), there.ino()) == of) {
            return Ok(());
        }
        place(&dir, path, there.as_ref(), |name| link(&file, &dir, name), |_| Ok(()))
    }

    /// Opens a file of this batch. A handle that is a path alone (open(2), `O_PATH`) needs no
    /// permission on the file.
    fn open_twin(&self, path: &RelPath) -> Result<(File, Identity), Reason> {
        let dir = self.folder_of(path)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW);
        let opened = inside(&dir, || dir.open_with(path.name(), &options));
        let file = opened.map_err(because("open the file to link to"))?.into_std();
        let there = Metadata::from_file(&file).map_err(because("inspect the file to link to"))?;
        let identity = (there.dev(), there.ino());
        if !there.is_file() || !self.twins.has(identity) {
            return Err(Reason::new(format_args!("receiver: {path} is no file of this batch that may be linked to")));
        }
        Ok((file, identity))
    }
}

/// Gives an open file a name in a folder. The name that `/proc` has for the handle is the file
/// itself, even if its path leads to another file by now.
fn link(file: &File, dir: &Dir, name: &OsStr) -> io::Result<()> {
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, itself, dir, name, AtFlags::SYMLINK_FOLLOW)?)
}
