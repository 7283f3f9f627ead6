//! Headers of files: the errors of their parsers, and the conversation with a parser that reads
//! nothing itself.
//!
//! A parser gets the first bytes of a file and the file's size. The answer is the header, or the
//! length of the prefix that the parser needs ([`Step`]); the caller reads it and asks again.

pub(crate) mod cursor;
mod index_error;

pub use index_error::IndexError;

/// The largest sum of the lengths of the names of all axes of all arrays of a file, in bytes.
///
/// A header has the name of a dimension once and a manifest once for each axis, so that a long name
/// and many variables would take far more memory than the header has bytes.
pub const MAX_AXIS_NAMES_BYTES: u64 = 16 << 20;

/// Whether the names of axes are within [`MAX_AXIS_NAMES_BYTES`].
pub(crate) fn do_names_fit<'a>(mut names: impl Iterator<Item = &'a String>) -> bool {
    let sum =
        names.try_fold(0_u64, |sum, name| Some(sum + name.len() as u64).filter(|sum| *sum <= MAX_AXIS_NAMES_BYTES));
    sum.is_some()
}

/// The answer of a parser to the first bytes of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<T> {
    /// The header.
    Done(T),
    /// The header is longer than the bytes that were given.
    NeedsPrefix {
        /// The length of the prefix to parse next: longer than the last one, and no longer than the
        /// file.
        bytes: u64,
    },
}

/// An error in the header of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {offset}: {problem}")]
#[non_exhaustive]
pub struct HeaderError {
    /// The field, and the lists around it with the numbers of their entries.
    pub field: String,
    /// The offset of the field in the file.
    pub offset: u64,
    /// The cause.
    pub problem: HeaderProblem,
}

/// The cause of a [`HeaderError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderProblem {
    /// The file begins with other bytes than the format's.
    #[error("the file is not of this format")]
    Magic,
    /// The version of the format is unknown.
    #[error("version {found} of the format is unknown")]
    Version {
        /// The file's version.
        found: u32,
    },
    /// The file ends before the field does.
    #[error("it would end at byte {end}, and the file has {file_bytes} bytes")]
    Truncated {
        /// The end of the field.
        end: u64,
        /// The size of the file.
        file_bytes: u64,
    },
    /// The header is longer than the parser reads.
    #[error("the header is longer than {max_bytes} bytes")]
    TooLong {
        /// The largest length.
        max_bytes: u64,
    },
    /// The header does not end where it says.
    #[error("the header is said to have {stated} bytes, and its lists end at byte {end}")]
    Length {
        /// The stated length.
        stated: u64,
        /// The end of the last list.
        end: u64,
    },
    /// A list has more entries than its file has room for.
    #[error("{count} entries are stated, and there is room for {max}")]
    Count {
        /// The stated number.
        count: u64,
        /// The number for which there is room.
        max: u64,
    },
    /// A field has a value that the format does not know.
    #[error("the value {found} is unknown here")]
    Value {
        /// The field's value.
        found: u64,
    },
    /// The field refers to an entry of a list that is not there.
    #[error("entry {found} is meant, and there are {count}")]
    Reference {
        /// The number in the field.
        found: u64,
        /// The number of entries.
        count: u64,
    },
    /// Text is not UTF-8.
    #[error("the text is not UTF-8")]
    NotText,
    /// A name is empty.
    #[error("the name is empty")]
    NoName,
    /// Two entries of a list have the same name.
    #[error("the name `{name}` is there twice")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Two dimensions are record dimensions.
    #[error("there is a record dimension already: `{name}`")]
    SecondRecordDimension {
        /// The first one.
        name: String,
    },
    /// A variable has the record dimension behind another one.
    #[error("the record dimension is not the first one of the variable")]
    RecordDimensionInside,
    /// There are more dimensions than an array has axes.
    #[error("there are {count} dimensions, and at most {max} are read")]
    Rank {
        /// The number of dimensions.
        count: u64,
        /// The largest number.
        max: u64,
    },
    /// A size does not fit 64 bits.
    #[error("the size does not fit 64 bits")]
    Size,
}
