//! The sending sides of all streams of a session, and the control records that wait.

use super::{send_stream::SendStream, turns::Turns, unsent::Unsent};
use crate::{
    chunk::{Chunk, ChunkKind, Priority},
    control::{self, MAX_RECORDS, RECORD_LEN, Record, Subject},
    stream_map::StreamMap,
    stream_number::StreamNumber,
    violation::Violation,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// The sending sides of all streams. Control records go first, and streams with something to send
/// take turns.
///
/// Chunks of all streams lie on one line of *positions*, in the order in which lanes first took
/// them. The scheduler knows a chunk by its position, which the peer never learns.
#[derive(Debug)]
pub(crate) struct SendStreams {
    streams: StreamMap<SendStream>,
    /// How many of them the application has not finished.
    unfinished: usize,
    turns: Turns,
    /// The streams of which only the end is left to send, which needs no room in the window.
    ends: BTreeSet<StreamNumber>,
    /// The subjects of control records that wait, with the application's codes.
    control: BTreeMap<Subject, u64>,
    /// The longest chunk that both ends take.
    longest_chunk: usize,
    /// How many bytes the application may let wait in each stream.
    capacity: usize,
    /// The bytes that wait in all streams.
    bytes: usize,
    /// The position behind all chunks.
    position: u64,
    /// An empty chunk begins at that position: the next chunk begins behind it.
    ends_empty: bool,
    /// How much of the peer's window lanes have used so far.
    used: u64,
    run: Run,
    /// The streams with a message of which a part was sent, and the rest was not.
    begun: BTreeSet<StreamNumber>,
    /// The stream that last sent a short chunk, and when.
    short: Option<(StreamNumber, Instant)>,
}

/// The latest chunks in a row that belong to one stream.
///
/// The peer tells how much it has read of all streams together. That says where it has read to only
/// while all of the rest belongs to one stream.
#[derive(Debug, Default)]
struct Run {
    /// `None` of control records.
    stream: Option<StreamNumber>,
    /// The position at which they begin.
    position: u64,
    /// How much of the peer's window the chunks before them used.
    used: u64,
    /// Chunks before them may not have been read: another stream has bytes in flight.
    is_mixed: bool,
}

impl SendStreams {
    /// No stream yet. Streams are cut into chunks of at most `longest_chunk` bytes. The application
    /// may let `capacity` bytes wait in each.
    pub(super) fn new(longest_chunk: usize, capacity: usize) -> Self {
        Self {
            streams: StreamMap::new(),
            unfinished: 0,
            turns: Turns::default(),
            ends: BTreeSet::new(),
            control: BTreeMap::new(),
            longest_chunk: longest_chunk.max(1),
            capacity,
            bytes: 0,
            position: 0,
            ends_empty: false,
            used: 0,
            run: Run::default(),
            begun: BTreeSet::new(),
            short: None,
        }
    }

    /// Opens a stream, in which the peer lets this end send `limit` bytes.
    pub(super) fn open(&mut self, number: StreamNumber, limit: u64) {
        self.streams.insert(number, SendStream::new(self.capacity, limit));
        self.unfinished += 1;
    }

    /// A stream that is open.
    pub(crate) fn get(&self, number: StreamNumber) -> Option<&SendStream> {
        self.streams.get(number)
    }

    /// The bytes of an open stream that no lane has taken.
    pub(crate) fn unsent(&self, number: StreamNumber) -> Option<&Unsent> {
        Some(self.get(number)?.unsent())
    }

    /// The streams that are open.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = StreamNumber> + '_ {
        self.streams.keys()
    }

    /// Has a stream take messages from here on, for a peer that takes `window` bytes. Returns
    /// whether it can: the application has written nothing and not finished the stream.
    pub(super) fn carry_messages(&mut self, number: StreamNumber, window: u64) -> bool {
        let longest_chunk = self.longest_chunk;
        self.act(number, |stream| stream.unsent_mut().carry_messages(longest_chunk, window)).unwrap_or(false)
    }

    /// Takes bytes to send, all of them.
    ///
    /// # Panics
    /// If the stream carries messages, and after [`SendStreams::finish`].
    pub(super) fn write(&mut self, number: StreamNumber, bytes: Bytes) {
        self.act(number, |stream| stream.unsent_mut().write(bytes));
    }

    /// Takes a message to send; it waits behind more urgent ones.
    ///
    /// # Panics
    /// If the stream carries bytes, and after [`SendStreams::finish`].
    pub(super) fn send(&mut self, number: StreamNumber, priority: Priority, message: Bytes) {
        self.act(number, |stream| stream.send(priority, message));
    }

    /// The application will write no more.
    pub(super) fn finish(&mut self, number: StreamNumber) {
        self.act(number, |stream| stream.unsent_mut().finish());
    }

    /// The peer has read a stream up to the offset `read` and reads no more.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] if `read` lies beyond the last byte sent.
    pub(super) fn stop(&mut self, number: StreamNumber, read: u64) -> Result<(), Violation> {
        self.act(number, |stream| stream.stop(read)).unwrap_or(Ok(()))
    }

    /// Resets a stream, and has lanes tell the peer.
    pub(super) fn reset(&mut self, number: StreamNumber, code: u64, is_by_peer: bool) {
        if self.act(number, |stream| stream.reset(code, is_by_peer)).is_some() {
            self.control.insert(Subject::Reset(number), code);
        }
    }

    /// The peer knows of the reset of a stream.
    pub(super) fn reset_is_known(&mut self, number: StreamNumber) {
        self.act(number, SendStream::reset_is_known);
    }

    /// The peer lets this end send up to the offset `limit` of a stream.
    pub(super) fn extend(&mut self, number: StreamNumber, limit: u64) {
        self.act(number, |stream| stream.extend(limit));
    }

    /// The application has dropped its handle of a stream.
    pub(super) fn release(&mut self, number: StreamNumber) {
        self.act(number, SendStream::release);
    }

    /// Forgets a stream that is settled and that the application has dropped. Returns whether it is
    /// forgotten now.
    pub(super) fn forget(&mut self, number: StreamNumber) -> bool {
        let is_done = |stream: &SendStream| stream.is_settled() && stream.is_released();
        self.get(number).is_some_and(is_done) && self.streams.remove(number).is_some()
    }

    /// Sets the urgency of a stream.
    pub(super) fn set_urgency(&mut self, number: StreamNumber, urgency: i32) {
        if let Some(stream) = self.streams.get_mut(number) {
            let (before, is_ready) = (stream.urgency(), stream.ready(u64::MAX).is_some());
            stream.set_urgency(urgency);
            if is_ready {
                self.turns.leave(number, before, *stream.turn());
                self.turns.enter(number, urgency, stream.turn(), self.longest_chunk);
            }
        }
    }

    /// Has lanes send a control record of that subject, with the application's code or 0.
    pub(super) fn tell(&mut self, subject: Subject, code: u64) {
        self.control.insert(subject, code);
    }

    /// Whether a stream has anything that no lane has taken, bytes or its end, or a control record
    /// waits.
    pub(super) fn have_any(&self) -> bool {
        self.turns.len() > 0 || !self.control.is_empty()
    }

    /// How many bytes wait in all streams.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are streams, and the application will write no more in any.
    pub(crate) fn are_finished(&self) -> bool {
        self.unfinished == 0 && !self.streams.is_empty()
    }

    /// Whether lanes have taken every byte and the end of every stream.
    pub(super) fn are_ends_cut(&self) -> bool {
        self.streams.values().all(|stream| stream.unsent().is_end_cut())
    }

    /// Whether the peer reads no more in any stream.
    pub(super) fn are_stopped(&self) -> bool {
        self.streams.values().all(|stream| stream.stopped().is_some())
    }

    /// The position of the first byte that no lane has taken, of messages of which lanes have taken
    /// a part.
    pub(super) fn begun_from(&self) -> Option<u64> {
        self.begun.iter().filter_map(|number| self.unsent(*number)?.reserved_from()).min()
    }

    /// The position behind all chunks.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// How much of the peer's window lanes have used so far: the bytes of all chunks that they have
    /// taken, or the space of messages.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// The position below which the peer has read every chunk, as far as that can be told, after it
    /// has read `consumed` bytes of all streams together.
    pub(super) fn read_below(&mut self, consumed: u64) -> u64 {
        if consumed == self.used {
            let stream = self.run.stream;
            self.run = Run { stream, position: self.position, used: self.used, is_mixed: false };
        }
        if self.run.is_mixed { 0 } else { self.run.position + (consumed.saturating_sub(self.run.used)) }
    }

    /// About how many bytes wait that lanes may take before they have taken `allowance` more;
    /// `None` if there is nothing to take, not even an end.
    pub(super) fn ready(&self, allowance: u64) -> Option<usize> {
        let control = self.control.len() * RECORD_LEN;
        match self.ready_in_streams(allowance) {
            None if control == 0 => None,
            ready => Some(control + ready.unwrap_or(0)),
        }
    }

    fn ready_in_streams(&self, allowance: u64) -> Option<usize> {
        let (first, others) = (self.next(allowance)?, self.turns.len() - 1);
        let stream = self.streams.get(first)?;
        let ready = stream.ready(allowance)?;
        let of_others = if others == 0 { 0 } else { self.bytes - stream.unsent().bytes() };
        let allowed = usize::try_from(allowance).unwrap_or(usize::MAX).saturating_sub(ready);
        Some(ready + of_others.min(allowed))
    }

    /// The stream that sends next. Once the window is full, that is one of which only the end is
    /// left.
    fn next(&self, allowance: u64) -> Option<StreamNumber> {
        if allowance > 0 { self.turns.first() } else { self.ends.first().copied() }
    }

    /// Cuts the next chunk, of about `max` bytes at most and within `allowance`. The values of
    /// control records are blank.
    ///
    /// The peer has read `consumed` bytes of all streams together.
    pub(super) fn cut(&mut self, now: Instant, allowance: u64, max: usize, consumed: u64) -> Option<Chunk> {
        let begins = self.position + u64::from(self.ends_empty);
        if !self.control.is_empty() {
            return Some(self.cut_control(begins, consumed));
        }
        let number = self.next(allowance)?;
        let (mut cut, mut space) = (None, 0);
        self.act(number, |stream| {
            let before = stream.unsent().next();
            cut = stream.cut(allowance, max, begins);
            space = stream.unsent().next() - before;
        });
        let mut chunk = cut?;
        chunk.stream = number;
        if space > 0 || chunk.length == 0 {
            self.run_of(Some(number), begins, consumed);
            self.ends_empty = space == 0;
            self.position = begins + space;
            self.used += space;
        }
        if (chunk.length as usize) < SHORT {
            self.short = Some((number, now));
        }
        if let Some(stream) = self.streams.get_mut(number) {
            self.turns.sent(number, stream.urgency(), stream.turn(), chunk.length as usize);
        }
        Some(chunk)
    }

    fn cut_control(&mut self, position: u64, consumed: u64) -> Chunk {
        let mut records = Vec::new();
        while records.len() < MAX_RECORDS
            && let Some((subject, code)) = self.control.pop_first()
        {
            records.push(Record { subject, value: 0, code });
        }
        let payload = control::encode(records.into_iter());
        let chunk = Chunk::special(ChunkKind::Control, position, payload);
        self.run_of(None, position, consumed);
        (self.position, self.ends_empty) = (position + u64::from(chunk.length), false);
        chunk
    }

    /// A chunk of that stream begins at `position`.
    fn run_of(&mut self, stream: Option<StreamNumber>, position: u64, consumed: u64) {
        if self.run.stream != stream {
            self.run = Run { stream, position, used: self.used, is_mixed: consumed != self.used };
        }
    }

    /// Whether the stream that sends next should send short chunks: another one, more urgent or of
    /// short chunks, may have something to send before a long chunk is on its way.
    pub(super) fn is_mixed(&self, now: Instant) -> bool {
        let is_other = |number| self.turns.first().is_some_and(|first| first != number);
        let is_recent = |at: Instant| now.saturating_duration_since(at) < MIXED;
        self.turns.urgencies().is_some_and(|(first, last)| first > last)
            || self.short.is_some_and(|(number, at)| is_recent(at) && is_other(number))
    }

    /// Calls `act` with a stream, and notes whether it has something to send after that. `None` if
    /// the stream is not open.
    fn act<T>(&mut self, number: StreamNumber, act: impl FnOnce(&mut SendStream) -> T) -> Option<T> {
        let stream = self.streams.get_mut(number)?;
        let state = |stream: &SendStream| {
            let unsent = stream.unsent();
            (unsent.bytes(), stream.ready(u64::MAX).is_some(), usize::from(!unsent.is_finished()))
        };
        let before = state(stream);
        let result = act(stream);
        let after = state(stream);
        self.bytes = self.bytes + after.0 - before.0;
        self.unfinished = self.unfinished + after.2 - before.2;
        if stream.unsent().reserved_from().is_some() {
            self.begun.insert(number);
        } else if !self.begun.is_empty() {
            self.begun.remove(&number);
        }
        if after.1 && after.0 == 0 {
            self.ends.insert(number);
        } else if !self.ends.is_empty() {
            self.ends.remove(&number);
        }
        match (before.1, after.1) {
            (false, true) => self.turns.enter(number, stream.urgency(), stream.turn(), self.longest_chunk),
            (true, false) => self.turns.leave(number, stream.urgency(), *stream.turn()),
            _ => {}
        }
        Some(result)
    }
}

/// A stream that sends chunks below this many bytes waits for its peer, and not for the links.
const SHORT: usize = 16 << 10;
/// For how long a short chunk of one stream keeps the chunks of others short.
const MIXED: Duration = Duration::from_millis(100);
