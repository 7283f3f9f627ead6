//! The sent bytes: incompressible, and known to the receiver at every offset.

use super::BLOCK;
use bytes::Bytes;

/// The bytes to send, block by block. Each block is a part of the same bytes from another offset
/// on, so that swapped blocks or chunks are noticed, and sending needs no copy.
#[derive(Debug)]
pub(crate) struct Pattern {
    bytes: Bytes,
}

/// Compares the arriving bytes with those that were sent.
#[derive(Debug)]
pub(crate) struct Checker {
    pattern: Pattern,
    received: u64,
    wrong_at: Option<u64>,
}

impl Pattern {
    pub(crate) fn new(key: &[u8]) -> Self {
        // BLAKE3's output stream of the key.
        let mut bytes = vec![0; BLOCK + SHIFTS * SHIFT];
        blake3::Hasher::new().update(key).finalize_xof().fill(&mut bytes);
        Self { bytes: bytes.into() }
    }

    /// Block `number`, of [`BLOCK`] bytes.
    pub(crate) fn block(&self, number: u64) -> Bytes {
        let start = (number % SHIFTS as u64) as usize * SHIFT;
        self.bytes.slice(start..start + BLOCK)
    }
}

impl Checker {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self { pattern: Pattern::new(key), received: 0, wrong_at: None }
    }

    /// The next bytes that were received.
    pub(crate) fn add(&mut self, mut received: &[u8]) {
        while !received.is_empty() && self.wrong_at.is_none() {
            let within = (self.received % BLOCK as u64) as usize;
            let (now, rest) = received.split_at(received.len().min(BLOCK - within));
            let block = self.pattern.block(self.received / BLOCK as u64);
            let sent = &block[within..within + now.len()];
            if now != sent {
                let same = now.iter().zip(sent).take_while(|(now, sent)| now == sent).count();
                self.wrong_at = Some(self.received + same as u64);
            }
            self.received += now.len() as u64;
            received = rest;
        }
    }

    /// The offset of the first wrong byte.
    pub(crate) fn wrong_at(&self) -> Option<u64> {
        self.wrong_at
    }
}

/// Blocks begin at whole cache lines of the pattern: the copies into the kernel are those of an
/// aligned buffer.
const SHIFT: usize = 64;
/// After so many blocks, 255 MiB, the bytes repeat; a prime, so that no power of two of blocks
/// does.
const SHIFTS: usize = 1021;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(blocks: u64) -> Vec<u8> {
        let pattern = Pattern::new(b"");
        (0..blocks).map(|number| pattern.block(number)).collect::<Vec<_>>().concat()
    }

    #[test]
    fn lost_doubled_and_disordered_bytes() {
        let sent = sent(4);
        let found = |parts: &[&[u8]]| {
            let mut checker = Checker::new(b"");
            parts.iter().for_each(|part| checker.add(part));
            checker.wrong_at()
        };
        let (first, rest) = sent.split_at(BLOCK);
        let (second, third) = rest.split_at(BLOCK);
        assert_eq!(found(&[first, second, third]), None);
        assert_eq!(found(&[first, third]), Some(BLOCK as u64));
        assert_eq!(found(&[first, first]), Some(BLOCK as u64));
        assert_eq!(found(&[second, first]), Some(0));
        let mut damaged = first.to_vec();
        damaged[1000] ^= 1;
        assert_eq!(found(&[&damaged, second]), Some(1000));
    }

    proptest! {
        // Each makes a pattern anew, which takes a while without optimization.
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn how_it_is_cut_up_when_it_arrives_does_not_matter(cuts in prop::collection::vec(1..100_000_usize, 1..20)) {
            let sent = sent(8);
            let mut checker = Checker::new(b"");
            let mut rest = sent.as_slice();
            for cut in cuts {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                checker.add(now);
                rest = later;
            }
            prop_assert_eq!(checker.wrong_at(), None);
        }
    }
}
