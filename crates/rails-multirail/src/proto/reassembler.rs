//! Chunks in any order in, bytes in order out, inside a bounded window.

use super::{connection::Form, messages::MessageViolation, wire::DataHeader};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;

/// Puts the chunks of a stream back in order.
///
/// It holds at most a window of bytes that have not been read, in at most 65,536 segments (more for a window above 16 MiB: one
/// for each 256 bytes); what does not fit is a [`Violation`], for the other end was told the limit. A byte that has arrived before is dropped, whether the chunk
/// that brings it again is the same as before or overlaps it.
#[derive(Debug)]
pub struct Reassembler {
    window: u64,
    /// Everything below has been read.
    read: u64,
    /// What has arrived above `read`, by offset; no two segments overlap.
    segments: BTreeMap<u64, Segment>,
    /// How many different bytes have arrived, read or not.
    arrived: u64,
    /// Everything below has arrived.
    in_order: u64,
    /// The most bytes that there were above.
    most_out_of_order: u64,
    /// Bytes that arrived again.
    duplicated: u64,
    /// Where the stream ends, once a chunk has said so.
    end: Option<u64>,
}

/// Whether the bytes of a chunk are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Some of them are.
    Wanted,
    /// All of them have arrived before.
    Duplicate,
}

/// What no honest peer sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A chunk is longer than this end said it takes.
    #[error("a chunk of {length} bytes, where {longest} are the most that was agreed")]
    TooLong {
        /// Its length in bytes.
        length: u32,
        /// The longest that was agreed.
        longest: u32,
    },
    /// A chunk lies beyond the window.
    #[error("a chunk that ends at {end}, beyond the limit {limit}")]
    BeyondWindow {
        /// The chunk's end.
        end: u64,
        /// The limit that the other end was told.
        limit: u64,
    },
    /// A chunk lies beyond the end of the stream.
    #[error("a chunk that ends at {chunk_end}, beyond the end of the stream at {end}")]
    BeyondEnd {
        /// The chunk's end.
        chunk_end: u64,
        /// The stream's end.
        end: u64,
    },
    /// The stream was said to end in two places, or below bytes that have arrived.
    #[error("the end of the stream moved to {end}")]
    EndMoved {
        /// Where it is said to be now.
        end: u64,
    },
    /// The bytes that have arrived lie in too many pieces.
    #[error("the bytes that have arrived lie in more than {most} pieces")]
    Fragmented {
        /// How many are held.
        most: usize,
    },
    /// Chunks were acknowledged that were not sent.
    #[error("{acknowledged} chunks of a lane are acknowledged, {sent} were sent")]
    NeverSent {
        /// How many are said to have arrived.
        acknowledged: u64,
        /// How many were sent.
        sent: u64,
    },
    /// The ends use the stream for different things.
    #[error("the other end sent {arrived}, and this end's application uses the stream for {expected}")]
    Form {
        /// What arrived.
        arrived: Form,
        /// What the application uses the stream for.
        expected: Form,
    },
    /// What is said of messages cannot be.
    #[error("{0}")]
    Message(MessageViolation),
}

/// Where what arrives may lie.
pub(super) struct Bounds {
    /// The offset that the other end must not pass.
    pub(super) limit: u64,
    /// Where the stream ends, once that was said.
    pub(super) end: Option<u64>,
    /// The end of the last that has arrived.
    pub(super) highest: u64,
}

