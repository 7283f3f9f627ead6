//! The receiving half of a connection: which bytes have arrived, and the news of them for the
//! sender.

use super::wire::{ErrorList, SegmentHeader, ShortHeader};
use rangemap::RangeSet;
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    time::{Duration, Instant},
};

/// The receiving half.
#[derive(Debug)]
pub struct Receiver {
    /// All bytes below this offset have arrived.
    complete: u64,
    /// Bytes above `complete` that have arrived.
    above: RangeSet<u64>,
    /// Messages of which bytes have arrived and bytes are missing.
    messages: BTreeMap<u32, Partial>,
    /// The messages' numbers by the places of their first bytes.
    starts: BTreeMap<u64, u32>,
    /// The numbers of messages that have arrived as a whole or were given up.
    ended: RangeSet<u32>,
    limit: u64,
    message_limit: u32,
    largest: Option<(u64, Instant)>,
    overflowed: u64,
    rtt: Option<Duration>,
    interval: Duration,
    list_at: Option<Instant>,
    listed_at: Option<Instant>,
    arrivals: VecDeque<Arrival>,
    stats: ReceiverStats,
}

/// A message that is arriving.
#[derive(Debug)]
struct Partial {
    bytes: Range<u64>,
    missing: u64,
    /// The packet that began the message: one with a short header comes later, once the sender has
    /// heard of it.
    begun_by: u64,
}

/// The outcome for the payload of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// All bytes of the payload are new.
    New,
    /// These bytes of the message are new, and the others had arrived before.
    Partly(Vec<Range<u64>>),
    /// All bytes of the payload had arrived before.
    Duplicate,
}

/// The progress of an arriving message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The first segment of a message has arrived.
    Begun {
        /// The message's number.
        message: u32,
        /// The message's length in bytes.
        length: u64,
    },
    /// The last missing byte of a message has arrived.
    Whole {
        /// The message's number.
        message: u32,
    },
    /// The peer has given a message up. A part of it may have arrived.
    GivenUp {
        /// The message's number.
        message: u32,
        /// The message's length in bytes; 0 if none of them was sent.
        length: u64,
    },
}

/// Why a segment is dropped. The sender sends it again if its bytes are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The segment lies behind the limits that this end has told the sender.
    #[error("a segment behind the limit")]
    BehindLimit,
    /// The segment's message has another length or place than an earlier segment has told.
    #[error("a segment that contradicts an earlier one")]
    Contradiction,
    /// The segment has a short header, and its message is not known, or the segment is too old to
    /// tell its offset.
    #[error("a segment of an unknown message")]
    UnknownMessage,
    /// The bytes that have arrived are in too many pieces.
    #[error("a segment apart from {MAX_PIECES} pieces")]
    TooManyPieces,
}

