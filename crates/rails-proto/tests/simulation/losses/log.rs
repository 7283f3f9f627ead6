//! The log of written data, and of the data to be read.

use bytes::Bytes;
use rails_proto::{
    chunk::Priority,
    messages::{Delivery, next_of_packet},
};
use std::sync::LazyLock;

/// The data sent or received so far.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Log {
    bytes: u64,
    /// The number of messages, by priority.
    messages: [u64; Priority::LEVELS],
}

impl Log {
    /// The next bytes to write.
    pub(super) fn write(&mut self, length: usize) -> Bytes {
        let bytes = pattern(self.bytes, length);
        self.bytes += length as u64;
        bytes
    }

    /// The next message to send.
    pub(super) fn send(&mut self, priority: Priority, length: usize) -> Bytes {
        let number = &mut self.messages[usize::from(priority.level())];
        *number += 1;
        message(priority, *number, length)
    }

    /// Checks bytes that were read: they have to be the next.
    pub(super) fn read(&mut self, bytes: &Bytes) {
        let from = self.bytes;
        assert!(self.write(bytes.len()) == bytes, "other bytes at {from}");
    }

    /// Checks messages that were received: each has to be the next of its priority.
    pub(super) fn receive(&mut self, delivery: Delivery) {
        let mut next = |priority: Priority, bytes: &Bytes| {
            assert!(self.send(priority, bytes.len()) == bytes, "another message of priority {priority}");
        };
        match delivery {
            Delivery::Message { priority, bytes } => next(priority, &bytes),
            Delivery::Packet { priority, mut bytes } => {
                let length = bytes.len();
                while let Some(small) = next_of_packet(&mut bytes, length) {
                    next(priority, &small);
                }
            }
        }
    }
}

/// The bytes of the stream from `offset` on.
fn pattern(offset: u64, length: usize) -> Bytes {
    static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
        let byte = |at: usize| ((at % PERIOD) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0];
        (0..2 * PERIOD).map(byte).collect::<Vec<u8>>().into()
    });
    let from = (offset % PERIOD as u64) as usize;
    PATTERN.slice(from..from + length)
}

/// The message of that number among those of its priority.
fn message(priority: Priority, number: u64, length: usize) -> Bytes {
    pattern(number * 9_973 + u64::from(priority.level()) * 104_729, length)
}

/// The period of the pattern: a prime, and more bytes than a single write has.
const PERIOD: usize = 1_048_583;