impl Bounds {
    /// Whether something may end at `end`, and the stream there if it is its `fin`.
    pub(super) fn check(&self, end: u64, fin: bool) -> Result<(), Violation> {
        if end > self.limit {
            return Err(Violation::BeyondWindow { end, limit: self.limit });
        }
        match self.end {
            Some(known) if end > known => Err(Violation::BeyondEnd { chunk_end: end, end: known }),
            Some(known) if fin && end != known => Err(Violation::EndMoved { end }),
            None if fin && end < self.highest => Err(Violation::EndMoved { end }),
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
enum Segment {
    /// A chunk as it arrived.
    Whole(Bytes),
    /// Small chunks gathered: a stream of tiny writes must not cost a map entry and an allocation for each.
    Gathered(BytesMut),
}

impl Reassembler {
    /// An empty one that holds at most `window` bytes.
    pub fn new(window: u64) -> Self {
        Self {
            window,
            read: 0,
            segments: BTreeMap::new(),
            arrived: 0,
            in_order: 0,
            most_out_of_order: 0,
            duplicated: 0,
            end: None,
        }
    }

    /// Looks at a chunk's header, before any memory is spent on its bytes.
    ///
    /// # Errors
    /// [`Violation`] where it lies outside the window or the stream.
    pub fn admit(&self, header: &DataHeader) -> Result<Admission, Violation> {
        let end = header.offset.saturating_add(header.length.into());
        let bounds = Bounds { limit: self.limit(), end: self.end, highest: self.highest() };
        bounds.check(end, header.fin)?;
        if header.fin && self.end.is_none() {
            return Ok(Admission::Wanted);
        }
        let known = end <= self.read
            || self.segments.range(..=header.offset).next_back().is_some_and(|(at, held)| end <= at + held.len());
        Ok(if known { Admission::Duplicate } else { Admission::Wanted })
    }

    /// Takes a chunk.
    ///
    /// # Errors
    /// [`Violation`], as [`Reassembler::admit`] finds it, or because the chunks lie in too many pieces.
    pub fn insert(&mut self, header: &DataHeader, payload: Bytes) -> Result<(), Violation> {
        self.admit(header)?;
        if header.fin {
            self.end = Some(header.offset + payload.len() as u64);
        }
        let mut at = header.offset;
        let mut rest = payload;
        let before = self.arrived;
        let brought = rest.len() as u64;
        // What has been read is dropped from the front, then what lies between the segments held is kept.
        skip(&mut at, &mut rest, self.read);
        while !rest.is_empty() {
            if let Some((held_at, held)) = self.segments.range(..=at).next_back() {
                let held_end = held_at + held.len();
                skip(&mut at, &mut rest, held_end);
            }
            let gap = self.segments.range(at..).next().map_or(u64::MAX, |(next, _)| next - at);
            let piece = rest.split_to(gap.min(rest.len() as u64) as usize);
            let length = piece.len() as u64;
            if length > 0 {
                // A small part of a chunk must not hold all of its buffer: then the window would not bound the memory.
                let piece = if piece.len() as u64 * 2 < brought { Bytes::copy_from_slice(&piece) } else { piece };
                self.keep(at, piece)?;
                self.arrived += length;
                at += length;
            }
        }
        self.duplicated += brought - (self.arrived - before);
        if header.offset <= self.in_order {
            self.find_gap();
        }
        self.most_out_of_order = self.most_out_of_order.max(self.arrived - self.in_order);
        Ok(())
    }

    /// The next bytes in order, as they arrived; `None` where they have not yet.
    pub fn read(&mut self) -> Option<Bytes> {
        let entry = self.segments.first_entry().filter(|entry| *entry.key() == self.read)?;
        let bytes = match entry.remove() {
            Segment::Whole(bytes) => bytes,
            Segment::Gathered(bytes) => bytes.freeze(),
        };
        self.read += bytes.len() as u64;
        Some(bytes)
    }

    /// Whether [`Reassembler::read`] has bytes to give.
    pub fn is_readable(&self) -> bool {
        self.segments.first_key_value().is_some_and(|(at, _)| *at == self.read)
    }

    /// Whether every byte of the stream has arrived.
    pub fn is_complete(&self) -> bool {
        self.end == Some(self.arrived)
    }

    /// Whether no byte has arrived.
    pub fn is_untouched(&self) -> bool {
        self.arrived == 0
    }

    /// Where the stream ends, if that was said.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    /// An untouched one of a stream that ends there.
    pub(crate) fn with_end(window: u64, end: Option<u64>) -> Self {
        Self { end, ..Self::new(window) }
    }

    /// Whether every byte of the stream has been read.
    pub fn is_finished(&self) -> bool {
        self.end == Some(self.read)
    }

    /// The offset that the other end must not pass.
    pub fn limit(&self) -> u64 {
        self.read.saturating_add(self.window)
    }

    /// How many bytes have been read.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// How many bytes can be read from the start of the stream without a gap, those included that have been.
    pub fn bytes_in_order(&self) -> u64 {
        self.in_order
    }

    /// How many bytes have arrived behind a gap, and the most that there were.
    pub fn bytes_out_of_order(&self) -> (u64, u64) {
        (self.arrived - self.in_order, self.most_out_of_order)
    }

    /// How much of the window lies below the end of the last byte that has arrived.
    pub fn window_used(&self) -> u64 {
        self.highest() - self.read
    }

    /// How many bytes arrived more than once.
    pub fn bytes_duplicated(&self) -> u64 {
        self.duplicated
    }

    /// How many bytes are held that have not been read.
    pub fn bytes_held(&self) -> u64 {
        self.arrived - self.read
    }

    /// Moves on to the first gap: each segment is passed once.
    fn find_gap(&mut self) {
        while let Some((at, held)) = self.segments.range(..=self.in_order).next_back()
            && at + held.len() > self.in_order
        {
            self.in_order = at + held.len();
        }
    }

    /// Keeps a piece that overlaps nothing. Small ones that meet are gathered, in whatever order they come.
    fn keep(&mut self, at: u64, piece: Bytes) -> Result<(), Violation> {
        if piece.len() >= SMALL {
            self.make_room_for_one()?;
            self.segments.insert(at, Segment::Whole(piece));
            return Ok(());
        }
        let before = self.segments.range(..at).next_back();
        let before = before.filter(|(from, held)| *from + held.len() == at && held.takes(piece.len() as u64));
        let from = match before.map(|(from, _)| *from) {
            Some(from) => from,
            None => {
                self.make_room_for_one()?;
                self.segments.insert(at, Segment::Gathered(BytesMut::new()));
                at
            }
        };
        let after = at + piece.len() as u64;
        let grown = after - from;
        let behind = self.segments.get(&after).filter(|behind| behind.takes(grown)).is_some();
        let behind = if behind { self.segments.remove(&after) } else { None };
        if let Some(Segment::Gathered(gathered)) = self.segments.get_mut(&from) {
            gathered.extend_from_slice(&piece);
            if let Some(Segment::Gathered(behind)) = behind {
                gathered.extend_from_slice(&behind);
            }
        }
        Ok(())
    }

    fn make_room_for_one(&self) -> Result<(), Violation> {
        let most = MOST_SEGMENTS.max((self.window / 256) as usize);
        if self.segments.len() < most { Ok(()) } else { Err(Violation::Fragmented { most }) }
    }

    /// The end of the last byte that has arrived.
    fn highest(&self) -> u64 {
        self.segments.last_key_value().map_or(self.read, |(at, held)| at + held.len())
    }
}

impl From<MessageViolation> for Violation {
    fn from(violation: MessageViolation) -> Self {
        Self::Message(violation)
    }
}

impl Segment {
    fn len(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Gathered(bytes) => bytes.len() as u64,
        }
    }

    /// Whether that many bytes more can be gathered with it.
    fn takes(&self, more: u64) -> bool {
        matches!(self, Self::Gathered(bytes) if bytes.len() as u64 + more <= GATHERED as u64)
    }
}

/// Drops from the front of `rest` what lies below `to`.
fn skip(at: &mut u64, rest: &mut Bytes, to: u64) {
    if *at < to {
        let skipped = (to - *at).min(rest.len() as u64);
        let _ = rest.split_to(skipped as usize);
        *at += skipped;
    }
}

/// Chunks below this many bytes are copied together: a copy of 4 KiB costs less than a map entry and a buffer.
const SMALL: usize = 4 << 10;
/// How many bytes are copied together at most.
const GATHERED: usize = 16 << 10;
/// The most pieces that are held in a window of 16 MiB, so that a peer that sends every other byte cannot make a window cost gigabytes.
const MOST_SEGMENTS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    fn chunk(offset: u64, bytes: &[u8], fin: bool) -> (DataHeader, Bytes) {
        let payload = Bytes::copy_from_slice(bytes);
        (DataHeader::of(offset, std::slice::from_ref(&payload), fin), payload)
    }

    fn drain(reassembler: &mut Reassembler) -> Vec<u8> {
        std::iter::from_fn(|| reassembler.read()).flatten().collect()
    }

    #[test]
    fn what_lies_outside_is_a_violation_and_changes_nothing() {
        let mut reassembler = Reassembler::new(10);
        let take =
            |reassembler: &mut Reassembler, (header, bytes): (DataHeader, Bytes)| reassembler.insert(&header, bytes);
        assert_eq!(
            take(&mut reassembler, chunk(8, b"abc", false)),
            Err(Violation::BeyondWindow { end: 11, limit: 10 })
        );
        assert!(matches!(take(&mut reassembler, chunk(u64::MAX, b"abc", false)), Err(Violation::BeyondWindow { .. })));
        take(&mut reassembler, chunk(4, b"ef", false)).unwrap();
        assert_eq!(take(&mut reassembler, chunk(0, b"abc", true)), Err(Violation::EndMoved { end: 3 }));
        take(&mut reassembler, chunk(6, b"", true)).unwrap();
        assert_eq!(take(&mut reassembler, chunk(6, b"g", false)), Err(Violation::BeyondEnd { chunk_end: 7, end: 6 }));
        assert_eq!(take(&mut reassembler, chunk(0, b"abc", true)), Err(Violation::EndMoved { end: 3 }));
        take(&mut reassembler, chunk(0, b"abcd", false)).unwrap();
        assert!(reassembler.is_complete() && !reassembler.is_finished());
        assert_eq!(drain(&mut reassembler), b"abcdef");
        assert!(reassembler.is_finished());
    }

    #[test]
    fn a_peer_that_sends_every_other_byte_is_stopped() {
        let mut reassembler = Reassembler::new(1 << 24);
        let stopped = (0..).find(|index| {
            let (header, bytes) = chunk(2 * index + 1, b"x", false);
            reassembler.insert(&header, bytes).is_err()
        });
        assert_eq!(stopped, Some(MOST_SEGMENTS as u64));
    }

    #[test]
    fn tiny_chunks_are_gathered() {
        let mut reassembler = Reassembler::new(1 << 24);
        for index in 0..100_000u64 {
            let (header, bytes) = chunk(index, b"x", false);
            reassembler.insert(&header, bytes).unwrap();
        }
        assert!(reassembler.segments.len() <= 100_000 / GATHERED + 1);
    }

    /// Every other chunk comes first, as it does when one of two lanes lags behind, and nobody reads.
    #[test]
    fn tiny_chunks_are_gathered_in_whatever_order_they_come() {
        let mut reassembler = Reassembler::new(1 << 24);
        for batch in (0..200_000u64).step_by(1_000) {
            for index in (batch + 1..batch + 1_000).step_by(2).chain((batch..batch + 1_000).step_by(2)) {
                let (header, bytes) = chunk(index, &[index as u8], false);
                reassembler.insert(&header, bytes).unwrap();
            }
        }
        assert!(reassembler.segments.len() <= 2 * 200_000 / GATHERED + 1, "{}", reassembler.segments.len());
        assert!(drain(&mut reassembler).into_iter().eq((0..200_000u64).map(|index| index as u8)));
    }

    #[test]
    fn a_large_window_may_be_full_of_chunks_of_a_kibibyte_with_gaps() {
        let mut reassembler = Reassembler::new(1 << 28);
        for index in 0..100_000 {
            let (header, bytes) = chunk(index * 2_048, &[1; 1_024], false);
            reassembler.insert(&header, bytes).unwrap();
        }
    }

    /// Each chunk brings one new piece; what is kept is the piece, not the chunk.
    #[test]
    fn a_small_part_of_a_chunk_does_not_hold_its_buffer() {
        let mut reassembler = Reassembler::new(1 << 24);
        let buffer = Bytes::from(vec![1; 100_000]);
        for index in 0..100 {
            let header = DataHeader::of(index * 5_000, std::slice::from_ref(&buffer), false);
            reassembler.insert(&header, buffer.clone()).unwrap();
        }
        let ours = buffer.as_ptr_range();
        let held = reassembler
            .segments
            .values()
            .filter(|held| matches!(held, Segment::Whole(bytes) if ours.contains(&bytes.as_ptr())));
        assert_eq!(held.count(), 1, "only the first chunk was all new");
    }

    proptest! {
        /// Any chunks over a stream, overlapping, doubled and in any order, give the stream back once they cover it.
        #[test]
        fn bytes_come_out_once_and_in_order(
            stream in prop::collection::vec(any::<u8>(), 1..20_000),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6_000), 0..60),
            order in any::<u64>(),
            reads in prop::collection::vec(any::<bool>(), 60),
        ) {
            let total = stream.len();
            let mut ranges: Vec<(usize, usize)> = cuts.iter().map(|(at, length)| {
                let at = at.index(total);
                (at, (at + length).min(total))
            }).collect();
            // Cover the whole of it as well.
            ranges.extend((0..total).step_by(777).map(|at| (at, (at + 777).min(total))));
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(order);
            rand::seq::SliceRandom::shuffle(&mut ranges[..], &mut random);
            let mut reassembler = Reassembler::new(total as u64);
            let mut out = Vec::new();
            let mut brought = 0;
            for (index, (from, to)) in ranges.into_iter().enumerate() {
                let (header, bytes) = chunk(from as u64, &stream[from..to], to == total);
                let admission = reassembler.admit(&header).unwrap();
                let arrived = reassembler.arrived;
                reassembler.insert(&header, bytes).unwrap();
                brought += (to - from) as u64;
                if admission == Admission::Duplicate {
                    prop_assert_eq!(arrived, reassembler.arrived);
                }
                let held_in_order = {
                    let mut end = reassembler.read;
                    reassembler.segments.iter().for_each(|(at, held)| if *at == end { end += held.len() });
                    end
                };
                prop_assert_eq!(reassembler.bytes_in_order(), held_in_order);
                prop_assert_eq!(reassembler.bytes_out_of_order().0, reassembler.arrived - held_in_order);
                if reads[index % reads.len()] {
                    out.extend(drain(&mut reassembler));
                }
            }
            prop_assert!(reassembler.is_complete());
            out.extend(drain(&mut reassembler));
            prop_assert_eq!(&out, &stream);
            prop_assert!(reassembler.is_finished());
            prop_assert_eq!(reassembler.bytes_duplicated(), brought - total as u64);
            prop_assert_eq!(reassembler.bytes_held(), 0);
        }

        #[test]
        fn no_headers_make_it_panic_or_outgrow_the_window(
            chunks in prop::collection::vec((0u64..3_000, 0usize..700, any::<bool>()), 0..200),
        ) {
            let mut reassembler = Reassembler::new(2_000);
            for (offset, length, fin) in chunks {
                let (header, bytes) = chunk(offset, &vec![0; length], fin);
                let _ = reassembler.insert(&header, bytes);
                prop_assert!(reassembler.bytes_held() <= 2_000);
                if length % 3 == 0 {
                    reassembler.read();
                }
            }
        }
    }
}
