//! A file of an array, indexed.

use crate::manifest::{Manifest, ObjectPath};

/// A file of an array, and its manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceFile {
    /// The name of the file below the root.
    pub file: ObjectPath,
    /// The arrays of the file.
    pub manifest: Manifest,
    /// The values of the coordinate variable, if the array's coordinates come from one.
    pub coordinates: Option<Vec<f64>>,
}
