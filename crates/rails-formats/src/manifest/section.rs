//! Sections: boxes of an array that one regular grid of chunks fills.

use super::{
    codec::{Codec, Steps},
    description::ArrayDescription,
    keyed::KeyedChunks,
    problem::ManifestProblem,
};
use crate::data_type::{DataType, Endianness};
use rails_array::Shape;
use serde::{Deserialize, Serialize};

/// A stretch of an array along one of its axes, and the place of each of its chunks.
///
/// A section covers the array on all other axes. Chunks are counted from the section's first
/// element, so the files of an array need not be as long as each other. A chunk that
/// reaches over an end of its section is stored whole, as in Zarr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The extent along the axis.
    pub extent: u64,
    /// The shape of a chunk; each extent is at least 1.
    pub chunk_shape: Shape,
    /// The steps from elements to stored bytes, in the order of encoding.
    pub codecs: Vec<Codec>,
    /// The places of the chunks.
    pub placement: Placement,
}

/// The places of the chunks of a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Placement {
    /// Chunks of one length in one file. The chunk with the grid index `i` begins at
    /// `offset + i[0] * strides[0] + i[1] * strides[1] + ...`: a sequence of any number of chunks
    /// takes the room of one.
    Regular {
        /// The number of the file.
        object: u32,
        /// The offset of the first chunk.
        offset: u64,
        /// The distance in bytes of neighbours along each axis of the grid.
        strides: Vec<u64>,
        /// The length of each chunk in bytes.
        length: u64,
    },
    /// Each chunk by itself, in C order of the grid.
    Listed(Vec<ChunkSource>),
    /// Each chunk in a file that is named by the chunk's place in the grid.
    Keyed(KeyedChunks),
}

