//! The messages that are sent, and their memory, until they have arrived.

use crate::proto::{blocks::SentBlocks, sender::Segment};
use bytes::Bytes;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// The messages of a connection that were submitted and have not arrived.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    messages: BTreeMap<u32, Sent>,
    /// A message has come to another end than its arrival.
    has_failed: bool,
}

#[derive(Debug)]
struct Sent {
    blocks: SentBlocks,
    done: oneshot::Sender<Delivery>,
}

/// The outcome of a message that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All of it has arrived in the peer's memory.
    Arrived,
    /// The peer does not want it, or has no memory for it.
    Refused,
    /// This end has given it up.
    GivenUp,
    /// It had not arrived by its deadline, and was given up. It may have arrived all the same.
    Expired,
}

impl Outgoing {
    pub(super) fn insert(&mut self, number: u32, blocks: SentBlocks) -> oneshot::Receiver<Delivery> {
        let (done, wait) = oneshot::channel();
        self.messages.insert(number, Sent { blocks, done });
        wait
    }

    /// The message has come to that. Its memory is free.
    pub(super) fn settle(&mut self, number: u32, delivery: Delivery) {
        self.has_failed |= delivery != Delivery::Arrived;
        if let Some(sent) = self.messages.remove(&number) {
            // Nobody may wait for it.
            let _ = sent.done.send(delivery);
        }
    }

    /// Whether all messages have come to an end.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether one was refused, given up or too late.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Lets go of all messages: those who wait learn of the connection's end.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
    }

    /// Adds the pieces of a segment's payload, which keep their memory. Returns whether its message is still there.
    pub(super) fn pieces(&self, segment: &Segment, pieces: &mut Vec<Bytes>) -> bool {
        let Some(sent) = self.messages.get(&segment.header.message) else { return false };
        let start = segment.header.in_message;
        pieces.extend(sent.blocks.pieces(start..start + u64::from(segment.payload_len)));
        true
    }

    /// The slices of a segment's payload, if its message is still there.
    pub(super) fn slices(&self, segment: &Segment) -> Option<impl Iterator<Item = &[u8]>> {
        // A segment of a message that was given up is not in flight any more.
        let sent = self.messages.get(&segment.header.message)?;
        let start = segment.header.in_message;
        Some(sent.blocks.slices(start..start + u64::from(segment.payload_len)))
    }
}
