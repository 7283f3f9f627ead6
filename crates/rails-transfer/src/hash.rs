//! The BLAKE3 of a file, and of its blocks.
//!
//! BLAKE3 is a tree over 1 KiB of bytes at a leaf. A block is the subtree over 256 KiB, so that a
//! file that is compared block by block is hashed once.

use crate::message::{BlockDigest, Digest};
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// The bytes of a block: large enough that work per block does not matter, small enough to stay in
/// the second-level cache between the read, the hash and the write. Below the protocol's limit of 1
/// MiB, and a power of two, as BLAKE3's subtrees are.
pub(crate) const BLOCK: usize = 256 * 1024;

/// Hashes a file from its beginning on.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileHasher {
    /// The complete subtrees before the last block, the largest first: one for each bit of the
    /// number of their blocks.
    subtrees: Vec<ChainingValue>,
    /// The number of blocks before the last one.
    blocks: u64,
    /// The last block.
    block: blake3::Hasher,
    /// The bytes of the last block.
    filled: usize,
}

/// The digest of a file's block of that number.
pub(crate) fn block_digest(number: u64, bytes: &[u8]) -> BlockDigest {
    block_hasher(number).update(bytes).finalize_non_root().into()
}

impl FileHasher {
    /// Adds bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.filled == BLOCK {
                self.end_block();
            }
            let (some, rest) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.block.update(some);
            self.filled += some.len();
            bytes = rest;
        }
    }

    /// Adds that many zeros, those of a hole.
    pub(crate) fn update_zeros(&mut self, mut len: u64) {
        while len > 0 {
            let some = usize::try_from(len).map_or(ZEROS.len(), |len| len.min(ZEROS.len()));
            self.update(&ZEROS[..some]);
            len -= some as u64;
        }
    }

    /// The digest of the last block, which has at least a byte.
    pub(crate) fn block_digest(&self) -> BlockDigest {
        self.block.finalize_non_root().into()
    }

    /// The digest of the bytes so far, as a file of their own.
    pub(crate) fn finalize(&self) -> Digest {
        let Some((first, others)) = self.subtrees.split_first() else { return self.block.finalize().into() };
        let last = self.block.finalize_non_root();
        let right = others.iter().rfold(last, |right, left| merge_subtrees_non_root(left, &right, Mode::Hash));
        merge_subtrees_root(first, &right, Mode::Hash).into()
    }

    /// Begins another block: the last one is complete, and a byte follows.
    fn end_block(&mut self) {
        let mut subtree = self.block.finalize_non_root();
        self.blocks += 1;
        for _ in 0..self.blocks.trailing_zeros() {
            let left = self.subtrees.pop().expect("there is a subtree for each bit of the number");
            subtree = merge_subtrees_non_root(&left, &subtree, Mode::Hash);
        }
        self.subtrees.push(subtree);
        (self.block, self.filled) = (block_hasher(self.blocks), 0);
    }
}

fn block_hasher(number: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    // A file is shorter than 2^63 bytes; a peer may name any number.
    hasher.set_input_offset(number.saturating_mul(BLOCK as u64).min(MAX_OFFSET));
    hasher
}

/// The beginning of the last block that a file can have.
const MAX_OFFSET: u64 = (1 << 63) - BLOCK as u64;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 31 / 7 + at / 1000) as u8).collect()
    }

    fn hashed(pieces: &[&[u8]]) -> FileHasher {
        let mut hasher = FileHasher::default();
        pieces.iter().for_each(|piece| hasher.update(piece));
        hasher
    }

    #[test]
    fn files_of_some_blocks_have_their_blake3() {
        for blocks in 0..=9 {
            for more in [0, 1, 1024, BLOCK - 1] {
                let bytes = bytes(blocks * BLOCK + more);
                assert_eq!(hashed(&[&bytes]).finalize(), blake3::hash(&bytes).into(), "{blocks} and {more}");
            }
        }
    }

    #[test]
    fn zeros_are_hashed_as_bytes() {
        let mut hasher = hashed(&[b"abc"]);
        hasher.update_zeros(3 * BLOCK as u64);
        assert_eq!(hasher.finalize(), blake3::hash(&[&b"abc"[..], &vec![0; 3 * BLOCK]].concat()).into());
    }

    #[test]
    fn a_block_has_a_digest_of_its_place() {
        let bytes = bytes(2 * BLOCK + 5);
        for (number, block) in bytes.chunks(BLOCK).enumerate() {
            let upto = hashed(&[&bytes[..number * BLOCK + block.len()]]);
            assert_eq!(upto.block_digest(), block_digest(number as u64, block));
            assert_ne!(upto.block_digest(), block_digest(number as u64 + 1, block));
        }
        assert_ne!(block_digest(u64::MAX, b"a"), block_digest(0, b"a"), "no number is too large");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        #[test]
        fn pieces_do_not_matter(
            len in 0..5 * BLOCK,
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..9),
        ) {
            let bytes = bytes(len);
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(len + 1)).chain([0, len]).collect();
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(hashed(&pieces).finalize(), blake3::hash(&bytes).into());
        }
    }
}
