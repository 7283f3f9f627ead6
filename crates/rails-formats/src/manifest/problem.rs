//! Errors in arrays.

use crate::data_type::DataType;
use rails_array::{Shape, ShapeError};

/// An error in one array of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestProblem {
    /// The extents are no shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// There is not one name for each axis.
    #[error("{names} names of dimensions do not fit {rank} axes")]
    DimensionNames {
        /// The number of names.
        names: usize,
        /// The number of axes.
        rank: usize,
    },
    /// The fill value is not one element.
    #[error("a fill value of {bytes} bytes is not one {dtype}")]
    FillValue {
        /// The number of bytes.
        bytes: usize,
        /// The type of the elements.
        dtype: DataType,
    },
    /// The sections follow each other on an axis that is not there, or a scalar has not one
    /// section.
    #[error("sections along axis {along} do not fit an array of {rank} axes")]
    Axis {
        /// The axis.
        along: usize,
        /// The number of axes.
        rank: usize,
    },
    /// The sections are more or less than the array.
    #[error("the sections end at {end}, and the array's extent is {extent}")]
    Extent {
        /// The sum of the sections.
        end: u64,
        /// The extent of the array.
        extent: u64,
    },
    /// A chunk has another number of axes, or no elements.
    #[error("chunks of shape {chunk_shape} do not fit a section of shape {shape}")]
    ChunkShape {
        /// The shape of a chunk.
        chunk_shape: Box<Shape>,
        /// The shape of the section.
        shape: Box<Shape>,
    },
    /// The codecs of a section do not follow each other.
    #[error("the codecs of a section are any number of `Transpose`, one `Bytes`, and any from bytes to bytes")]
    Codecs,
    /// A section has more codecs than a chunk may have.
    #[error("there are {count} codecs, and a chunk has at most {max}")]
    CodecCount {
        /// The number of codecs.
        count: usize,
        /// The largest number.
        max: usize,
    },
    /// The order of axes of a transposition does not have each axis once.
    #[error("{order:?} is no order of {rank} axes")]
    AxisOrder {
        /// The order.
        order: Vec<usize>,
        /// The number of axes.
        rank: usize,
    },
    /// A chunk that is read whole is larger than such chunks may be.
    #[error("a chunk of {bytes} bytes is read whole, and such a chunk has at most {max_bytes}")]
    ChunkTooLong {
        /// The size of its elements.
        bytes: u64,
        /// The largest size.
        max_bytes: u64,
    },
    /// The name of a chunk's file may be longer than a path.
    #[error("the name of a chunk's file may have {bytes} bytes, and a path has at most {max_bytes}")]
    KeyLength {
        /// The length of the longest name.
        bytes: usize,
        /// The largest length.
        max_bytes: usize,
    },
    /// A file of several chunks has too many, none, or not one number for each axis.
    #[error("a shard of {chunks:?} chunks has none, more than {max}, or other axes than the array")]
    Shard {
        /// The number of chunks along each axis.
        chunks: Vec<u64>,
        /// The largest number.
        max: u64,
    },
    /// A regular section has not one stride for each axis.
    #[error("{strides} strides do not fit {rank} axes")]
    Strides {
        /// The number of strides.
        strides: usize,
        /// The number of axes.
        rank: usize,
    },
    /// A list of chunks has another length than its grid.
    #[error("{count} chunks are listed, and the grid has {expected}")]
    ChunkCount {
        /// The number of listed chunks.
        count: u64,
        /// The number of chunks of the grid.
        expected: u64,
    },
    /// A chunk has another length than its elements.
    #[error("a chunk has {length} bytes, and its elements take {expected}")]
    ChunkLength {
        /// The length of the chunk.
        length: u64,
        /// The length of its elements.
        expected: u64,
    },
    /// A size or an offset does not fit 64 bits.
    #[error("a size or an offset does not fit 64 bits")]
    TooLarge,
}
