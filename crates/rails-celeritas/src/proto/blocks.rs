//! Memory in blocks, as one run of bytes.

use super::sender::MESSAGE_COST;
use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;
use std::{collections::BTreeMap, ops::Range};

/// The blocks of a message to send.
#[derive(Debug)]
pub(crate) struct SentBlocks {
    blocks: Vec<Bytes>,
    /// The end of each block in the message.
    ends: Vec<u64>,
}

/// The memory for a message that is received.
#[derive(Debug)]
pub struct Memory(Blocks);

#[derive(Debug)]
enum Blocks {
    /// The caller's blocks.
    Given { blocks: Vec<BytesMut>, ends: Vec<u64> },
    /// Blocks of this end, each made when its first byte is expected.
    Own { length: u64, blocks: BTreeMap<u64, BytesMut> },
}

impl SentBlocks {
    pub(crate) fn new(mut blocks: Vec<Bytes>) -> Self {
        // Empty blocks would take memory without counting anywhere.
        blocks.retain(|block| !block.is_empty());
        let ends = ends(blocks.iter().map(Bytes::len));
        Self { blocks, ends }
    }

    pub(crate) fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The cost of a message of these blocks while it waits, in bytes.
    pub(crate) fn cost(&self) -> u64 {
        self.len().saturating_add(MESSAGE_COST)
    }

    /// The slices of these bytes.
    pub(crate) fn slices(&self, bytes: Range<u64>) -> impl Iterator<Item = &[u8]> {
        self.parts(bytes).map(|(block, part)| &block[part])
    }

    /// The pieces of these bytes, which keep their memory.
    pub(crate) fn pieces(&self, bytes: Range<u64>) -> impl Iterator<Item = Bytes> {
        self.parts(bytes).map(|(block, part)| block.slice(part))
    }

    /// The blocks that have these bytes, each with the place of its part of them.
    fn parts(&self, bytes: Range<u64>) -> impl Iterator<Item = (&Bytes, Range<usize>)> {
        let first = self.ends.partition_point(|end| *end <= bytes.start);
        let blocks = self.blocks[first..].iter().zip(&self.ends[first..]);
        let blocks = blocks.map(|(block, end)| (block, end - block.len() as u64));
        blocks.take_while(move |(_, start)| *start < bytes.end).map(move |(block, start)| {
            let from = bytes.start.saturating_sub(start) as usize;
            (block, from..(bytes.end - start).min(block.len() as u64) as usize)
        })
    }
}

impl Memory {
    /// The caller's blocks, each of which holds as many bytes as it is long.
    pub(crate) fn given(blocks: Vec<BytesMut>) -> Self {
        let ends = ends(blocks.iter().map(BytesMut::len));
        Self(Blocks::Given { blocks, ends })
    }

    /// Blocks of this end for a message of that length.
    pub(crate) fn own(length: u64) -> Self {
        Self(Blocks::Own { length, blocks: BTreeMap::new() })
    }

    /// The bytes that a caller's blocks hold.
    pub(crate) fn given_capacity(blocks: &[BytesMut]) -> u64 {
        blocks.iter().map(|block| block.len() as u64).sum()
    }

    /// The slices of these bytes, in order and without a gap.
    pub fn slices(&mut self, bytes: Range<u64>) -> SmallVec<[&mut [u8]; 4]> {
        match &mut self.0 {
            Blocks::Given { blocks, ends } => {
                let first = ends.partition_point(|end| *end <= bytes.start);
                let parts = blocks[first..].iter_mut().zip(&ends[first..]);
                let parts = parts.map(|(block, end)| (*end - block.len() as u64, block));
                parts
                    .take_while(|(start, _)| *start < bytes.end)
                    .map(|(start, block)| part(block, start, &bytes))
                    .collect()
            }
            Blocks::Own { length, blocks } => {
                let indices = bytes.start / OWN_BLOCK..bytes.end.div_ceil(OWN_BLOCK);
                for index in indices.clone() {
                    let size = OWN_BLOCK.min(*length - index * OWN_BLOCK) as usize;
                    blocks.entry(index).or_insert_with(|| BytesMut::zeroed(size));
                }
                blocks.range_mut(indices).map(|(index, block)| part(block, index * OWN_BLOCK, &bytes)).collect()
            }
        }
    }

