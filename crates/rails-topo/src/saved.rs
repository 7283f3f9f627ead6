//! A saved machine of whatever kind.

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
        /// What the system answered.
        source: io::Error,
    },
    /// The file begins as none of the kinds does.
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

impl Topology {
    /// Reads a saved machine, of which the content shows what it is: a capture ([`from_capture`](Self::from_capture)), a model in JSON
    /// ([`from_snapshot`](Self::from_snapshot)), hwloc XML ([`from_xml`](Self::from_xml)) or a folder
    /// ([`from_sysfs_root`](Self::from_sysfs_root)).
    ///
    /// # Errors
    ///
    /// [`SavedError`], by kind.
    pub fn from_saved(path: impl AsRef<Path>) -> Result<Self, SavedError> {
        let path = path.as_ref();
        let failed = |source| SavedError::Read { path: path.to_owned(), source };
        if path.metadata().map_err(failed)?.is_dir() {
            return Ok(Self::from_sysfs_root(path)?);
        }
        let mut first = Vec::new();
        File::open(path).map_err(failed)?.take(LOOKED_AT).read_to_end(&mut first).map_err(failed)?;
        if first.starts_with(&GZIP) {
            return Ok(Self::from_capture(path)?);
        }
        match first.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => Ok(Self::from_snapshot(path)?),
            Some(b'<') => Ok(Self::from_xml(path)?),
            _ => Err(SavedError::Unknown { path: path.to_owned() }),
        }
    }
}

/// How much of a file is looked at; white space may come first.
const LOOKED_AT: u64 = 4096;

/// RFC 1952, 2.3.1.
const GZIP: [u8; 2] = [0x1f, 0x8b];
