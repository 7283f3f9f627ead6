//! Chunks that came back from lanes that were lost or fell silent.

use super::Chunk;
use std::{collections::BTreeMap, ops::Range};

/// They lie in order and do not overlap.
#[derive(Debug, Default)]
pub(super) struct Returned {
    chunks: BTreeMap<u64, Back>,
    bytes: usize,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Back {
    pub(super) chunk: Chunk,
    /// The lanes that have had it.
    pub(super) carriers: u64,
}

impl Returned {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunks by offset.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.values().map(|back| &back.chunk)
    }

    pub(super) fn insert(&mut self, back: Back) {
        self.bytes += back.chunk.length as usize;
        self.chunks.insert(back.chunk.offset, back);
    }

    pub(super) fn remove(&mut self, offset: u64) -> Option<Back> {
        let back = self.chunks.remove(&offset)?;
        self.bytes -= back.chunk.length as usize;
        Some(back)
    }

    /// A lane has had none of them any more.
    pub(super) fn forget_carrier(&mut self, lane: u64) {
        self.chunks.values_mut().for_each(|back| back.carriers &= !lane);
    }

    /// Removes those that begin in the range; whether there were any.
    pub(super) fn remove_range(&mut self, range: Range<u64>) -> bool {
        let offsets: Vec<u64> = self.chunks.range(range).map(|(offset, _)| *offset).collect();
        offsets.iter().for_each(|offset| drop(self.remove(*offset)));
        !offsets.is_empty()
    }

    /// Removes those that the other end has read. No look is spent on those that stay.
    pub(super) fn remove_known_below(&mut self, consumed: u64) {
        while let Some((offset, _)) =
            self.chunks.first_key_value().filter(|(_, back)| back.chunk.is_known_below(consumed))
        {
            let offset = *offset;
            self.remove(offset);
        }
    }
}
