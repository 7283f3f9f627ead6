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
    /// A section has other codecs than are known.
    #[error("a section has exactly one codec, and that is `Bytes`")]
    Codecs,
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
