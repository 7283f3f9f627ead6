//! Plans: the reads that fill memory with a region of an array.
//!
//! [`plan_region`] goes from a region over its chunks and their runs of bytes to merged reads. A
//! plan is carried out by [`RegionPlan::read`], which is lent a function that reads. Chunks that
//! have to be decoded, and those in files of their own, are [fetched whole](PlannedFetch).

mod fetch;
mod merge;

use crate::{
    data_type::{DataType, Endianness},
    manifest::{ArrayManifest, PieceSource, RegionOutside},
};
pub use fetch::{FetchPlace, PlannedChunk, PlannedFetch};
use fetch::{Fetches, copies_of, steps_of};
pub use merge::{MergeLimits, MergedRead, merge};
use rails_array::Region;
use std::{collections::BTreeMap, ops::Range};

/// The reads that fill memory with a region, in C order and this machine's order of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionPlan {
    dtype: DataType,
    bytes: u64,
    reads: Vec<PlannedRead>,
    fetches: Vec<PlannedFetch>,
    constants: Vec<Constant>,
    fill: Vec<u8>,
}

/// Bytes of a file to be read at once, and their places in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedRead {
    /// The number of the file.
    pub object: u32,
    /// The bytes.
    pub range: Range<u64>,
    /// The wanted ones.
    pub copies: Vec<CopyRun>,
}

/// A stretch of a read that goes to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyRun {
    /// The first byte, counted from the first one of the read.
    pub from: u64,
    /// The first byte in memory.
    pub to: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The order of the bytes of an element.
    pub endianness: Endianness,
}

/// Elements that no file has.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Constant {
    Fill(Range<u64>),
    Inline { to: u64, bytes: Vec<u8>, endianness: Endianness },
}

/// Plans the reads of a region. The plan has at most one run for each element of the region, and
/// one fetch for each chunk.
///
/// # Errors
/// [`RegionOutside`], if the array has not all of the region.
pub fn plan_region(array: &ArrayManifest, region: &Region, limits: &MergeLimits) -> Result<RegionPlan, RegionOutside> {
    let description = array.description();
    let size = description.dtype.bytes();
    let strides: Vec<u64> = region.shape().strides().iter().map(|stride| stride.saturating_mul(size)).collect();
    let mut runs: BTreeMap<u32, Vec<CopyRun>> = BTreeMap::new();
    let mut fetches = Fetches::default();
    let mut constants = Vec::new();
    for piece in array.chunks_of(region)? {
        // The chunk may reach over its section, so only the wanted part of it is selected.
        let origins = piece.wanted.start().iter().zip(region.start());
        let first: u64 = origins.zip(&strides).map(|((at, origin), stride)| (at - origin) * stride).sum();
        let steps = steps_of(&piece);
        let is_decoded = !steps.from_bytes.is_empty() && piece.source != PieceSource::Missing;
        if is_decoded || matches!(piece.source, PieceSource::Keyed(_)) {
            fetches.add(piece, first, description.dtype, &strides);
            continue;
        }
        for run in copies_of(&piece, &steps, description.dtype, &strides).runs() {
            let (from, to, bytes, endianness) = (run.source, first + run.destination, run.bytes, steps.endianness);
            match piece.source {
                PieceSource::Range(range) => {
                    let run = CopyRun { from: range.offset + from, to, bytes, endianness };
                    append(runs.entry(range.object).or_default(), run);
                }
                PieceSource::Inline(chunk) => {
                    let bytes = chunk[from as usize..(from + bytes) as usize].to_vec();
                    constants.push(Constant::Inline { to, bytes, endianness });
                }
                PieceSource::Missing => constants.push(Constant::Fill(to..to + bytes)),
                PieceSource::Keyed(_) => unreachable!("a chunk in a file of its own is fetched whole"),
            }
        }
    }
    let reads = runs.into_iter().flat_map(|(object, runs)| reads_of(object, &runs, limits)).collect();
    let mut fill = description.fill_value.clone().unwrap_or_else(|| vec![0; size as usize]);
    description.dtype.swap_to_native(&mut fill, Endianness::Little);
    let (dtype, bytes, fetches) = (description.dtype, region.elements() * size, fetches.done());
    Ok(RegionPlan { dtype, bytes, reads, fetches, constants, fill })
}

impl RegionPlan {
    /// The size of the region in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The reads, by file and offset.
    pub fn reads(&self) -> &[PlannedRead] {
        &self.reads
    }