    /// Writes bytes from that place on.
    pub fn write(&mut self, at: u64, mut bytes: &[u8]) {
        for slice in self.slices(at..at + bytes.len() as u64) {
            let (now, later) = bytes.split_at(slice.len());
            slice.copy_from_slice(now);
            bytes = later;
        }
    }

    /// Moves the message, of that length, into the caller's blocks: further bytes go there.
    pub(crate) fn give(&mut self, blocks: Vec<BytesMut>, length: u64) {
        let mut given = Self::given(blocks);
        match &mut self.0 {
            Blocks::Own { blocks, .. } => {
                blocks.iter().for_each(|(index, block)| given.write(index * OWN_BLOCK, block));
            }
            // Blocks of a caller that has gone.
            Blocks::Given { blocks, ends } => {
                for (block, end) in blocks.iter().zip(ends) {
                    let start = *end - block.len() as u64;
                    given.write(start, &block[..block.len().min(length.saturating_sub(start) as usize)]);
                }
            }
        }
        *self = given;
    }

    /// The blocks of a whole message of that length.
    pub(crate) fn into_blocks(self, length: u64) -> Vec<BytesMut> {
        match self.0 {
            Blocks::Given { mut blocks, ends } => {
                let mut starts = [0].into_iter().chain(ends);
                for (block, start) in blocks.iter_mut().zip(&mut starts) {
                    block.truncate(length.saturating_sub(start) as usize);
                }
                blocks
            }
            Blocks::Own { blocks, .. } => blocks.into_values().collect(),
        }
    }
}

/// The part of a block that begins at `start` of the message.
fn part<'a>(block: &'a mut BytesMut, start: u64, bytes: &Range<u64>) -> &'a mut [u8] {
    let end = start + block.len() as u64;
    let (from, to) = (bytes.start.max(start) - start, bytes.end.min(end) - start);
    &mut block[from as usize..to.max(from) as usize]
}

fn ends(lengths: impl Iterator<Item = usize>) -> Vec<u64> {
    lengths
        .scan(0, |end, length| {
            Some({
                *end += length as u64;
                *end
            })
        })
        .collect()
}

/// The size of a block of this end.
const OWN_BLOCK: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_are_where_they_were_written(
            sizes in proptest::collection::vec(0..100_000usize, 1..6), cut in 1..50_000usize, is_given: bool,
        ) {
            let length = sizes.iter().sum::<usize>().max(1);
            let wanted: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
            let given: Vec<BytesMut> = sizes.iter().map(|size| BytesMut::zeroed(*size)).chain([BytesMut::zeroed(1)]).collect();
            let mut memory = if is_given { Memory::given(given.clone()) } else { Memory::own(length as u64) };
            let mut pieces: Vec<(usize, &[u8])> = wanted.chunks(cut).enumerate().collect();
            pieces.reverse();
            let half = pieces.len() / 2;
            for (done, (index, piece)) in pieces.into_iter().enumerate() {
                if done == half {
                    memory.give(given.clone(), length as u64);
                }
                memory.write((index * cut) as u64, piece);
            }
            let blocks = memory.into_blocks(length as u64);
            prop_assert_eq!(blocks.concat(), wanted.clone());

            let sent = SentBlocks::new(blocks.into_iter().map(BytesMut::freeze).collect());
            prop_assert_eq!(sent.len(), length as u64);
            let at = cut.min(length - 1);
            let read: Vec<&[u8]> = sent.slices(at as u64..length as u64).collect();
            prop_assert_eq!(&read.concat(), &wanted[at..]);
        }
    }
}
