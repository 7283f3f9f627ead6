//! Errors in dataset files.

use rails_array::ShapeError;

/// An error in a dataset file, with its place.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{file}:{line}: {}{problem}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
#[non_exhaustive]
pub struct DatasetFileError {
    /// The name of the file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The key, from the outermost table down; empty where the text is no TOML.
    pub key: String,
    /// The cause.
    pub problem: DatasetFileProblem,
}

/// The cause of a [`DatasetFileError`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetFileProblem {
    /// The file is longer than a dataset file may be.
    #[error("the file has {bytes} bytes, and a dataset file has at most {max_bytes}")]
    TooLong {
        /// The size of the file.
        bytes: usize,
        /// The largest size.
        max_bytes: usize,
    },
    /// The file is not UTF-8.
    #[error("the file is not UTF-8")]
    NotText,
    /// The text is no TOML, has an unknown key or lacks one, or a value has another type.
    #[error("{reason}")]
    Malformed {
        /// The parser's words.
        reason: String,
    },
    /// A name is empty.
    #[error("the name is empty")]
    NoName,
    /// Two arrays, or two views of one, have the same name.
    #[error("the name `{name}` is there twice")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// There is no array.
    #[error("a dataset has an array")]
    NoArray,
    /// A list of files is empty.
    #[error("an array has files")]
    NoFiles,
    /// A pattern of files is none.
    #[error("`{pattern}` is no pattern: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The cause.
        reason: String,
    },
    /// The order is that of the list, and the list has a pattern.
    #[error("the order is that of the list, and `{pattern}` may be several files")]
    ListedPattern {
        /// The pattern.
        pattern: String,
    },
    /// A raw file is not described, or another one is.
    #[error("`raw` describes files of the format `raw`, and no others")]
    Raw,
    /// The key has a meaning only for files along an axis.
    #[error("`along` has to name the axis")]
    NotAlong,
    /// The pattern of a file's coordinate has not exactly one place for the number.
    #[error("`{pattern}` has not exactly one `{{}}`")]
    CoordinatePattern {
        /// The pattern.
        pattern: String,
    },
    /// A number is not finite, or a step is zero.
    #[error("{value} is no {what}")]
    Number {
        /// The number.
        value: f64,
        /// The meaning that it should have.
        what: &'static str,
    },
    /// An extent of a block or of a partition is zero.
    #[error("an extent is zero")]
    ZeroExtent,
    /// The extents are no shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Two lists have not one entry for each axis both.
    #[error("{count} numbers do not fit the {other} of `{key}`")]
    Rank {
        /// The number of numbers.
        count: usize,
        /// The other key.
        key: &'static str,
        /// The number of its numbers.
        other: usize,
    },
    /// The end of a view does not fit 64 bits.
    #[error("the end of the view does not fit 64 bits")]
    ViewEnd,
    /// A principal is not one.
    #[error("`{principal}` is not `user:`, `group:`, `node:` or `key:` with a name")]
    Principal {
        /// The text.
        principal: String,
    },
    /// A replica is empty.
    #[error("the place of a replica is empty")]
    Replica,
}
