//! What uses a stream: writes a pattern, reads and compares one, and waits as an application waits.

use bytes::Bytes;
use rails_multirail::proto::connection::Connection;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant};

/// How one end's application behaves.
#[derive(Debug, Clone)]
pub(crate) struct Habits {
    /// How many bytes it writes before it finishes.
    pub(crate) total: u64,
    /// The most bytes of one write.
    pub(crate) longest_write: usize,
    /// After how many bytes it pauses, and for how long, again and again.
    pub(crate) bursts: Option<(u64, Duration)>,
    /// After how many bytes it stops reading, and for how long, once.
    pub(crate) stall: Option<(u64, Duration)>,
    /// It drops the stream once it has finished and has read to the end.
    pub(crate) drops: bool,
}

/// One end's application.
pub(crate) struct Application {
    habits: Habits,
    random: ChaCha8Rng,
    /// What it writes and what it expects: the stream repeats each of them.
    patterns: [Bytes; 2],
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// When it read the end of the stream.
    pub(crate) read_end: Option<Instant>,
    pub(crate) writer: Task,
    pub(crate) reader: Task,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Ready,
    /// Until it is woken, and not before.
    Waiting,
    Until(Instant),
    Done,
}

impl Habits {
    /// Writes as much as there is room for, and reads whatever there is.
    pub(crate) fn bulk(total: u64) -> Self {
        Self { total, longest_write: 64 << 10, bursts: None, stall: None, drops: false }
    }
}

impl Application {
    pub(crate) fn new(habits: Habits, end: usize, seed: u64) -> Self {
        let pattern = |end: usize| {
            let mut bytes = vec![0; PERIOD];
            ChaCha8Rng::seed_from_u64(seed ^ end as u64).fill_bytes(&mut bytes);
            Bytes::from(bytes.repeat(2))
        };
        Self {
            habits,
            random: ChaCha8Rng::seed_from_u64(!seed ^ end as u64),
            patterns: [pattern(end), pattern(1 - end)],
            written: 0,
            read: 0,
            read_end: None,
            writer: Task::Ready,
            reader: Task::Ready,
        }
    }

    pub(crate) fn write(&mut self, now: Instant, connection: &mut Connection) {
        self.writer = if connection.is_sent() || connection.failure().is_some() {
            Task::Done
        } else if connection.is_finished() {
            Task::Waiting
        } else if self.written == self.habits.total {
            connection.finish();
            Task::Ready
        } else {
            match connection.room() {
                0 => Task::Waiting,
                room => self.write_some(now, connection, room),
            }
        };
    }

    fn write_some(&mut self, now: Instant, connection: &mut Connection, room: usize) -> Task {
        let left = self.habits.total - self.written;
        let most = (self.habits.longest_write.min(PERIOD) as u64).min(left).min(room as u64);
        let length = if self.habits.bursts.is_none() { most } else { self.random.random_range(1..=most) };
        let at = (self.written % PERIOD as u64) as usize;
        connection.write(self.patterns[0].slice(at..at + length as usize));
        let before = self.written;
        self.written += length;
        match self.habits.bursts {
            Some((every, pause)) if before / every < self.written / every => Task::Until(now + pause),
            _ => Task::Ready,
        }
    }

    pub(crate) fn read(&mut self, now: Instant, connection: &mut Connection) {
        if let Some((_, pause)) = self.habits.stall.take_if(|(at, _)| self.read >= *at) {
            self.reader = Task::Until(now + pause);
            return;
        }
        self.reader = match connection.read() {
            Some(bytes) => {
                self.compare(&bytes);
                Task::Ready
            }
            None if connection.is_read() => {
                self.read_end = Some(now);
                Task::Done
            }
            None if connection.failure().is_some() => Task::Done,
            None => Task::Waiting,
        };
    }

    /// Whether it goes away before the stream has come to its end.
    pub(crate) fn leaves(&mut self, connection: &Connection) -> bool {
        let leaves = self.habits.drops && self.read_end.is_some() && connection.is_finished();
        self.habits.drops &= !leaves;
        if leaves {
            self.writer = Task::Done;
        }
        leaves
    }

    fn compare(&mut self, mut bytes: &[u8]) {
        assert!(!bytes.is_empty(), "a read gave nothing");
        while !bytes.is_empty() {
            let at = (self.read % PERIOD as u64) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(PERIOD));
            assert!(now == &self.patterns[1][at..at + now.len()], "wrong bytes from offset {} on", self.read);
            self.read += now.len() as u64;
            bytes = later;
        }
    }
}

/// A prime, so that no multiple of a chunk's length could be mistaken for another.
const PERIOD: usize = 65_521;