/// Counters of a receiving half.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiverStats {
    /// Segments that have arrived, duplicates included.
    pub segments: u64,
    /// Payload bytes that were new.
    pub bytes: u64,
    /// Segments whose bytes had all arrived before.
    pub duplicates: u64,
    /// Segments that were dropped ([`Rejection`]).
    pub rejected: u64,
    /// Error lists sent.
    pub error_lists: u64,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// A half that takes nothing until [`raise_limits`](Self::raise_limits) says so.
    pub fn new() -> Self {
        Self {
            complete: 0,
            above: RangeSet::new(),
            messages: BTreeMap::new(),
            starts: BTreeMap::new(),
            ended: RangeSet::new(),
            limit: 0,
            message_limit: 0,
            largest: None,
            overflowed: 0,
            // The sender measures round trips.
            rtt: None,
            interval: MIN_INTERVAL,
            list_at: None,
            listed_at: None,
            arrivals: VecDeque::new(),
            stats: ReceiverStats::default(),
        }
    }

    /// Raises the limits: the half takes bytes below that offset and messages below that number.
    /// The limits never fall.
    pub fn raise_limits(&mut self, now: Instant, limit: u64, message_limit: u32) {
        if limit > self.limit || message_limit > self.message_limit {
            self.limit = self.limit.max(limit);
            self.message_limit = self.message_limit.max(message_limit);
            self.tell(now);
        }
    }

    /// Sets the least round-trip time, which the sender has measured: an error list goes out in
    /// each eighth of it, but no more often than every 2 ms. Before it is known, one goes out every
    /// 2 ms.
    pub fn set_min_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(rtt);
        self.interval = interval(rtt);
    }

    /// The least round-trip time, once the sender has told it.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Answers a sender that asks for an error list, even if there is no news.
    pub fn answer(&mut self, now: Instant) {
        self.tell(now);
    }

    /// The longest time for which news of an arrival waits.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// As [`lookup`](Self::lookup), for a segment that is dropped without it.
    ///
    /// # Errors
    /// [`Rejection::UnknownMessage`].
    pub fn expand(&mut self, short: &ShortHeader, payload_len: u32) -> Result<SegmentHeader, Rejection> {
        let header = self.lookup(short, payload_len).ok_or(Rejection::UnknownMessage);
        self.stats.rejected += u64::from(header.is_err());
        header
    }

    /// The full header of a segment with a short header and `payload_len` bytes, if its message is
    /// known. If all of its bytes have arrived, then the header names some message that has ended,
    /// and [`handle`](Self::handle) takes the segment for a duplicate.
    pub fn lookup(&self, short: &ShortHeader, payload_len: u32) -> Option<SegmentHeader> {
        let ShortHeader { token, packet, .. } = *short;
        if self.largest.is_some_and(|(largest, _)| packet.saturating_add(OLDEST) < largest) {
            return None;
        }
        // The offset with these low bits that is next to the bytes that have all arrived.
        let ahead = short.offset.wrapping_sub(self.complete as u32).cast_signed();
        let offset = self.complete.checked_add_signed(ahead.into())?;
        let bytes = offset..offset.checked_add(payload_len.into())?;
        let message = self.starts.range(..=offset).next_back().and_then(|(_, number)| {
            let known = self.messages.get(number)?;
            let is_in_it = bytes.end <= known.bytes.end && packet > known.begun_by;
            is_in_it.then(|| (*number, known.bytes.clone()))
        });
        let has_arrived = || bytes.end <= self.complete || self.above.gaps(&bytes).next().is_none();
        let (message, place) = match message {
            Some(message) => message,
            None if has_arrived() => (self.ended.first()?.start, bytes),
            None => return None,
        };
        let (message_len, in_message) = (len(&place), offset - place.start);
        Some(SegmentHeader { token, packet, offset, message, message_len, in_message })
    }

    /// Takes a segment with `payload_len` bytes.
    ///
    /// # Errors
    /// [`Rejection`]. Its payload is to be dropped then.
    pub fn handle(&mut self, now: Instant, header: &SegmentHeader, payload_len: u32) -> Result<Payload, Rejection> {
        let bytes = header.offset..header.offset + u64::from(payload_len);
        if let Err(rejection) = self.admit(header, &bytes) {
            self.stats.rejected += 1;
            return Err(rejection);
        }
        self.stats.segments += 1;
        if self.largest.is_none_or(|(largest, _)| header.packet > largest) {
            self.largest = Some((header.packet, now));
        }
        self.tell(now);
        let (start, number) = (header.start(), header.message);
        let (payload, count) = match self.is_next(&bytes) {
            true => {
                self.complete = bytes.end;
                (Payload::New, len(&bytes))
            }
            false => {
                let new = self.add(bytes.clone());
                let count = new.iter().map(len).sum();
                let parts = || new.iter().map(|range| range.start - start..range.end - start).collect();
                (if count == len(&bytes) { Payload::New } else { Payload::Partly(parts()) }, count)
            }
        };
        if count == 0 {
            self.stats.duplicates += 1;
            return Ok(Payload::Duplicate);
        }
        let arrivals = &mut self.arrivals;
        let starts = &mut self.starts;
        let message = self.messages.entry(number).or_insert_with(|| {
            starts.insert(start, number);
            arrivals.push_back(Arrival::Begun { message: number, length: header.message_len });
            let bytes = start..start + header.message_len;
            Partial { bytes, missing: header.message_len, begun_by: header.packet }
        });
        self.stats.bytes += count;
        message.missing -= count;
        if message.missing == 0 {
            self.end(number);
            self.arrivals.push_back(Arrival::Whole { message: number });
        }
        Ok(payload)
    }

    /// The peer has given a message up, which has that place among the bytes of the connection. One
    /// that has arrived as a whole stays so.
    ///
    /// # Errors
    /// [`Rejection::Contradiction`] if another message has some of these bytes, or it has another
    /// place; [`Rejection::BehindLimit`] for a message that the peer could not begin.
    pub fn give_up(&mut self, now: Instant, message: u32, bytes: Range<u64>) -> Result<(), Rejection> {
        if message >= self.message_limit {
            return Err(Rejection::BehindLimit);
        }
        if self.ended.contains(&message) {
            // The message has arrived as a whole, and the peer did not know; or it was given up before.
            return Ok(());
        }
        let is_sound = match self.messages.get(&message) {
            Some(known) => known.bytes == bytes,
            // A message of which nothing was sent has no place.
            None if bytes.is_empty() => bytes.start == bytes.end,
            // Nothing of the message has arrived, and the peer had begun it.
            None if bytes.start >= self.limit => return Err(Rejection::BehindLimit),
            None => self.is_between_neighbours(message, &bytes),
        };
        if !is_sound {
            return Err(Rejection::Contradiction);
        }
        if self.above.len() >= 2 * MAX_PIECES {
            return Err(Rejection::TooManyPieces);
        }
        self.end(message);
        self.arrivals.push_back(Arrival::GivenUp { message, length: len(&bytes) });
        self.add(bytes);
        self.tell(now);
        Ok(())
    }

    /// Sets the number of datagrams for which the socket had no room since it was opened.
    pub fn set_overflowed(&mut self, datagrams: u64) {
        self.overflowed = datagrams;
    }

    /// The error list, once it is time for one: at most one in each interval, and none without news
    /// or a question.
    pub fn poll_error_list(&mut self, now: Instant) -> Option<ErrorList> {
        self.list_at.take_if(|at| *at <= now)?;
        self.listed_at = Some(now);
        self.stats.error_lists += 1;
        let known = self.above.last().map_or(self.complete, |range| range.end);
        let (largest, at) = self.largest.unwrap_or((0, now));
        let delay = now.saturating_duration_since(at).as_micros();
        let list = ErrorList {
            largest,
            delay_us: u32::try_from(delay).unwrap_or(u32::MAX),
            received: self.stats.segments,
            duplicates: self.stats.duplicates,
            overflowed: self.overflowed,
            limit: self.limit,
            message_limit: self.message_limit,
            complete: self.complete,
            known,
            ..ErrorList::default()
        };
        Some(list.with_missing(self.above.gaps(&(self.complete..known))))
    }

    /// When the next error list is due; `None` without news.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.list_at
    }

    /// The next step of an arriving message.
    pub fn poll_arrival(&mut self) -> Option<Arrival> {
        self.arrivals.pop_front()
    }

    /// Whether a message has arrived as a whole, or was given up.
    pub fn has_ended_message(&self, message: u32) -> bool {
        self.ended.contains(&message)
    }

    /// All messages below this number have arrived as a whole, or were given up.
    pub fn first_open(&self) -> u32 {
        self.ended.first().filter(|first| first.start == 0).map_or(0, |first| first.end)
    }

    /// Whether each of the first `messages` messages has arrived as a whole or was given up.
    pub fn has_ended(&self, messages: u32) -> bool {
        messages == 0 || self.ended.gaps(&(0..messages)).next().is_none()
    }

    /// All bytes below this offset have arrived.
    pub fn complete(&self) -> u64 {
        self.complete
    }

    /// The first missing bytes from that offset on, which the next segments are expected to bring,
    /// if they are of a message that is arriving: its number, and their places in it. No byte
    /// of them has arrived.
    pub fn expected(&self, from: u64) -> Option<(u32, Range<u64>)> {
        let behind = from.max(self.complete)..u64::MAX;
        let missing = if self.above.is_empty() { behind } else { self.above.gaps(&behind).next()? };
        let (_, number) = self.starts.range(..=missing.start).next_back()?;
        let message = &self.messages.get(number)?.bytes;
        let places = missing.start - message.start..missing.end.min(message.end).saturating_sub(message.start);
        (!places.is_empty()).then_some((*number, places))
    }

    /// The counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    fn admit(&self, header: &SegmentHeader, bytes: &Range<u64>) -> Result<(), Rejection> {
        if bytes.end > self.limit || header.message >= self.message_limit {
            return Err(Rejection::BehindLimit);
        }
        let place = header.start()..header.start() + header.message_len;
        let is_sound = match self.messages.get(&header.message) {
            Some(known) => known.bytes == place,
            // The message has arrived as a whole, and this is a duplicate; or it lies between its neighbours.
            None if bytes.end <= self.complete || self.above.gaps(bytes).next().is_none() => true,
            None if self.ended.contains(&header.message) => false,
            None => self.is_between_neighbours(header.message, &place),
        };
        if !is_sound {
            return Err(Rejection::Contradiction);
        }
        let touches =
            bytes.start <= self.complete || self.above.overlaps(&(bytes.start - 1..bytes.end.saturating_add(1)));
        if !touches && self.above.len() >= MAX_PIECES { Err(Rejection::TooManyPieces) } else { Ok(()) }
    }

    /// Whether a message of which nothing has arrived can have that place.
    fn is_between_neighbours(&self, message: u32, place: &Range<u64>) -> bool {
        let before = self.messages.range(..message).next_back();
        let after = self.messages.range(message..).next();
        before.is_none_or(|(_, before)| before.bytes.end <= place.start)
            && after.is_none_or(|(_, after)| place.end <= after.bytes.start)
            && !self.above.overlaps(place)
            && self.complete <= place.start
    }

    /// Ends a message, of which no more bytes come.
    fn end(&mut self, message: u32) {
        if let Some(incoming) = self.messages.remove(&message) {
            self.starts.remove(&incoming.bytes.start);
        }
        self.ended.insert(message..message + 1);
    }

    /// Whether bytes are next to those that have all arrived, and leave a gap behind them: most
    /// are.
    fn is_next(&self, bytes: &Range<u64>) -> bool {
        bytes.start == self.complete && self.above.first().is_none_or(|first| first.start > bytes.end)
    }

    /// Notes that bytes have arrived. Returns those that are new.
    fn add(&mut self, bytes: Range<u64>) -> Vec<Range<u64>> {
        let bytes = bytes.start.max(self.complete)..bytes.end;
        if bytes.is_empty() {
            return Vec::new();
        }
        if self.is_next(&bytes) {
            self.complete = bytes.end;
            return vec![bytes];
        }
        let new = self.above.gaps(&bytes).collect();
        self.above.insert(bytes);
        if let Some(first) = self.above.first().filter(|first| first.start == self.complete).cloned() {
            self.complete = first.end;
            self.above.remove(first);
        }
        new
    }

    /// Notes that there is news for the sender.
    fn tell(&mut self, now: Instant) {
        let earliest = self.listed_at.map_or(now, |listed| listed + self.interval);
        self.list_at = self.list_at.or(Some(earliest.max(now)));
    }
}