    /// The chunks that are fetched whole.
    pub fn fetches(&self) -> &[PlannedFetch] {
        &self.fetches
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Fills `goal` with the region. `read` fills its buffer with the bytes of a file from an
    /// offset on.
    ///
    /// # Errors
    /// The first error of `read`; the goal is partly filled then.
    ///
    /// # Panics
    /// If `goal` has not the size of the region, or the plan has [fetches](Self::fetches), which
    /// [`read_plan`](crate::reader::read_plan) carries out.
    pub fn read<E>(&self, goal: &mut [u8], read: impl FnMut(u32, u64, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        assert!(self.fetches.is_empty(), "the plan has no chunks that are fetched whole");
        self.read_but_fetches(goal, read)
    }

    /// Fills `goal` with all of the region but its fetches, as [`read`](Self::read) does.
    pub(crate) fn read_but_fetches<E>(
        &self,
        goal: &mut [u8],
        mut read: impl FnMut(u32, u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        assert_eq!(goal.len() as u64, self.bytes, "the goal has the size of the region");
        let mut buffer = Vec::new();
        for planned in &self.reads {
            let length = planned.range.end - planned.range.start;
            if let [copy] = planned.copies[..]
                && copy.bytes == length
            {
                let place = &mut goal[place(copy.to, length)];
                read(planned.object, planned.range.start, place)?;
                self.dtype.swap_to_native(place, copy.endianness);
                continue;
            }
            buffer.resize(length as usize, 0);
            read(planned.object, planned.range.start, &mut buffer)?;
            planned.scatter(&buffer, goal, self.dtype);
        }
        self.write_constants(goal);
        Ok(())
    }

    /// Fills the places of a chunk that is not stored with the fill value.
    ///
    /// # Panics
    /// If `goal` has not the size of the region.
    pub fn fill(&self, chunk: &PlannedChunk, goal: &mut [u8]) {
        chunk.fill(&self.fill, goal);
    }

    /// Fills the places of the elements that no file has.
    ///
    /// # Panics
    /// If `goal` has not the size of the region.
    pub fn write_constants(&self, goal: &mut [u8]) {
        assert_eq!(goal.len() as u64, self.bytes, "the goal has the size of the region");
        for constant in &self.constants {
            match constant {
                Constant::Fill(range) => goal[range.start as usize..range.end as usize]
                    .chunks_exact_mut(self.fill.len())
                    .for_each(|element| element.copy_from_slice(&self.fill)),
                Constant::Inline { to, bytes, endianness } => {
                    let place = &mut goal[place(*to, bytes.len() as u64)];
                    place.copy_from_slice(bytes);
                    self.dtype.swap_to_native(place, *endianness);
                }
            }
        }
    }
}

impl PlannedRead {
    /// Copies the wanted bytes of the read to their places in memory.
    ///
    /// # Panics
    /// If `read` has not the length of the range, or `goal` not the size of the region.
    pub fn scatter(&self, read: &[u8], goal: &mut [u8], dtype: DataType) {
        assert_eq!(read.len() as u64, self.range.end - self.range.start, "the read has the length of its range");
        for copy in &self.copies {
            let place = &mut goal[place(copy.to, copy.bytes)];
            place.copy_from_slice(&read[copy.from as usize..][..copy.bytes as usize]);
            dtype.swap_to_native(place, copy.endianness);
        }
    }
}

/// Adds a run of a file, counted from its first byte. It becomes part of the last one, if it
/// follows that at both places.
fn append(runs: &mut Vec<CopyRun>, run: CopyRun) {
    match runs.last_mut() {
        Some(last)
            if last.from + last.bytes == run.from
                && last.to + last.bytes == run.to
                && last.endianness == run.endianness =>
        {
            last.bytes += run.bytes;
        }
        _ => runs.push(run),
    }
}

fn reads_of(object: u32, runs: &[CopyRun], limits: &MergeLimits) -> Vec<PlannedRead> {
    let ranges: Vec<Range<u64>> = runs.iter().map(|run| run.from..run.from + run.bytes).collect();
    let read = |merged: MergedRead| {
        let copies =
            merged.parts.iter().map(|part| CopyRun { from: runs[*part].from - merged.range.start, ..runs[*part] });
        PlannedRead { object, copies: copies.collect(), range: merged.range }
    };
    merge(&ranges, limits).into_iter().map(read).collect()
}

fn place(to: u64, bytes: u64) -> Range<usize> {
    to as usize..(to + bytes) as usize
}
