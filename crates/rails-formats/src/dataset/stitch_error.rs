//! Errors in files that shall be one array.

use super::{coordinate::CoordinateError, difference::Difference};
use crate::manifest::{ManifestError, ManifestProblem, ObjectPath};
use rails_array::Shape;

/// An error in the files of a dataset.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StitchError {
    /// No file matches any of these patterns.
    #[error("the array `{array}` has no file that matches {patterns:?}")]
    NoFiles {
        /// The array.
        array: String,
        /// The patterns.
        patterns: Vec<String>,
    },
    /// There are several files, and no axis.
    #[error("the array `{array}` has {files} files, and `along` names no axis")]
    SeveralFiles {
        /// The array.
        array: String,
        /// The number of files.
        files: usize,
    },
    /// A file is there twice.
    #[error("the array `{array}` has the file `{file}` twice")]
    DuplicateFile {
        /// The array.
        array: String,
        /// The file.
        file: ObjectPath,
    },
    /// A file lacks the array.
    #[error("the array `{array}` needs the variable `{variable}`, which the file `{file}` has not")]
    NoVariable {
        /// The array.
        array: String,
        /// The file.
        file: ObjectPath,
        /// The name in the file.
        variable: String,
    },
    /// The array has no such axis.
    #[error("the array `{array}` has no axis `{along}` in the file `{file}`, but {dimensions:?}")]
    NoAxis {
        /// The array.
        array: String,
        /// The file.
        file: ObjectPath,
        /// The axis.
        along: String,
        /// The names of the axes, of which those without one are empty.
        dimensions: Vec<String>,
    },
    /// A file does not agree with the first one.
    #[error("the array `{array}` differs in the file `{file}` from that in `{first}`: {difference}")]
    Differs {
        /// The array.
        array: String,
        /// The file.
        file: ObjectPath,
        /// The first file.
        first: ObjectPath,
        /// The difference.
        difference: Box<Difference>,
    },
    /// The array is in sections along another axis in its file already.
    #[error("the array `{array}` is in parts along another axis in the file `{file}`")]
    Nested {
        /// The array.
        array: String,
        /// The file.
        file: ObjectPath,
    },
    /// The order is that of an attribute that a file lacks.
    #[error("the files of the array `{array}` are in the order of `{attribute}`, which the file `{file}` has not")]
    OrderAttribute {
        /// The array.
        array: String,
        /// The file.
        file: ObjectPath,
        /// The attribute.
        attribute: String,
    },
    /// The attribute does not say which of two files is first.
    #[error("the attribute `{attribute}` does not order the files `{file}` and `{other}` of the array `{array}`")]
    OrderUnclear {
        /// The array.
        array: String,
        /// The attribute.
        attribute: String,
        /// The one file.
        file: ObjectPath,
        /// The other one.
        other: ObjectPath,
    },
    /// The coordinates are no axis.
    #[error("the axis of the array `{array}` is wrong")]
    Coordinate {
        /// The array.
        array: String,
        /// The cause.
        #[source]
        error: Box<CoordinateError>,
    },
    /// Blocks, partitions or a view do not fit the array.
    #[error("the `{key}` of the array `{array}` does not fit its shape {shape}")]
    Layout {
        /// The array.
        array: String,
        /// The key in the dataset file.
        key: String,
        /// The shape of the array.
        shape: Shape,
    },
    /// The sections make no array.
    #[error("the array `{array}` is wrong")]
    Array {
        /// The array.
        array: String,
        /// The cause.
        #[source]
        problem: Box<ManifestProblem>,
    },
    /// The arrays make no manifest.
    #[error(transparent)]
    Manifest(#[from] Box<ManifestError>),
}
