//! Bytes or messages that wait to be cut into chunks.

use super::unsent_bytes::UnsentBytes;
use crate::{
    chunk::{Chunk, Priority},
    messages::Outbox,
};
use bytes::Bytes;

/// The bytes that the application has written and no lane has taken.
#[derive(Debug)]
pub(crate) struct Unsent {
    carried: Carried,
    /// How many bytes the application may let wait.
    capacity: usize,
    /// The number of written bytes that no lane will take, if the peer reads no more.
    abandoned: Option<u64>,
}

/// Bytes or messages, as the application uses the stream.
#[derive(Debug)]
enum Carried {
    Bytes(UnsentBytes),
    Messages(Box<Outbox>),
}

impl Unsent {
    /// Nothing yet; the application may let `capacity` bytes wait.
    pub(super) fn new(capacity: usize) -> Self {
        Self { carried: Carried::Bytes(UnsentBytes::default()), capacity, abandoned: None }
    }

    /// How many bytes the application may write now.
    pub(crate) fn writable_bytes(&self) -> usize {
        if self.is_finished() { 0 } else { self.capacity.saturating_sub(self.bytes()) }
    }

    /// Whether the application may write enough bytes for a waiting writer to be worth waking: a
    /// quarter of the buffer.
    pub(crate) fn is_writer_worth_waking(&self) -> bool {
        self.writable_bytes() >= self.capacity / 4
    }

    /// Whether the writer is worth waking since a lane has taken the last `length` bytes, and was
    /// not before.
    pub(crate) fn has_made_room(&self, length: u32) -> bool {
        let before = self.writable_bytes().saturating_sub(length as usize);
        self.is_writer_worth_waking() && (before == 0 || before < self.capacity / 4)
    }

    /// How many bytes the application has written.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.next() + self.bytes() as u64 + self.abandoned.unwrap_or(0)
    }

    /// Changes from bytes to messages. Returns whether it can: there were no bytes yet.
    pub(super) fn carry_messages(&mut self, longest_chunk: usize, window: u64) -> bool {
        let fresh = self.next() == 0 && self.bytes() == 0 && !self.is_finished();
        if fresh {
            self.carried = Carried::Messages(Box::new(Outbox::new(longest_chunk, window)));
        }
        fresh
    }

    /// Takes bytes.
    ///
    /// # Panics
    /// If the stream carries messages, and after [`Unsent::finish`].
    pub(super) fn write(&mut self, bytes: Bytes) {
        match &mut self.carried {
            Carried::Bytes(unsent) => unsent.write(bytes),
            Carried::Messages(_) => panic!("no bytes are written to a stream that carries messages"),
        }
    }

    /// Takes a message.
    ///
    /// # Panics
    /// If the stream carries bytes, and after [`Unsent::finish`].
    pub(super) fn send(&mut self, priority: Priority, message: Bytes) {
        match &mut self.carried {
            Carried::Messages(outbox) => outbox.send(priority, message),
            Carried::Bytes(_) => panic!("no message is sent on a stream that carries bytes"),
        }
    }

    /// The application will write no more.
    pub(super) fn finish(&mut self) {
        match &mut self.carried {
            Carried::Bytes(unsent) => unsent.finish(),
            Carried::Messages(outbox) => outbox.finish(),
        }
    }

    /// Discards the waiting bytes and the end: the peer reads no more. Returns how many bytes there
    /// were.
    pub(super) fn give_up(&mut self) -> u64 {
        let abandoned = match &mut self.carried {
            Carried::Bytes(unsent) => unsent.give_up(),
            Carried::Messages(outbox) => outbox.give_up(),
        };
        self.abandoned = Some(abandoned);
        abandoned
    }

    /// Whether [`Unsent::finish`] was called.
    pub(crate) fn is_finished(&self) -> bool {
        match &self.carried {
            Carried::Bytes(unsent) => unsent.is_finished(),
            Carried::Messages(outbox) => outbox.is_finished(),
        }
    }

    /// Whether a lane has taken the end.
    pub(super) fn is_end_cut(&self) -> bool {
        match &self.carried {
            Carried::Bytes(unsent) => unsent.is_end_cut(),
            Carried::Messages(outbox) => outbox.is_end_cut(),
        }
    }

    /// How many bytes wait.
    pub(crate) fn bytes(&self) -> usize {
        match &self.carried {
            Carried::Bytes(unsent) => unsent.bytes(),
            Carried::Messages(outbox) => outbox.bytes(),
        }
    }

    /// The offset behind the last byte that a lane has taken.
    pub(crate) fn next(&self) -> u64 {
        match &self.carried {
            Carried::Bytes(unsent) => unsent.next(),
            Carried::Messages(outbox) => outbox.next(),
        }
    }

    /// The position of the first byte that waits and whose range of the stream is reserved: a large
    /// message takes its range with its first part.
    pub(super) fn reserved_from(&self) -> Option<u64> {
        match &self.carried {
            Carried::Bytes(_) => None,
            Carried::Messages(outbox) => outbox.reserved_from(),
        }
    }

    /// How many bytes below `limit` wait; `None` if there is nothing to cut, not even the end.
    pub(super) fn ready(&self, limit: u64) -> Option<usize> {
        match &self.carried {
            Carried::Bytes(unsent) => unsent.ready(limit),
            Carried::Messages(outbox) => outbox.ready(limit),
        }
    }

    /// Cuts the next chunk, below `limit` and of about `max` bytes at most. A new part of the
    /// stream begins at `position` in the session.
    pub(super) fn cut(&mut self, limit: u64, max: usize, position: u64) -> Option<Chunk> {
        match &mut self.carried {
            Carried::Bytes(unsent) => unsent.cut(limit, max, position),
            Carried::Messages(outbox) => outbox.cut(limit, max, position),
        }
    }
}
