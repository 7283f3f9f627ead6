//! Saved machines of any kind.

use crate::{CaptureError, SnapshotError, SysfsError, Topology, XmlError};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// A saved machine could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The file itself could not be read.
    #[error("cannot read `{path}`", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The first bytes are those of no known kind.
    #[error(
        "`{path}` is no saved machine: neither a capture (.tar.gz), nor a model in JSON, nor hwloc XML, nor a folder",
        path = path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// A capture could not be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A model in JSON could not be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// An hwloc XML file could not be read.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// A folder could not be read.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
}

/// The kind of a saved machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedKind {
    /// A capture in one file: [`Topology::from_capture`].
    Capture,
    /// A model in JSON: [`Topology::from_snapshot`].
    Snapshot,
    /// An hwloc XML file: [`Topology::from_xml`].
    HwlocXml,
    /// A folder with `/sys` and `/proc`: [`Topology::from_sysfs_root`].
    Folder,
}

impl SavedKind {
    /// The kind of a file by its first bytes: those of gzip, `{`, or `<`. `None` is another file.
    ///
    /// # Errors
    ///
    /// The error of reading it.
    pub fn of(path: impl AsRef<Path>) -> io::Result<Option<Self>> {
        let path = path.as_ref();
        if path.metadata()?.is_dir() {
            return Ok(Some(Self::Folder));
        }
        let mut first = Vec::new();
        File::open(path)?.take(LOOKED_AT).read_to_end(&mut first)?;
        let kind = || match first.iter().find(|byte| !byte.is_ascii_whitespace())? {
            b'{' => Some(Self::Snapshot),
            b'<' => Some(Self::HwlocXml),
            _ => None,
        };
        Ok(if first.starts_with(&GZIP) { Some(Self::Capture) } else { kind() })
    }
}

impl Topology {
    /// Reads a saved machine of any [kind](SavedKind).
    ///
    /// # Errors
    ///
    /// [`SavedError`], by kind.
    pub fn from_saved(path: impl AsRef<Path>) -> Result<Self, SavedError> {
        let path = path.as_ref();
        let kind = SavedKind::of(path).map_err(|source| SavedError::Read { path: path.to_owned(), source })?;
        Ok(match kind {
            Some(SavedKind::Capture) => captured(path)?,
            Some(SavedKind::Snapshot) => Self::from_snapshot(path)?,
            Some(SavedKind::HwlocXml) => Self::from_xml(path)?,
            Some(SavedKind::Folder) => Self::from_sysfs_root(path)?,
            None => return Err(SavedError::Unknown { path: path.to_owned() }),
        })
    }
}

#[cfg(feature = "captures")]
fn captured(path: &Path) -> Result<Topology, CaptureError> {
    Topology::from_capture(path)
}

#[cfg(not(feature = "captures"))]
fn captured(path: &Path) -> Result<Topology, CaptureError> {
    Err(CaptureError::WithoutCaptures { path: path.to_owned() })
}

/// Reads the file of a model, up to its limit.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_within(path, LONGEST)
}

fn read_within(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// The bytes that decide the kind; white space may come first.
const LOOKED_AT: u64 = 4096;

/// The first bytes of a gzip file (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The limit of a file's bytes, so that a device ends. A capture unpacks to as many at most.
const LONGEST: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn model_is_read_up_to_its_limit_and_no_further() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "{ }").unwrap();
        assert_eq!(read_within(file.path(), 3).unwrap(), b"{ }");
        assert_eq!(read_within(file.path(), 2).unwrap_err().to_string(), "it is longer than 2 bytes");
        file.as_file().set_len(LONGEST + 1).unwrap();
        let refused = Topology::from_saved(file.path()).unwrap_err();
        assert_eq!(refused.to_string(), format!("cannot read `{}`", file.path().display()));
        assert_eq!(refused.source().unwrap().to_string(), "it is longer than 268435456 bytes");
    }
}
