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

/// The bytes that decide the kind; white space may come first.
const LOOKED_AT: u64 = 4096;

/// The first bytes of a gzip file (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