fn len(range: &Range<u64>) -> u64 {
    range.end - range.start
}

fn interval(rtt: Duration) -> Duration {
    (rtt / 8).clamp(MIN_INTERVAL, MAX_INTERVAL)
}

/// Error lists cost the sender's core and the way back; more of them would not find losses earlier
/// than a round trip.
pub(super) const MIN_INTERVAL: Duration = Duration::from_millis(2);
/// The longest interval between lists: the peer may state any round trip.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// A short header this many packets older than the largest is dropped: its offset could be one of
/// before. This many packets of 64 KiB have 2^30 bytes, and as many may have been under way when it
/// was sent.
const OLDEST: u64 = 1 << 14;
/// The most pieces apart that the arrived bytes are in, so that a peer cannot have this end keep a
/// record per byte.
pub const MAX_PIECES: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::wire::Token;
    use proptest::prelude::*;

    const TOKEN: Token = Token(71);

    fn header(packet: u64, start: u64, in_message: u64, message_len: u64) -> SegmentHeader {
        SegmentHeader { token: TOKEN, packet, offset: start + in_message, message: 1, message_len, in_message }
    }

    fn short(packet: u64, offset: u64) -> ShortHeader {
        ShortHeader { token: TOKEN, packet, offset: offset as u32 }
    }

    /// A receiver that has all bytes below `start`, and the first 1,000 of message 1 behind them.
    fn receiver(now: Instant, start: u64, message_len: u64) -> Receiver {
        let mut receiver = Receiver::new();
        receiver.raise_limits(now, u64::MAX, 2);
        receiver.give_up(now, 0, 0..start).unwrap();
        receiver.handle(now, &header(0, start, 0, message_len), 1_000).unwrap();
        receiver
    }

    proptest! {
        #[test]
        fn short_headers_tell_the_place(start in 1..1u64 << 50, message_len in 2_001..1u64 << 30, part in 0.0..1.0f64) {
            let now = Instant::now();
            let mut receiver = receiver(now, start, message_len);
            let in_message = 1_000 + (part * (message_len - 2_001) as f64) as u64;
            let expanded = receiver.expand(&short(1, start + in_message), 1_000);
            prop_assert_eq!(expanded, Ok(header(1, start, in_message, message_len)));
            // Bytes that have arrived, of this message and of one that has ended.
            prop_assert_eq!(receiver.expand(&short(2, start), 1_000), Ok(header(2, start, 0, message_len)));
            let ended = receiver.expand(&short(3, start - 1), 1).unwrap();
            prop_assert_eq!((ended.offset, ended.message), (start - 1, 0));
            prop_assert_eq!(receiver.handle(now, &ended, 1), Ok(Payload::Duplicate));
            // Beyond the message.
            let beyond = receiver.expand(&short(4, start + message_len - 1), 2);
            prop_assert_eq!(beyond, Err(Rejection::UnknownMessage));
        }
    }

    #[test]
    fn late_short_headers_are_of_no_later_message() {
        let now = Instant::now();
        let mut receiver = Receiver::new();
        receiver.raise_limits(now, u64::MAX, 2);
        // The peer gives message 0 up, of whose bytes one of packet 4 is still on its way.
        receiver.give_up(now, 0, 0..1 << 32).unwrap();
        receiver.handle(now, &header(9, 1 << 32, 0, 1 << 20), 1_000).unwrap();
        assert_eq!(receiver.expand(&short(4, 50_000), 1_000), Err(Rejection::UnknownMessage));
        assert_eq!(receiver.expand(&short(10, 50_000), 1_000), Ok(header(10, 1 << 32, 50_000, 1 << 20)));
    }

    #[test]
    fn old_short_headers_are_dropped() {
        let now = Instant::now();
        let mut receiver = receiver(now, 1 << 40, 10_000);
        receiver.handle(now, &header(OLDEST + 8, 1 << 40, 1_000, 10_000), 1_000).unwrap();
        assert_eq!(receiver.expand(&short(7, (1 << 40) + 2_000), 1_000), Err(Rejection::UnknownMessage));
        receiver.expand(&short(8, (1 << 40) + 2_000), 1_000).unwrap();
        assert_eq!(receiver.stats().rejected, 1);
    }
}
