//! Errors in the metadata of Zarr.

use crate::manifest::{ManifestProblem, ObjectPath, ObjectPathError};

/// An error in the metadata of an array or a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} of `{file}` cannot be read", if array.is_empty() { "the group".into() } else { format!("the array `{array}`") })]
#[non_exhaustive]
pub struct ZarrError {
    /// The file with the metadata.
    pub file: ObjectPath,
    /// The name of the array, or of a folder below that is none; empty for the group of a store.
    pub array: String,
    /// The cause.
    #[source]
    pub problem: ZarrProblem,
}

/// The cause of a [`ZarrError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZarrProblem {
    /// The file is longer than metadata may be.
    #[error("the metadata have {bytes} bytes, and at most {max_bytes} are read")]
    TooLong {
        /// The size of the file.
        bytes: u64,
        /// The largest size.
        max_bytes: u64,
    },
    /// The text is no JSON, or not that of an array or a group.
    #[error("the metadata are malformed: {reason}")]
    Malformed {
        /// The parser's words.
        reason: String,
    },
    /// The type of the elements is unknown.
    #[error("the data type {data_type} is unknown")]
    DataType {
        /// The type, as the metadata have it.
        data_type: String,
    },
    /// A codec is unknown, or its place or its configuration is.
    #[error("the codec `{codec}` is not understood: {reason}")]
    Codec {
        /// The name of the codec.
        codec: String,
        /// The cause.
        reason: String,
    },
    /// Something else that the metadata name is unknown.
    #[error("the {field} `{name}` is unknown")]
    Unknown {
        /// The field of the metadata.
        field: &'static str,
        /// The value of the field.
        name: String,
    },
    /// The fill value is no element.
    #[error("the fill value {value} is no {data_type}")]
    FillValue {
        /// The fill value.
        value: String,
        /// The type of the elements.
        data_type: String,
    },
    /// The chunks of a shard do not fill it.
    #[error("chunks of shape {chunk_shape:?} do not fill shards of shape {shard_shape:?}")]
    Shard {
        /// The shape of a chunk.
        chunk_shape: Vec<u64>,
        /// The shape of a shard.
        shard_shape: Vec<u64>,
    },
    /// The name of an array leads elsewhere.
    #[error(transparent)]
    Path(#[from] ObjectPathError),
    /// The array is no array of a manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestProblem),
}
