//! Data that do not fit their header.

use super::MAX_AXIS_NAMES_BYTES;
use crate::manifest::{ManifestError, ManifestProblem};

/// An error in the data of a file, compared with its header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A variable begins in the header.
    #[error("the variable `{name}` begins at byte {offset}, in the header of {header_bytes} bytes")]
    InsideHeader {
        /// The name of the variable.
        name: String,
        /// The offset of its first element.
        offset: u64,
        /// The length of the header.
        header_bytes: u64,
    },
    /// A variable ends behind the end of the file.
    #[error("the variable `{name}` ends at byte {end}, and the file has {file_bytes} bytes")]
    Truncated {
        /// The name of the variable.
        name: String,
        /// The end of its last element.
        end: u64,
        /// The size of the file.
        file_bytes: u64,
    },
    /// Records overlap.
    #[error("records of the variable `{name}` have {bytes} bytes, and begin every {stride}")]
    Overlap {
        /// The name of the variable.
        name: String,
        /// The length of a record.
        bytes: u64,
        /// The stated distance of records.
        stride: u64,
    },
    /// The sizes of a variable do not fit.
    #[error("the variable `{name}` is no array")]
    Variable {
        /// The name of the variable.
        name: String,
        /// The cause.
        #[source]
        problem: ManifestProblem,
    },
    /// The size of a record does not fit 64 bits.
    #[error("the size of a record does not fit 64 bits")]
    RecordSize,
    /// The names of the axes of all variables are too long together.
    #[error("the names of the axes of all variables have more than {MAX_AXIS_NAMES_BYTES} bytes together")]
    AxisNames,
    /// The arrays make no manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}
