//! Datagrams: short messages that may be dropped.

use bytes::Bytes;
use std::collections::VecDeque;

/// Datagrams that wait, at one end and in one direction. If too many wait, the oldest are dropped.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    waiting: VecDeque<Bytes>,
    bytes: usize,
}

impl Datagrams {
    /// Adds a datagram, and drops the oldest while more than [`MAX_BYTES`] wait.
    pub(super) fn push(&mut self, datagram: Bytes) {
        self.bytes += datagram.len() + OVERHEAD;
        self.waiting.push_back(datagram);
        while self.bytes > MAX_BYTES && self.waiting.len() > 1 {
            self.pop();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the oldest datagram.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let datagram = self.waiting.pop_front()?;
        self.bytes -= datagram.len() + OVERHEAD;
        Some(datagram)
    }
}

/// The longest datagram, in bytes.
pub const LONGEST_DATAGRAM: usize = 16 << 10;
/// The most bytes that wait, with an overhead for each datagram.
const MAX_BYTES: usize = 256 << 10;
const OVERHEAD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_dropped() {
        let mut datagrams = Datagrams::default();
        (0..100u8).for_each(|index| datagrams.push(vec![index; LONGEST_DATAGRAM].into()));
        assert!(datagrams.bytes <= MAX_BYTES);
        let kept: Vec<u8> = std::iter::from_fn(|| datagrams.pop()).map(|datagram| datagram[0]).collect();
        assert_eq!(kept, (85..100).collect::<Vec<u8>>());
        (0..100_000).for_each(|_| datagrams.push(Bytes::new()));
        assert!(datagrams.waiting.len() <= MAX_BYTES / OVERHEAD);
    }
}
