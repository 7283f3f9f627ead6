//! Bytes that the application has written and no lane has taken.

use crate::{
    chunk::{Chunk, ChunkKind, Content},
    stream_number::StreamNumber,
};
use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;
use std::{collections::VecDeque, fmt};

/// Bytes that wait to be cut into chunks, in the order in which they were written.
#[derive(Default)]
pub(super) struct UnsentBytes {
    /// The first write, if nothing waited at that time. It goes before the slices.
    first: Bytes,
    slices: VecDeque<Bytes>,
    /// Small writes behind the slices, copied together: a slice for each would cost more memory
    /// than it has bytes.
    gathered: BytesMut,
    /// The number of bytes in all three.
    bytes: usize,
    /// The offset at which the next chunk begins.
    next: u64,
    /// The application will write no more.
    finished: bool,
    /// A lane has taken the end.
    end_cut: bool,
}

impl UnsentBytes {
    /// Takes bytes.
    ///
    /// # Panics
    /// After [`UnsentBytes::finish`].
    pub(super) fn write(&mut self, bytes: Bytes) {
        assert!(!self.finished, "nothing is written to a stream that was finished");
        let is_first = self.bytes == 0;
        self.bytes += bytes.len();
        if is_first {
            // Mostly a lane takes it before the next write.
            self.first = bytes;
        } else if bytes.len() < SMALL {
            if self.gathered.len() + bytes.len() > GATHERED {
                self.end_gathering();
            }
            self.gathered.extend_from_slice(&bytes);
        } else {
            self.end_gathering();
            self.slices.push_back(bytes);
        }
    }

    fn end_gathering(&mut self) {
        if !self.gathered.is_empty() {
            self.slices.push_back(self.gathered.split().freeze());
        }
    }

    /// The application will write no more.
    pub(super) fn finish(&mut self) {
        self.finished = true;
    }

    /// Discards the waiting bytes and the end. Returns how many bytes there were.
    pub(super) fn give_up(&mut self) -> u64 {
        let thrown_away = self.bytes as u64;
        *self = Self { next: self.next, finished: true, end_cut: true, ..Self::default() };
        thrown_away
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether a lane has taken the end.
    pub(super) fn is_end_cut(&self) -> bool {
        self.end_cut
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The offset behind the last byte that a lane has taken.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// How many bytes below `limit` wait; `None` if there is nothing to cut, not even the end.
    pub(super) fn ready(&self, limit: u64) -> Option<usize> {
        if self.bytes == 0 {
            return (self.finished && !self.end_cut).then_some(0);
        }
        let allowed = limit.saturating_sub(self.next);
        (allowed > 0).then(|| allowed.min(self.bytes as u64) as usize)
    }

    /// Cuts the next chunk, of at most `max` bytes and below `limit`; it begins at `position` in
    /// the session.
    pub(super) fn cut(&mut self, limit: u64, max: usize, position: u64) -> Option<Chunk> {
        let allowed = self.ready(limit)?.min(max);
        let mut payload = SmallVec::new();
        let mut length = self.first.len().min(allowed);
        if length > 0 {
            let rest = self.first.split_off(length);
            payload.push(std::mem::replace(&mut self.first, rest));
        }
        while length < allowed && payload.len() < MAX_SLICES {
            if self.slices.is_empty() {
                self.end_gathering();
            }
            let Some(front) = self.slices.front_mut() else { break };
            let slice = if front.len() <= allowed - length {
                self.slices.pop_front().expect("there is a slice")
            } else {
                front.split_to(allowed - length)
            };
            length += slice.len();
            payload.push(slice);
        }
        let offset = self.next;
        self.next += length as u64;
        self.bytes -= length;
        if self.bytes == 0 {
            // A session may have many streams at rest.
            (self.slices, self.gathered) = (VecDeque::new(), BytesMut::new());
        }
        let fin = self.finished && self.bytes == 0;
        self.end_cut |= fin;
        let (stream, length) = (StreamNumber::FIRST, length as u32);
        Some(Chunk { position, stream, offset, payload, length, fin, content: Content::Bytes, kind: ChunkKind::Stream })
    }
}

/// Shows the counts without the bytes.
impl fmt::Debug for UnsentBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, next, finished, end_cut, .. } = self;
        write!(f, "UnsentBytes {{ bytes: {bytes}, next: {next}, finished: {finished}, end_cut: {end_cut} }}")
    }
}

/// Writes below this many bytes are copied together.
const SMALL: usize = 4 << 10;
/// The most bytes that are copied together.
const GATHERED: usize = 64 << 10;
/// The most slices a chunk is made of: one `writev` takes them all (the kernel takes 1,024,
/// `IOV_MAX`).
const MAX_SLICES: usize = 64;
