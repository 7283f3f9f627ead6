//! Chunks in any order in, bytes in order out, inside a bounded window.

mod gathered;

use crate::{
    parameters::max_chunks,
    receive_window::ReceiveWindow,
    violation::{MessageViolation, Violation},
    wire::DataHeader,
};
use bytes::{Buf, Bytes};
use gathered::Gathered;
use std::collections::BTreeMap;

/// Puts the chunks of a stream back in order.
///
/// The reassembler holds at most a window of unread bytes. Bytes beyond it are a [`Violation`], for
/// the peer knows the limit. A byte that has arrived before is dropped, whether in a copy of the
/// same chunk or in one that overlaps it.
///
/// # Memory
/// For any peer, the memory is at most a window and a tenth of it, and 16 KiB for tiny chunks:
/// * A chunk of 8 KiB or more keeps the buffer in which it arrived. The rest of a chunk that
///   overlaps others keeps its buffer only while the unused parts of such buffers are less than
///   1/64 of the window; otherwise it is copied. An entry and a buffer's header are 4 % of the
///   shortest.
/// * The reassembler copies smaller chunks together, into buffers that cover up to 16 KiB of the
///   stream, with its holes. These overlap no other buffer, and end within 1 KiB of the last byte
///   that has arrived, so all together take no more than the used part of the window and 1 KiB. A
///   list of runs records the bytes that have arrived in them, with at most 8 bytes for each run.
/// * There are at most twice as many runs as an honest peer leaves gaps (it has no more than a
///   chunk for each 2 KiB of the window in flight, or 1,024): less than 1 % of the window. More are
///   a [`Violation`].
#[derive(Debug)]
pub struct Reassembler {
    window: ReceiveWindow,
    /// The segments that have arrived and are not read, by offset; no two overlap.
    segments: BTreeMap<u64, Segment>,
    /// The number of runs in the gathered chunks.
    runs: usize,
    /// The number of bytes that are missing between those runs.
    holes: u64,
    /// The unused bytes of buffers of which a segment holds only a part.
    wasted: u64,
    /// Everything below this offset has arrived.
    in_order: u64,
    /// The most bytes so far that waited above `in_order`.
    max_out_of_order: u64,
}

/// Whether the bytes of a chunk are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Some of the bytes are new.
    New,
    /// All bytes have arrived before.
    Duplicate,
}

#[derive(Debug)]
enum Segment {
    /// A chunk as it arrived, or the new part of it, and how much longer its buffer is.
    Whole { bytes: Bytes, waste: u64 },
    /// Gathered small chunks: a stream of tiny writes must not cost a map entry and an allocation
    /// for each write.
    Gathered(Gathered),
}

impl Reassembler {
    /// Creates an empty reassembler that holds at most `window` bytes.
    pub fn new(window: u64) -> Self {
        Self::with_end(window, None)
    }

    /// Creates an empty reassembler for a stream that ends at `end`, if that is known.
    pub(crate) fn with_end(window: u64, end: Option<u64>) -> Self {
        Self {
            window: ReceiveWindow::new(window, end),
            segments: BTreeMap::new(),
            runs: 0,
            holes: 0,
            wasted: 0,
            in_order: 0,
            max_out_of_order: 0,
        }
    }

    /// Sets another window, which is not less.
    pub(crate) fn grow(&mut self, window: u64) {
        self.window.grow(window);
    }

    /// Checks a chunk's header before the caller spends memory on its bytes.
    ///
    /// # Errors
    /// [`Violation`] if the chunk lies outside the window or the stream.
    pub fn admit(&self, header: &DataHeader) -> Result<Admission, Violation> {
        let end = header.offset.saturating_add(header.length.into());
        self.window.check(end, header.fin, self.highest())?;
        if header.fin && self.window.end().is_none() {
            return Ok(Admission::New);
        }
        let known =
            end <= self.window.bytes_read() || self.run_end(header.offset).is_some_and(|run_end| end <= run_end);
        Ok(if known { Admission::Duplicate } else { Admission::New })
    }

    /// Takes a chunk.
    ///
    /// # Errors
    /// [`Violation`], as [`Reassembler::admit`] finds it, or because the chunks lie in too many
    /// pieces.
    pub fn insert(&mut self, header: &DataHeader, payload: Bytes) -> Result<(), Violation> {
        self.admit(header)?;
        if header.fin {
            self.window.end_at(header.offset + payload.len() as u64);
        }
        let mut at = header.offset;
        let mut rest = payload;
        let before = self.window.bytes_arrived();
        let brought = rest.len() as u64;
        let read = self.window.bytes_read().saturating_sub(at).min(brought);
        rest.advance(read as usize);
        at += read;
        while !rest.is_empty() {
            let taken = self.take(at, &rest, brought)?;
            rest.advance(taken);
            at += taken as u64;
        }
        self.window.add_duplicated(brought - (self.window.bytes_arrived() - before));
        if header.offset <= self.in_order {
            self.find_gap();
        }
        self.max_out_of_order = self.max_out_of_order.max(self.bytes_out_of_order().0);
        Ok(())
    }

