//! Names of the files that hold chunks.

use serde::{Deserialize, Serialize};
use std::{fmt, path::Path};

/// The path of a file below the root of its dataset.
///
/// A path is relative and leads nowhere but down: it has no part `..`, `.` or without a name, no
/// NUL, and at most [`MAX_BYTES`](Self::MAX_BYTES).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectPath(String);

/// An error in the path of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectPathError {
    /// The path has no or too many bytes.
    #[error("the path of a file has 1 to {} bytes, and this one has {bytes}", ObjectPath::MAX_BYTES)]
    Length {
        /// The number of bytes.
        bytes: usize,
    },
    /// The path has a byte 0.
    #[error("the path {path:?} contains NUL")]
    Nul {
        /// The path.
        path: String,
    },
    /// The path begins at the root of the file system.
    #[error("the path {path:?} is absolute")]
    Absolute {
        /// The path.
        path: String,
    },
    /// A part of the path is `..`, `.` or empty.
    #[error("the path {path:?} has the part {part:?}")]
    Part {
        /// The path.
        path: String,
        /// The part.
        part: String,
    },
}

impl ObjectPath {
    /// The largest length of a path, that of Linux without the NUL (`PATH_MAX`).
    pub const MAX_BYTES: usize = 4095;

    /// Checks a path.
    ///
    /// # Errors
    /// [`ObjectPathError`], if the path may lead out of the root.
    pub fn new(path: impl Into<String>) -> Result<Self, ObjectPathError> {
        let path = path.into();
        if path.is_empty() || path.len() > Self::MAX_BYTES {
            return Err(ObjectPathError::Length { bytes: path.len() });
        }
        if path.contains('\0') {
            return Err(ObjectPathError::Nul { path });
        }
        if path.starts_with('/') {
            return Err(ObjectPathError::Absolute { path });
        }
        if let Some(part) = path.split('/').find(|part| matches!(*part, "" | "." | "..")) {
            return Err(ObjectPathError::Part { part: part.to_owned(), path });
        }
        Ok(Self(path))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ObjectPath {
    type Error = ObjectPathError;

    fn try_from(path: String) -> Result<Self, ObjectPathError> {
        Self::new(path)
    }
}

impl From<ObjectPath> for String {
    fn from(path: ObjectPath) -> Self {
        path.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_down() {
        for path in ["a", "a/b.nc", "..a/b..", "..."] {
            assert_eq!(ObjectPath::new(path).unwrap().as_str(), path);
        }
        for path in ["", "/etc/passwd", "..", "a/../b", "a/..", "./a", "a//b", "a/", "a\0b"] {
            assert!(ObjectPath::new(path).is_err(), "{path:?}");
        }
        assert_eq!(ObjectPath::new("a/../b").unwrap_err().to_string(), r#"the path "a/../b" has the part "..""#);
    }

    #[test]
    fn the_length_is_limited() {
        assert!(ObjectPath::new("a".repeat(ObjectPath::MAX_BYTES)).is_ok());
        assert!(ObjectPath::new("a".repeat(ObjectPath::MAX_BYTES + 1)).is_err());
    }

    #[test]
    fn serde_checks() {
        assert!(serde_json::from_str::<ObjectPath>("\"a/b\"").is_ok());
        assert!(serde_json::from_str::<ObjectPath>("\"../b\"").is_err());
    }
}
