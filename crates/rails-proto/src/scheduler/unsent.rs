//! Bytes or messages that wait to be cut into chunks.

use super::unsent_bytes::UnsentBytes;
use crate::{
    chunk::{Chunk, Priority},
    messages::Outbox,
};
use bytes::Bytes;

/// Bytes or messages, as the application uses the stream.
#[derive(Debug)]
pub(super) enum Unsent {
    Bytes(UnsentBytes),
    Messages(Box<Outbox>),
}

impl Unsent {
    /// Changes from bytes to messages. Returns whether it can: there were no bytes yet.
    pub(super) fn carry_messages(&mut self, longest_chunk: usize, window: u64) -> bool {
        let fresh = self.next() == 0 && self.bytes() == 0 && !self.is_finished();
        if fresh {
            *self = Self::Messages(Box::new(Outbox::new(longest_chunk, window)));
        }
        fresh
    }

    /// Takes bytes.
    ///
    /// # Panics
    /// If the stream carries messages, and after [`Unsent::finish`].
    pub(super) fn write(&mut self, bytes: Bytes) {
        match self {
            Self::Bytes(unsent) => unsent.write(bytes),
            Self::Messages(_) => panic!("no bytes are written to a stream that carries messages"),
        }
    }

    /// Takes a message.
    ///
    /// # Panics
    /// If the stream carries bytes, and after [`Unsent::finish`].
    pub(super) fn send(&mut self, priority: Priority, message: Bytes) {
        match self {
            Self::Messages(outbox) => outbox.send(priority, message),
            Self::Bytes(_) => panic!("no message is sent on a stream that carries bytes"),
        }
    }

    /// The application will write no more.
    pub(super) fn finish(&mut self) {
        match self {
            Self::Bytes(unsent) => unsent.finish(),
            Self::Messages(outbox) => outbox.finish(),
        }
    }

    /// Discards the waiting bytes and the end. Returns how many bytes there were.
    pub(super) fn give_up(&mut self) -> u64 {
        match self {
            Self::Bytes(unsent) => unsent.give_up(),
            Self::Messages(outbox) => outbox.give_up(),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        match self {
            Self::Bytes(unsent) => unsent.is_finished(),
            Self::Messages(outbox) => outbox.is_finished(),
        }
    }

    /// Whether a lane has taken the end.
    pub(super) fn is_end_cut(&self) -> bool {
        match self {
            Self::Bytes(unsent) => unsent.is_end_cut(),
            Self::Messages(outbox) => outbox.is_end_cut(),
        }
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Bytes(unsent) => unsent.bytes(),
            Self::Messages(outbox) => outbox.bytes(),
        }
    }

    /// The offset behind the last byte that a lane has taken.
    pub(super) fn next(&self) -> u64 {
        match self {
            Self::Bytes(unsent) => unsent.next(),
            Self::Messages(outbox) => outbox.next(),
        }
    }

    /// How many bytes below `limit` wait; `None` if there is nothing to cut, not even the end.
    pub(super) fn ready(&self, limit: u64) -> Option<usize> {
        match self {
            Self::Bytes(unsent) => unsent.ready(limit),
            Self::Messages(outbox) => outbox.ready(limit),
        }
    }

    /// Cuts the next chunk, below `limit` and of about `most` bytes at most.
    pub(super) fn cut(&mut self, limit: u64, most: usize) -> Option<Chunk> {
        match self {
            Self::Bytes(unsent) => unsent.cut(limit, most),
            Self::Messages(outbox) => outbox.cut(limit, most),
        }
    }
}

impl Default for Unsent {
    fn default() -> Self {
        Self::Bytes(UnsentBytes::default())
    }
}