/// The place of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ChunkSource {
    /// Bytes of a file.
    Range(ByteRange),
    /// The chunk's stored bytes themselves.
    Inline(Vec<u8>),
    /// The chunk is not stored: all its elements have the fill value.
    Missing,
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteRange {
    /// The number of the file.
    pub object: u32,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl Section {
    /// A section of one chunk, whose elements lie side by side in C order.
    pub fn contiguous(shape: &Shape, axis: usize, object: u32, offset: u64, dtype: DataType, from: Endianness) -> Self {
        let chunk_shape = Shape::new(shape.extents().iter().map(|extent| *extent.max(&1)))
            .expect("extents of zero count as one in every shape");
        let length = chunk_shape.elements().saturating_mul(dtype.bytes());
        let placement = Placement::Regular { object, offset, strides: vec![0; shape.rank()], length };
        let extent = shape.extents().get(axis).copied().unwrap_or(1);
        Self { extent, chunk_shape, codecs: vec![Codec::Bytes { endianness: from }], placement }
    }

    /// The part of the array that the section covers.
    pub(super) fn shape(&self, array: &Shape, along: usize) -> Result<Shape, ManifestProblem> {
        let extents = array.extents().iter().enumerate();
        Ok(Shape::new(extents.map(|(axis, extent)| if axis == along { self.extent } else { *extent }))?)
    }

    /// The number of chunks on each axis.
    pub(super) fn grid(&self, shape: &Shape) -> Vec<u64> {
        shape.extents().iter().zip(self.chunk_shape.extents()).map(|(extent, chunk)| extent.div_ceil(*chunk)).collect()
    }

    /// The place of the chunk with that grid index.
    pub(super) fn source(&self, grid: &[u64], index: &[u64]) -> PieceSource<'_> {
        match &self.placement {
            Placement::Regular { object, offset, strides, length } => {
                let distance: u64 = index.iter().zip(strides).map(|(index, stride)| index * stride).sum();
                PieceSource::Range(ByteRange { object: *object, offset: offset + distance, length: *length })
            }
            Placement::Listed(chunks) => {
                let number = index.iter().zip(grid).fold(0, |number, (index, count)| number * count + index);
                match &chunks[number as usize] {
                    ChunkSource::Range(range) => PieceSource::Range(*range),
                    ChunkSource::Inline(bytes) => PieceSource::Inline(bytes),
                    ChunkSource::Missing => PieceSource::Missing,
                }
            }
            Placement::Keyed(chunks) => PieceSource::Keyed(chunks),
        }
    }

    /// Checks all but the numbers of the files. The section begins at `start` on its axis.
    pub(super) fn check(&self, array: &ArrayDescription, along: usize, start: u64) -> Result<(), ManifestProblem> {
        let shape = self.shape(&array.shape, along)?;
        if self.chunk_shape.rank() != shape.rank() || self.chunk_shape.is_empty() {
            let chunk_shape = Box::new(self.chunk_shape.clone());
            return Err(ManifestProblem::ChunkShape { chunk_shape, shape: Box::new(shape) });
        }
        let steps = Steps::new(&self.codecs, shape.rank())?;
        let bytes = self.chunk_shape.elements().checked_mul(array.dtype.bytes()).ok_or(ManifestProblem::TooLarge)?;
        let is_whole = !steps.from_bytes.is_empty() || matches!(self.placement, Placement::Keyed(_));
        if is_whole && bytes > Codec::MAX_DECODED_BYTES {
            return Err(ManifestProblem::ChunkTooLong { bytes, max_bytes: Codec::MAX_DECODED_BYTES });
        }
        let check_length = |length: u64| {
            let is_fitting = match steps.from_bytes {
                [] => length == bytes,
                _ => length <= Codec::max_encoded_bytes(bytes),
            };
            if is_fitting { Ok(()) } else { Err(ManifestProblem::ChunkLength { length, expected: bytes }) }
        };
        let grid = self.grid(&shape);
        for (axis, (count, chunk)) in grid.iter().zip(self.chunk_shape.extents()).enumerate() {
            let end = count.max(&1).checked_mul(*chunk);
            let end = end.and_then(|end| end.checked_add(if axis == along { start } else { 0 }));
            end.ok_or(ManifestProblem::TooLarge)?;
        }
        match &self.placement {
            Placement::Regular { offset, strides, length, .. } => {
                check_length(*length)?;
                if strides.len() != grid.len() {
                    return Err(ManifestProblem::Strides { strides: strides.len(), rank: grid.len() });
                }
                end_of(&grid, *offset, strides, *length).map(drop).ok_or(ManifestProblem::TooLarge)
            }
            Placement::Listed(chunks) => {
                let expected = grid.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
                if expected != Some(chunks.len() as u64) {
                    let expected = expected.unwrap_or(u64::MAX);
                    return Err(ManifestProblem::ChunkCount { count: chunks.len() as u64, expected });
                }
                chunks.iter().try_for_each(|chunk| match chunk {
                    ChunkSource::Range(range) => {
                        range.offset.checked_add(range.length).ok_or(ManifestProblem::TooLarge)?;
                        check_length(range.length)
                    }
                    ChunkSource::Inline(bytes) => check_length(bytes.len() as u64),
                    ChunkSource::Missing => Ok(()),
                })
            }
            Placement::Keyed(chunks) => chunks.check(shape.rank()),
        }
    }

    /// The end of the last byte of regular chunks; `None` for a section without chunks, and for
    /// other placements.
    pub(crate) fn regular_end(&self, array: &ArrayDescription, along: usize) -> Option<u64> {
        let Placement::Regular { offset, strides, length, .. } = &self.placement else { return None };
        let grid = self.grid(&self.shape(&array.shape, along).ok()?);
        if grid.contains(&0) { None } else { end_of(&grid, *offset, strides, *length) }
    }

    /// The numbers of the files, each of them once for a regular section. Keyed files have none.
    pub(super) fn objects(&self) -> impl Iterator<Item = u32> {
        let (regular, listed) = match &self.placement {
            Placement::Regular { object, .. } => (Some(*object), &[][..]),
            Placement::Listed(chunks) => (None, &chunks[..]),
            Placement::Keyed(_) => (None, &[][..]),
        };
        regular.into_iter().chain(listed.iter().filter_map(|chunk| match chunk {
            ChunkSource::Range(range) => Some(range.object),
            ChunkSource::Inline(_) | ChunkSource::Missing => None,
        }))
    }

    /// The section with file `number` as `numbers[number]`.
    ///
    /// # Panics
    /// If a file of the section has no new number.
    pub(crate) fn with_objects(mut self, numbers: &[u32]) -> Self {
        match &mut self.placement {
            Placement::Regular { object, .. } => *object = numbers[*object as usize],
            Placement::Listed(chunks) => {
                for chunk in chunks {
                    if let ChunkSource::Range(range) = chunk {
                        range.object = numbers[range.object as usize];
                    }
                }
            }
            // Paths are below the root, and so the same in every manifest.
            Placement::Keyed(_) => (),
        }
        self
    }
}

/// The end of the last byte of regular chunks, if it fits.
fn end_of(grid: &[u64], offset: u64, strides: &[u64], length: u64) -> Option<u64> {
    let mut end = offset.checked_add(length)?;
    for (count, stride) in grid.iter().zip(strides) {
        end = end.checked_add(count.saturating_sub(1).checked_mul(*stride)?)?;
    }
    Some(end)
}

/// The place of the bytes of a piece's chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PieceSource<'a> {
    /// Bytes of a file.
    Range(ByteRange),
    /// A file that is named by the chunk's place in the grid, if there is one.
    Keyed(&'a KeyedChunks),
    /// The stored bytes themselves.
    Inline(&'a [u8]),
    /// The chunk is not stored: its elements have the fill value.
    Missing,
}
