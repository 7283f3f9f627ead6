//! Errors in files that shall be one array.

use super::coordinate::CoordinateError;
use crate::{
    data_type::DataType,
    manifest::{AttributeValue, ManifestError, ManifestProblem, ObjectPath},
};
use rails_array::Shape;

/// An error in the files of a dataset.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StitchError {
    /// No file matches.
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

/// A difference between an array in two files.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// The type of the elements.
    #[error("its type is {found} and not {expected}")]
    DataType {
        /// The type in this file.
        found: DataType,
        /// The type in the first file.
        expected: DataType,
    },
    /// The names or the number of the axes.
    #[error("its axes are {found:?} and not {expected:?}")]
    Dimensions {
        /// The names in this file.
        found: Vec<String>,
        /// The names in the first file.
        expected: Vec<String>,
    },
    /// The extent of an axis other than that of the files.
    #[error("its extent on axis {axis} is {found} and not {expected}")]
    Extent {
        /// The axis.
        axis: usize,
        /// The extent in this file.
        found: u64,
        /// The extent in the first file.
        expected: u64,
    },
    /// An attribute that gives elements their meaning, such as `scale_factor`.
    #[error("its attribute `{name}` is {found:?} and not {expected:?}")]
    Attribute {
        /// The name of the attribute.
        name: &'static str,
        /// The attribute in this file.
        found: Option<AttributeValue>,
        /// The attribute in the first file.
        expected: Option<AttributeValue>,
    },
    /// The fill value.
    #[error("its fill value is {found:02x?} and not {expected:02x?}, little-endian")]
    FillValue {
        /// The fill value in this file.
        found: Option<Vec<u8>>,
        /// The fill value in the first file.
        expected: Option<Vec<u8>>,
    },
}
