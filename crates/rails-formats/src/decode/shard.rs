//! The index of a file of several chunks.

use super::{error::DecodeError, step::step};
use crate::manifest::{Codec, IndexPlace, Shard};
use std::ops::Range;

/// The places of the chunks of a shard, as its index states them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIndex {
    /// The bytes of the index without checksum.
    entries: Vec<u8>,
    file_bytes: u64,
}

impl ShardIndex {
    /// The place of the index in a shard of so many bytes.
    ///
    /// # Errors
    /// [`DecodeError::ShardTooShort`].
    pub fn place(shard: &Shard, file_bytes: u64) -> Result<Range<u64>, DecodeError> {
        let index_bytes = shard.index_bytes();
        let before =
            file_bytes.checked_sub(index_bytes).ok_or(DecodeError::ShardTooShort { file_bytes, index_bytes })?;
        Ok(match shard.index_place {
            IndexPlace::Start => 0..index_bytes,
            IndexPlace::End => before..file_bytes,
        })
    }

    /// Reads the bytes of an index. The places of its chunks are compared with the file where they
    /// are asked for, so a wrong one does no harm to the others.
    ///
    /// # Errors
    /// [`DecodeError::ShardChecksum`]; without the feature `zarr`, [`DecodeError::Feature`] for an
    /// index with a checksum.
    ///
    /// # Panics
    /// If `bytes` are not as many as [`Shard::index_bytes`].
    pub fn parse(shard: &Shard, mut bytes: Vec<u8>, file_bytes: u64) -> Result<Self, DecodeError> {
        assert_eq!(bytes.len() as u64, shard.index_bytes(), "an index has its length");
        if shard.has_checksum {
            bytes = step(&Codec::Crc32c, &bytes, shard.count() * 16).map_err(|error| match error {
                DecodeError::Feature { .. } => error,
                _ => DecodeError::ShardChecksum,
            })?;
        }
        Ok(Self { entries: bytes, file_bytes })
    }

    /// The place of a chunk in the file; `None` for a chunk that is not stored.
    ///
    /// # Errors
    /// [`DecodeError::OutsideShard`].
    ///
    /// # Panics
    /// If the shard has no chunk of that number.
    pub fn chunk(&self, number: u64) -> Result<Option<Range<u64>>, DecodeError> {
        let entry = &self.entries[number as usize * 16..][..16];
        let [offset, length] =
            [&entry[..8], &entry[8..]].map(|half| u64::from_le_bytes(half.try_into().expect("8 bytes")));
        if (offset, length) == (u64::MAX, u64::MAX) {
            return Ok(None);
        }
        match offset.checked_add(length) {
            Some(end) if end <= self.file_bytes => Ok(Some(offset..end)),
            _ => Err(DecodeError::OutsideShard { offset, length, file_bytes: self.file_bytes }),
        }
    }
}
