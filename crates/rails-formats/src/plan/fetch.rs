//! Chunks that are fetched whole, because they are decoded.

use crate::{
    data_type::{DataType, Endianness},
    manifest::{ByteRange, Codec, ObjectPath, Piece, PieceSource, Shard, Steps},
};
use rails_array::{CopyPlan, Region, Selection, copy};
use std::{collections::HashMap, sync::Arc};

/// One place of stored bytes, and the wanted chunks that lie there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedFetch {
    /// The place.
    pub from: FetchPlace,
    /// The chunks: one, or up to [`max_chunks`](Self::max_chunks) of a shard.
    pub chunks: Vec<PlannedChunk>,
}

/// The place of the stored bytes of chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchPlace {
    /// Bytes of a numbered file.
    Range(ByteRange),
    /// The stored bytes themselves.
    Inline(Vec<u8>),
    /// A whole file. Its chunk has the fill value if there is no such file.
    File(ObjectPath),
    /// A file of several chunks. All have the fill value if there is no such file.
    Shard {
        /// The file.
        path: ObjectPath,
        /// The layout of the file.
        shard: Shard,
    },
}

/// A chunk to be decoded, and its part of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedChunk {
    /// The number of the chunk in its shard; 0 elsewhere.
    pub number: u64,
    /// The chunk's place in the grid of its section.
    pub index: Vec<u64>,
    /// The steps from its elements to its stored bytes.
    pub codecs: Arc<[Codec]>,
    /// The size of its elements in bytes.
    pub decoded_bytes: u64,
    /// The way from its elements, as they are stored, to the region's memory from `to` on.
    copies: CopyPlan,
    to: u64,
}

/// The fetches of a region, so far.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    fetches: Vec<PlannedFetch>,
    /// The codecs of the last chunk, which those of a section share.
    codecs: Arc<[Codec]>,
    /// The last fetch of each shard.
    shards: HashMap<ObjectPath, usize>,
}

impl PlannedFetch {
    /// The largest number of chunks of one fetch, for chunks of so many decoded bytes: 16, and as
    /// many as take the room of the index. A shard with more wanted ones is several fetches, so
    /// that several threads may share it. Each reads the index.
    pub fn max_chunks(shard: &Shard, decoded_bytes: u64) -> u64 {
        shard.index_bytes().div_ceil(decoded_bytes.max(1)).max(16)
    }
}

impl PlannedChunk {
    /// The order of the bytes of a decoded element.
    pub fn endianness(&self) -> Endianness {
        let bytes = self.codecs.iter().find_map(|codec| match codec {
            Codec::Bytes { endianness } => Some(*endianness),
            _ => None,
        });
        bytes.expect("the codecs of a manifest are checked")
    }

    /// Copies the wanted elements of the decoded chunk to their places in memory. The elements have
    /// this machine's order of bytes.
    ///
    /// # Panics
    /// If `decoded` has not [`decoded_bytes`](Self::decoded_bytes), or `goal` not the size of the
    /// region.
    pub fn scatter(&self, decoded: &[u8], goal: &mut [u8]) {
        assert_eq!(decoded.len() as u64, self.decoded_bytes, "a decoded chunk has the size of its elements");
        copy(&self.copies, decoded, &mut goal[self.to as usize..]).expect("the plan is within chunk and region");
    }

    /// Fills the places of the wanted elements with one.
    pub(super) fn fill(&self, element: &[u8], goal: &mut [u8]) {
        for run in self.copies.runs() {
            goal[(self.to + run.destination) as usize..][..run.bytes as usize]
                .chunks_exact_mut(element.len())
                .for_each(|place| place.copy_from_slice(element));
        }
    }
}

impl Fetches {
    /// Adds the chunk of a piece, whose wanted part begins at byte `to` of the region's memory.
    pub(super) fn add(&mut self, piece: Piece<'_>, to: u64, dtype: DataType, strides: &[u64]) {
        let steps = steps_of(&piece);
        let chunk = PlannedChunk {
            number: 0,
            copies: copies_of(&piece, &steps, dtype, strides),
            to,
            decoded_bytes: piece.chunk.elements() * dtype.bytes(),
            codecs: self.shared(piece.codecs),
            index: piece.index,
        };
        let from = match piece.source {
            PieceSource::Range(range) => FetchPlace::Range(range),
            PieceSource::Inline(bytes) => FetchPlace::Inline(bytes.to_vec()),
            PieceSource::Keyed(chunks) => {
                let (path, number) = chunks.place(&chunk.index);
                match &chunks.shard {
                    Some(shard) => return self.add_to_shard(path, shard, PlannedChunk { number, ..chunk }),
                    None => FetchPlace::File(path),
                }
            }
            PieceSource::Missing => unreachable!("a missing chunk is not fetched"),
        };
        self.fetches.push(PlannedFetch { from, chunks: vec![chunk] });
    }

    pub(super) fn done(self) -> Vec<PlannedFetch> {
        self.fetches
    }

    fn shared(&mut self, codecs: &[Codec]) -> Arc<[Codec]> {
        if *self.codecs != *codecs {
            self.codecs = codecs.into();
        }
        Arc::clone(&self.codecs)
    }

    fn add_to_shard(&mut self, path: ObjectPath, shard: &Shard, chunk: PlannedChunk) {
        let from = FetchPlace::Shard { path: path.clone(), shard: shard.clone() };
        // Two sections may have the same files, and say other layouts.
        if let Some(last) = self.shards.get(&path)
            && self.fetches[*last].from == from
            && (self.fetches[*last].chunks.len() as u64) < PlannedFetch::max_chunks(shard, chunk.decoded_bytes)
        {
            return self.fetches[*last].chunks.push(chunk);
        }
        self.shards.insert(path, self.fetches.len());
        self.fetches.push(PlannedFetch { from, chunks: vec![chunk] });
    }
}

/// The steps of a piece of a checked manifest.
pub(super) fn steps_of<'a>(piece: &Piece<'a>) -> Steps<'a> {
    Steps::new(piece.codecs, piece.chunk.rank()).expect("the codecs of a manifest are checked")
}

/// The way from the elements of a chunk, as they are stored, to the memory of its wanted part.
///
/// Transposed axes cost nothing: the stored elements are a region of other axes, and the strides of
/// the goal follow them.
pub(super) fn copies_of(piece: &Piece<'_>, steps: &Steps<'_>, dtype: DataType, strides: &[u64]) -> CopyPlan {
    let plan = |chunk: &Region, wanted: Region, strides: &[u64]| {
        CopyPlan::with_strides(chunk, &Selection::from(wanted), dtype.bytes(), strides)
            .expect("the sizes of chunks and of the array were checked")
    };
    let Some(order) = &steps.order else { return plan(&piece.chunk, piece.wanted.clone(), strides) };
    let strides: Vec<u64> = order.iter().map(|axis| strides[*axis]).collect();
    plan(&transposed(&piece.chunk, order), transposed(&piece.wanted, order), &strides)
}

fn transposed(region: &Region, order: &[usize]) -> Region {
    let extents = order.iter().map(|axis| region.shape().extents()[*axis]);
    let shape = rails_array::Shape::new(extents).expect("the extents are those of a shape");
    Region::new(order.iter().map(|axis| region.start()[*axis]), shape).expect("the bounds are those of a region")
}
