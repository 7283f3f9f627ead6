//! Small chunks side by side in one buffer, as they lie in the stream.

use bytes::{Bytes, BytesMut};

/// A part of the stream that has arrived in part, with a buffer that grows up to the last byte that
/// has arrived: of a thousand streams, each may have such a part. Offsets count from its beginning.
#[derive(Debug)]
pub(super) struct Gathered {
    buffer: BytesMut,
    extent: usize,
    /// The runs that have arrived, with start and end: in order, and no two touch. Two bytes each
    /// are enough, for the buffer is short.
    filled: Vec<(u16, u16)>,
}

impl Gathered {
    /// Creates a part of `extent` bytes, fewer than 64 KiB.
    pub(super) fn new(extent: usize) -> Self {
        debug_assert!(extent <= usize::from(u16::MAX), "an offset in the buffer has 16 bits");
        Self { buffer: BytesMut::new(), extent, filled: Vec::new() }
    }

    /// How many bytes of the stream the part covers.
    pub(super) fn extent(&self) -> u64 {
        self.extent as u64
    }

    /// The length of the buffer.
    pub(super) fn memory(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Lets the buffer reach to the offset `end`, and not far beyond.
    fn grow(&mut self, end: usize) {
        if end > self.buffer.len() {
            let mut grown = BytesMut::zeroed(end.next_multiple_of(STEP).min(self.extent));
            grown[..self.buffer.len()].copy_from_slice(&self.buffer);
            self.buffer = grown;
        }
    }

    pub(super) fn runs(&self) -> usize {
        self.filled.len()
    }

    /// Copies the new bytes in, and returns how many were new. `bytes` lie within the extent.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> u64 {
        let (from, to) = (at as usize, at as usize + bytes.len());
        self.grow(to);
        let first = self.filled.partition_point(|run| usize::from(run.1) < from);
        let behind = self.filled.partition_point(|run| usize::from(run.0) <= to);
        let (mut next, mut new) = (from, 0);
        let mut begins = from;
        for (run_from, run_to) in self.filled[first..behind].iter().map(|run| (usize::from(run.0), usize::from(run.1)))
        {
            begins = begins.min(run_from);
            if next < run_from {
                self.buffer[next..run_from].copy_from_slice(&bytes[next - from..run_from - from]);
                new += run_from - next;
            }
            next = next.max(run_to);
        }
        if next < to {
            self.buffer[next..to].copy_from_slice(&bytes[next - from..]);
            new += to - next;
            next = to;
        }
        self.filled.splice(first..behind, [(begins as u16, next as u16)]);
        new as u64
    }

    /// The end of the run with the byte at `at`, if that byte has arrived.
    pub(super) fn run_end(&self, at: u64) -> Option<u64> {
        let index = self.filled.partition_point(|run| u64::from(run.1) <= at);
        self.filled.get(index).filter(|run| u64::from(run.0) <= at).map(|run| run.1.into())
    }

    pub(super) fn last_run_end(&self) -> u64 {
        self.filled.last().map_or(0, |run| run.1.into())
    }

    /// Takes out the first run, which begins at the start of the buffer. The rest begins behind it.
    pub(super) fn take_first_run(&mut self) -> Bytes {
        let length = self.filled.remove(0).1;
        for run in &mut self.filled {
            *run = (run.0 - length, run.1 - length);
        }
        self.extent -= usize::from(length);
        self.buffer.split_to(length.into()).freeze()
    }
}

/// The buffer grows in steps of this many bytes.
const STEP: usize = 1 << 10;