    /// Takes the next bytes in order, as they arrived; `None` if they have not arrived yet.
    pub fn read(&mut self) -> Option<Bytes> {
        if !self.is_readable() {
            return None;
        }
        // No segment begins below `read`, so the first one holds the next byte.
        let (_, held) = self.segments.pop_first()?;
        let bytes = match held {
            Segment::Whole { bytes, waste } => {
                self.wasted -= waste;
                bytes
            }
            Segment::Gathered(mut gathered) => {
                self.runs -= 1;
                let bytes = gathered.take_first_run();
                if gathered.runs() > 0 {
                    self.segments.insert(self.window.bytes_read() + bytes.len() as u64, Segment::Gathered(gathered));
                } else {
                    self.holes -= gathered.memory();
                }
                bytes
            }
        };
        if self.segments.is_empty() {
            // An empty map keeps the memory of a node, and a session may have many streams at rest.
            self.segments = BTreeMap::new();
        }
        self.window.read_to(self.window.bytes_read() + bytes.len() as u64);
        Some(bytes)
    }

    /// Whether [`Reassembler::read`] has bytes to return.
    pub fn is_readable(&self) -> bool {
        self.in_order > self.window.bytes_read()
    }

    /// Whether every byte of the stream has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.window.is_complete()
    }

    /// Whether no byte has arrived.
    pub(crate) fn is_untouched(&self) -> bool {
        self.window.bytes_arrived() == 0
    }

    /// The offset at which the stream ends, if it is known.
    pub(crate) fn end(&self) -> Option<u64> {
        self.window.end()
    }

    /// Whether the application has read every byte of the stream.
    pub(crate) fn is_finished(&self) -> bool {
        self.window.is_finished()
    }

    /// The offset that the peer must not pass.
    pub(crate) fn limit(&self) -> u64 {
        self.window.limit()
    }

    /// How many bytes the application has read.
    pub fn bytes_read(&self) -> u64 {
        self.window.bytes_read()
    }

    /// How many bytes have arrived from the start of the stream up to the first gap.
    pub fn bytes_in_order(&self) -> u64 {
        self.in_order
    }

    /// How many bytes have arrived behind a gap: the present number, and the greatest so far.
    pub(crate) fn bytes_out_of_order(&self) -> (u64, u64) {
        (self.window.bytes_arrived() - self.in_order, self.max_out_of_order)
    }

    /// How many bytes of the window lie below the end of the last byte that has arrived.
    pub(crate) fn window_used(&self) -> u64 {
        self.highest() - self.window.bytes_read()
    }

    /// How many bytes arrived more than once.
    pub(crate) fn bytes_duplicated(&self) -> u64 {
        self.window.bytes_duplicated()
    }

    /// How many bytes the reassembler holds that the application has not read.
    pub fn bytes_held(&self) -> u64 {
        self.window.bytes_arrived() - self.window.bytes_read()
    }

    /// The memory of the unread bytes, without the overhead of each chunk: their count, and the
    /// room for missing bytes between tiny chunks. It is at most the window.
    pub(crate) fn memory_held(&self) -> u64 {
        self.bytes_held() + self.holes
    }

    /// Moves `in_order` on to the first gap. This passes each segment once.
    fn find_gap(&mut self) {
        while let Some(end) = self.run_end(self.in_order) {
            self.in_order = end;
        }
    }

    /// The end of the bytes that have arrived from `at` on, within one segment, if the byte at `at`
    /// has arrived.
    fn run_end(&self, at: u64) -> Option<u64> {
        let (from, held) = self.segments.range(..=at).next_back()?;
        let end = match held {
            Segment::Whole { bytes, .. } => Some(bytes.len() as u64).filter(|end| at - from < *end),
            Segment::Gathered(gathered) => gathered.run_end(at - from),
        };
        end.map(|end| from + end)
    }

    /// Takes the first bytes of `rest`, which lies at `at` and is the rest of a chunk of `brought`
    /// bytes. Returns how many it took; 0 if it has only made a buffer for them.
    fn take(&mut self, at: u64, rest: &Bytes, brought: u64) -> Result<usize, Violation> {
        let before = self.segments.range_mut(..=at).next_back();
        match before.filter(|(from, held)| at - *from < held.extent()) {
            Some((from, Segment::Whole { bytes, .. })) => {
                let known = from + bytes.len() as u64 - at;
                Ok(known.min(rest.len() as u64) as usize)
            }
            Some((from, Segment::Gathered(gathered))) => {
                let length = (from + gathered.extent() - at).min(rest.len() as u64) as usize;
                let (runs, memory) = (gathered.runs(), gathered.memory());
                let new = gathered.write(at - from, &rest[..length]);
                self.window.add_arrived(new);
                self.holes = self.holes + gathered.memory() - memory - new;
                self.runs = self.runs + gathered.runs() - runs;
                let max = max_runs(self.window.size());
                if self.runs > max { Err(Violation::Fragmented { max }) } else { Ok(length) }
            }
            None => {
                let next = self.segments.range(at..).next().map_or(u64::MAX, |(next, _)| *next);
                let length = (next - at).min(rest.len() as u64) as usize;
                // The application reads a chunk in order at once, so the chunk stays as it is, even if it is tiny.
                if length >= SMALL || self.segments.is_empty() {
                    self.keep(at, rest.slice(..length), brought);
                    Ok(length)
                } else {
                    self.make_place(at, next);
                    Ok(0)
                }
            }
        }
    }

    /// Keeps `piece` of a chunk of `brought` bytes. It overlaps no segment.
    fn keep(&mut self, at: u64, piece: Bytes, brought: u64) {
        let length = piece.len() as u64;
        self.window.add_arrived(length);
        let waste = brought - length;
        let segment = if waste > length || self.wasted + waste > self.window.size() / MAX_WASTE {
            Segment::Whole { bytes: Bytes::copy_from_slice(&piece), waste: 0 }
        } else {
            self.wasted += waste;
            Segment::Whole { bytes: piece, waste }
        };
        self.segments.insert(at, segment);
    }

    /// Makes a buffer for the part of the stream around `at`; no segment begins between `at` and
    /// `next`.
    fn make_place(&mut self, at: u64, next: u64) {
        let max = next.min(self.limit());
        let before = self.segments.range(..at).next_back();
        let before_ends = before.map_or(self.window.bytes_read(), |(from, held)| from + held.extent());
        let small = before.filter(|(_, held)| matches!(held, Segment::Whole { bytes, .. } if bytes.len() < SMALL));
        // A small chunk in a buffer of its own joins the gathered ones. It may reach beyond the end of a
        // block.
        let block = small.map_or(at, |_| before_ends) / BLOCK * BLOCK;
        let end = (block + BLOCK).min(max);
        if let Some(from) = small.map(|(from, _)| *from).filter(|_| at < end)
            && let Some(Segment::Whole { bytes, waste }) = self.segments.remove(&from)
        {
            self.wasted -= waste;
            let mut gathered = Gathered::new((end - from) as usize);
            gathered.write(0, &bytes);
            self.runs += gathered.runs();
            self.holes += gathered.memory() - bytes.len() as u64;
            self.segments.insert(from, Segment::Gathered(gathered));
            return;
        }
        let block = at / BLOCK * BLOCK;
        let from = block.max(before_ends);
        let gathered = Gathered::new(((block + BLOCK).min(max) - from) as usize);
        self.segments.insert(from, Segment::Gathered(gathered));
    }

    /// The end of the last byte that has arrived.
    fn highest(&self) -> u64 {
        self.segments.last_key_value().map_or(self.window.bytes_read(), |(from, held)| {
            let end = match held {
                Segment::Whole { bytes, .. } => bytes.len() as u64,
                Segment::Gathered(gathered) => gathered.last_run_end(),
            };
            from + end
        })
    }
}

impl From<MessageViolation> for Violation {
    fn from(violation: MessageViolation) -> Self {
        Self::Message(violation)
    }
}

impl Segment {
    /// How many bytes of the stream the segment covers.
    fn extent(&self) -> u64 {
        match self {
            Self::Whole { bytes, .. } => bytes.len() as u64,
            Self::Gathered(gathered) => gathered.extent(),
        }
    }
}

/// The most runs: more than an honest peer can leave gaps, for before each run there is a chunk in
/// flight.
fn max_runs(window: u64) -> usize {
    2 * max_chunks(window)
}

/// Chunks below this many bytes are copied together: a copy of 8 KiB costs no more than a map entry
/// and a buffer.
const SMALL: usize = 8 << 10;
/// The most bytes of the stream that one buffer for small chunks covers.
const BLOCK: u64 = 16 << 10;
/// The unused parts of buffers may take this fraction of the window: one part in 64.
const MAX_WASTE: u64 = 64;

#[cfg(test)]
mod tests;
