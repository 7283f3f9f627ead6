//! The application of a stream: it writes a pattern, reads a pattern and compares it, and waits as
//! an application waits.

use bytes::Bytes;
use rails_proto::{
    chunk::Priority,
    messages::{Delivery, next_of_packet},
    session::Session,
    stream_number::StreamNumber,
};
use rand::{Rng, RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::time::{Duration, Instant};

/// The behaviour of one end's application.
#[derive(Debug, Clone)]
pub(crate) struct Habits {
    /// The bytes that the application writes before it finishes.
    pub(crate) total: u64,
    /// The most bytes of one write.
    pub(crate) longest_write: usize,
    /// Each time the application has written this number of bytes, it pauses for this time.
    pub(crate) bursts: Option<(u64, Duration)>,
    /// Once, when the application has read this number of bytes, it stops reading for this time.
    pub(crate) stall: Option<(u64, Duration)>,
    /// Whether the application sends messages: `total` of them, each at most as long as a write
    /// would be.
    pub(crate) messages: bool,
    /// Whether the application drops the stream after it has finished and has read to the end.
    pub(crate) drops: bool,
    /// The application drops the stream without finishing as soon as it has written this number of
    /// bytes or messages, no matter how much it has read.
    pub(crate) goes: Option<u64>,
}

/// One end's application.
pub(crate) struct Application {
    habits: Habits,
    random: ChaCha8Rng,
    /// The pattern to write and the pattern to expect: the stream repeats each of them.
    patterns: [Bytes; 2],
    /// The numbers of messages of each priority sent and received.
    sent: [u64; 8],
    received: [u64; 8],
    /// The amounts written and read, in bytes or in messages.
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// The value of `written` before the last write.
    written_before: u64,
    /// The time of the last read, and the gaps between two reads: their beginnings and lengths.
    read_at: Option<Instant>,
    pub(crate) gaps: Vec<(Instant, Duration)>,
    /// When the application read the end of the stream.
    pub(crate) read_end: Option<Instant>,
    pub(crate) writer: Task,
    pub(crate) reader: Task,
    /// Whether the application has dropped the stream without finishing.
    pub(crate) gone: bool,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Ready,
    /// The task sleeps until a wake.
    Waiting,
    Until(Instant),
    Done,
}

impl Habits {
    /// Writes as much as there is room for, and reads all that has arrived.
    pub(crate) fn bulk(total: u64) -> Self {
        Self { total, longest_write: 64 << 10, bursts: None, stall: None, messages: false, drops: false, goes: None }
    }
}

impl Application {
    pub(crate) fn new(habits: Habits, end: usize, seed: u64) -> Self {
        let pattern = |end: usize| {
            let mut bytes = vec![0; PERIOD];
            ChaCha8Rng::seed_from_u64(seed ^ end as u64).fill_bytes(&mut bytes);
            Bytes::from(bytes.repeat(2 + habits.longest_write / PERIOD))
        };
        Self {
            patterns: [pattern(end), pattern(1 - end)],
            sent: [0; 8],
            received: [0; 8],
            habits,
            random: ChaCha8Rng::seed_from_u64(!seed ^ end as u64),
            written: 0,
            read: 0,
            written_before: 0,
            read_at: None,
            gaps: Vec::new(),
            read_end: None,
            writer: Task::Ready,
            reader: Task::Ready,
            gone: false,
        }
    }

    pub(crate) fn write_next(&mut self, now: Instant, session: &mut Session) {
        self.writer = if session.is_sent() || session.write_failure(StreamNumber::FIRST).is_some() {
            Task::Done
        } else if session.is_finished(StreamNumber::FIRST) {
            Task::Waiting
        } else if self.written == self.habits.total {
            session.finish(now, StreamNumber::FIRST);
            Task::Ready
        } else {
            match session.writable_bytes(StreamNumber::FIRST) {
                0 => Task::Waiting,
                room => self.write_some(now, session, room),
            }
        };
    }

    fn write_some(&mut self, now: Instant, session: &mut Session, room: usize) -> Task {
        if self.habits.messages {
            self.send_one(now, session);
        } else {
            self.write_bytes(now, session, room);
        }
        let before = self.written_before;
        match self.habits.bursts {
            Some((every, pause)) if before / every < self.written / every => Task::Until(now + pause),
            _ => Task::Ready,
        }
    }

    fn send_one(&mut self, now: Instant, session: &mut Session) {
        let level = self.random.random_range(0..8u8);
        let number = &mut self.sent[usize::from(level)];
        let message = message(&self.patterns[0], self.habits.longest_write, level, *number);
        *number += 1;
        session.send(now, StreamNumber::FIRST, Priority::new(level).expect("there are eight"), message);
        self.written_before = self.written;
        self.written += 1;
    }

    fn write_bytes(&mut self, now: Instant, session: &mut Session, room: usize) {
        let left = self.habits.total - self.written;
        let most = (self.habits.longest_write.min(PERIOD) as u64).min(left).min(room as u64);
        let length = if self.habits.bursts.is_none() { most } else { self.random.random_range(1..=most) };
        let at = (self.written % PERIOD as u64) as usize;
        session.write(now, StreamNumber::FIRST, self.patterns[0].slice(at..at + length as usize));
        self.written_before = self.written;
        self.written += length;
    }

    pub(crate) fn read_next(&mut self, now: Instant, session: &mut Session) {
        if let Some((_, pause)) = self.habits.stall.take_if(|(at, _)| self.read >= *at) {
            self.reader = Task::Until(now + pause);
            return;
        }
        let has_read = if self.habits.messages { self.receive(now, session) } else { self.read_bytes(now, session) };
        if has_read.is_some()
            && let Some(before) = self.read_at.replace(now)
            && now - before >= SHORTEST_GAP
        {
            self.gaps.push((before, now - before));
        }
        self.reader = match has_read {
            Some(()) => Task::Ready,
            None if session.is_read(StreamNumber::FIRST) => {
                self.read_end = Some(now);
                Task::Done
            }
            None if session.failure().is_some() => Task::Done,
            None => Task::Waiting,
        };
    }

    /// Drops the stream if the application does so now.
    pub(crate) fn leave_if_due(&mut self, now: Instant, session: &mut Session) {
        if self.leaves(session) {
            session.drop_application(now, 0);
        }
    }

    /// Whether the application drops the stream before its end.
    fn leaves(&mut self, session: &Session) -> bool {
        if self.habits.goes.take_if(|at| self.written >= *at).is_some() && !session.is_done() {
            (self.gone, self.writer, self.reader) = (true, Task::Done, Task::Done);
            return true;
        }
        let leaves = self.habits.drops && self.read_end.is_some() && session.is_finished(StreamNumber::FIRST);
        self.habits.drops &= !leaves;
        if leaves {
            self.writer = Task::Done;
        }
        leaves
    }

    pub(crate) fn sends_messages(&self) -> bool {
        self.habits.messages
    }

    /// The most bytes of one write or message.
    pub(crate) fn longest_write(&self) -> u64 {
        self.habits.longest_write as u64
    }

    fn read_bytes(&mut self, now: Instant, session: &mut Session) -> Option<()> {
        let bytes = session.read(now, StreamNumber::FIRST)?;
        self.compare(&bytes);
        Some(())
    }

    fn receive(&mut self, now: Instant, session: &mut Session) -> Option<()> {
        match session.receive(now, StreamNumber::FIRST)? {
            Delivery::Message { priority, bytes } => self.compare_message(priority, &bytes),
            Delivery::Packet { priority, bytes: mut packet } => {
                let whole = packet.len();
                while let Some(message) = next_of_packet(&mut packet, whole) {
                    self.compare_message(priority, &message);
                }
            }
        }
        Some(())
    }

    fn compare_message(&mut self, priority: Priority, received: &Bytes) {
        let number = &mut self.received[usize::from(priority.level())];
        let expected = message(&self.patterns[1], self.habits.longest_write, priority.level(), *number);
        assert!(*received == expected, "message {number} of priority {priority} is another");
        *number += 1;
        self.read += 1;
    }

    fn compare(&mut self, mut bytes: &[u8]) {
        assert!(!bytes.is_empty(), "a read returned no bytes");
        while !bytes.is_empty() {
            let at = (self.read % PERIOD as u64) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(PERIOD));
            assert!(now == &self.patterns[1][at..at + now.len()], "wrong bytes from offset {} on", self.read);
            self.read += now.len() as u64;
            bytes = later;
        }
    }
}

/// The message of that priority and number. Both ends send messages of the same lengths.
fn message(pattern: &Bytes, longest: usize, level: u8, number: u64) -> Bytes {
    let mixed = (number * 8 + u64::from(level)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    // Many messages are small, and some are empty.
    let longest = if mixed.is_multiple_of(3) { longest } else { longest.min(100) };
    let length = (mixed >> 8) as usize % (longest + 1);
    let at = mixed as usize % PERIOD;
    pattern.slice(at..at + length)
}

/// A shorter time is no gap.
const SHORTEST_GAP: Duration = Duration::from_millis(50);
/// The period of a pattern: a prime, so that the bytes at two multiples of a chunk's length differ.
const PERIOD: usize = 65_521;
