//! Chunks that are fetched whole and decoded.

use super::{
    error::ReadError,
    source::{Root, Source},
};
use crate::{
    data_type::DataType,
    decode::{DecodeError, ShardIndex, decode},
    manifest::{Codec, ObjectPath, Shard},
    plan::{FetchPlace, PlannedChunk, PlannedFetch},
};
use std::{borrow::Borrow, ops::Range};

/// Fetches and decodes chunks, and gives each to `done`, with its elements in this machine's order
/// of bytes; `None` is a chunk that is not stored. `numbered` opens the file of a number, and
/// `keyed` one without a number, if it is there. It blocks.
///
/// # Errors
/// [`ReadError`] names the file, and the chunk where there is one.
pub(super) fn fetch<S: Borrow<Source>>(
    dtype: DataType,
    fetch: &PlannedFetch,
    numbered: impl FnOnce(u32) -> Result<S, ReadError>,
    keyed: impl FnOnce(&ObjectPath) -> Result<Option<Source>, ReadError>,
    mut done: impl FnMut(&PlannedChunk, Option<Vec<u8>>),
) -> Result<(), ReadError> {
    match &fetch.from {
        FetchPlace::Inline(stored) => {
            for chunk in &fetch.chunks {
                let decoded = elements(chunk, stored, dtype)
                    .map_err(|error| ReadError::InlineChunk { index: chunk.index.clone(), error })?;
                done(chunk, Some(decoded));
            }
        }
        FetchPlace::Range(range) => {
            let source = numbered(range.object)?;
            let source = source.borrow();
            for chunk in &fetch.chunks {
                let decoded = read_chunk(source, chunk, range.offset..range.offset + range.length, dtype)?;
                done(chunk, Some(decoded));
            }
        }
        FetchPlace::File(path) => {
            let source = keyed(path)?;
            for chunk in &fetch.chunks {
                let whole = |source| read_chunk(source, chunk, 0..source.generation().bytes, dtype);
                done(chunk, source.as_ref().map(whole).transpose()?);
            }
        }
        FetchPlace::Shard { path, shard } => match keyed(path)? {
            Some(source) => read_shard(&source, shard, &fetch.chunks, dtype, done)?,
            None => fetch.chunks.iter().for_each(|chunk| done(chunk, None)),
        },
    }
    Ok(())
}

/// Opens a file without a number below a root, if it is there.
///
/// # Errors
/// [`ReadError::NoRoot`] without a root, and those of [`Root::source_if_there`].
pub(super) fn keyed_below(root: Option<&Root>, path: &ObjectPath) -> Result<Option<Source>, ReadError> {
    match root {
        Some(root) => root.source_if_there(path),
        None => Err(ReadError::NoRoot { path: path.clone() }),
    }
}

fn read_shard(
    source: &Source,
    shard: &Shard,
    chunks: &[PlannedChunk],
    dtype: DataType,
    mut done: impl FnMut(&PlannedChunk, Option<Vec<u8>>),
) -> Result<(), ReadError> {
    let wrong = |error| ReadError::Shard { path: source.path().clone(), error };
    let file_bytes = source.generation().bytes;
    let place = ShardIndex::place(shard, file_bytes).map_err(wrong)?;
    let index = ShardIndex::parse(shard, source.read(place)?, file_bytes).map_err(wrong)?;
    for chunk in chunks {
        let range = index.chunk(chunk.number).map_err(|error| chunk_error(source, chunk, error))?;
        done(chunk, range.map(|range| read_chunk(source, chunk, range, dtype)).transpose()?);
    }
    Ok(())
}

/// Reads and decodes a chunk. All its bytes are of the source's generation.
fn read_chunk(source: &Source, chunk: &PlannedChunk, range: Range<u64>, dtype: DataType) -> Result<Vec<u8>, ReadError> {
    let wrong = |error| chunk_error(source, chunk, error);
    let (bytes, max_bytes) = (range.end - range.start, Codec::max_encoded_bytes(chunk.decoded_bytes));
    if bytes > max_bytes {
        return Err(wrong(DecodeError::StoredTooLong { bytes, max_bytes }));
    }
    elements(chunk, &source.read(range)?, dtype).map_err(wrong)
}

/// The elements of a chunk in this machine's order of bytes.
fn elements(chunk: &PlannedChunk, stored: &[u8], dtype: DataType) -> Result<Vec<u8>, DecodeError> {
    let mut decoded = decode(&chunk.codecs, stored, chunk.decoded_bytes)?.into_owned();
    dtype.swap_to_native(&mut decoded, chunk.endianness());
    Ok(decoded)
}

fn chunk_error(source: &Source, chunk: &PlannedChunk, error: DecodeError) -> ReadError {
    ReadError::Chunk { path: source.path().clone(), index: chunk.index.clone(), error }
}
