//! The kernel's files in a folder: `/` of this machine, or a captured tree.

use super::source::{Kind, Source, without_links};
use cap_std::{
    ambient_authority,
    fs::{Dir, DirEntry, OpenOptions, OpenOptionsExt},
};
use std::{
    io::{self, Read},
    path::Path,
};

/// A folder that confines all paths.
///
/// A captured tree may come from an attacker, and its symlinks may point anywhere: paths out of the
/// root cannot be read (cap-std: `openat2` with `RESOLVE_BENEATH`).
pub(crate) struct Folder(Dir);

impl Folder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Dir::open_ambient_dir(path, ambient_authority())?))
    }
}

impl Source for Folder {
    fn file(&self, path: &str, longest: u64) -> io::Result<Vec<u8>> {
        // Without this flag, opening a FIFO would wait for a writer for ever.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(nix::libc::O_NONBLOCK);
        let mut file = self.0.open_with(path, &options)?;
        // A device could answer without end.
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut page = [0; PAGE];
        let read = file.read(&mut page[..PAGE.min(longest as usize)]).map_err(of_a_driver)?;
        let mut bytes = page[..read].to_vec();
        // A machine has thousands of these files, and a second read of each, only to find its end,
        // takes time.
        if read == PAGE || !path.starts_with("sys/") {
            file.take(longest - read as u64).read_to_end(&mut bytes).map_err(of_a_driver)?;
        }
        Ok(bytes)
    }

    fn is_folder(&self, path: &str) -> io::Result<bool> {
        Ok(self.0.metadata(path)?.is_dir())
    }

    fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<DirEntry>| entry.map(|entry| entry.file_name().into_string().ok()).transpose();
        self.0.read_dir(path)?.filter_map(name).collect()
    }

    fn link(&self, path: &str) -> io::Result<String> {
        let target = self.0.read_link_contents(path)?.into_os_string();
        target.into_string().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn real_path(&self, path: &str) -> io::Result<String> {
        // `Dir::canonicalize` would ask procfs, and panic where a sandbox refuses the calls by which that
        // is checked.
        let link = |path: &str| match self.0.read_link_contents(path) {
            Ok(target) => Ok(target.into_os_string().into_string().ok()),
            // Something else is there (readlink(2)).
            Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) => Ok(None),
            Err(error) => Err(error),
        };
        without_links(path, true, link)
    }

    fn kind(&self, path: &str) -> io::Result<Kind> {
        let kind = self.0.symlink_metadata(path)?.file_type();
        Ok(match () {
            () if kind.is_dir() => Kind::Folder,
            () if kind.is_symlink() => Kind::Link,
            () if kind.is_file() => Kind::File,
            () => Kind::Other,
        })
    }
}

/// The error of reading an open file: a driver answers EIO where its device states nothing.
fn of_a_driver(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(nix::libc::EIO) { io::ErrorKind::InvalidData.into() } else { error }
}

/// The most that a file of sysfs gives at once; fewer bytes are its end
/// (Documentation/filesystems/sysfs.rst in the kernel's sources).
const PAGE: usize = 4096;
