//! Messages over a stream: boundaries kept, by priority, large ones received straight into their final buffer.
//!
//! Messages are ranges of the stream's offsets, so window, acknowledgements and lost lanes work as they do for bytes. [`outbox`] decides what
//! is cut next, [`inbox`] puts back together what arrives, and `assembly` is the buffer of one large message that several lanes fill at a time.
//!
//! A *small* message travels whole, with others of its priority, in a *packet*: each has its length in four bytes before it (the aggregation of
//! NewMadeleine: Aumage et al., "NewMadeleine: a Fast Communication Scheduling Engine for High Performance Networks", IPDPS 2007). A *large* one travels in *parts*.

mod assembly;
mod buffer;
pub mod inbox;
pub mod outbox;

pub use buffer::{MessageBuffer, Recycle};
pub use inbox::{Delivery, Inbox, Lent, Place};
pub use outbox::Outbox;

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};

/// How urgent a message is: a higher one is sent before what is left of a lower one, and may be received before it. Messages of one priority keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// How urgent it was.
    pub priority: Priority,
    /// Its bytes; there may be none.
    pub payload: Bytes,
}

/// What a chunk is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// Bytes of a stream of bytes; or none, at the end of any stream.
    #[default]
    Bytes,
    /// Whole small messages.
    Packet(Packet),
    /// A part of a large one.
    Part(Part),
}

/// Small messages of one priority, one behind the other, each behind its length in four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Of all of them.
    pub priority: Priority,
    /// The number of the first among the messages of this priority; the others follow.
    pub first: u64,
    /// How many there are.
    pub count: u32,
}

/// Where a chunk lies in a large message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Of the message.
    pub priority: Priority,
    /// The message's number among those of this priority.
    pub number: u64,
    /// The message's length in bytes.
    pub total: u32,
    /// Where the chunk begins in it.
    pub at: u32,
}

/// What no honest peer says of messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageViolation {
    /// A packet cannot hold so many messages, or does not hold them.
    #[error("a packet of {length} bytes that does not hold the {count} messages it is said to")]
    Packet {
        /// Its length in bytes.
        length: u32,
        /// How many it was said to hold.
        count: u32,
    },
    /// A part is empty, or does not lie in its message.
    #[error("a part of {length} bytes at {at} of a message of {total}")]
    Part {
        /// Its length in bytes.
        length: u32,
        /// Where it is said to begin.
        at: u32,
        /// How long the message is said to be.
        total: u32,
    },
    /// Two messages lie in the same place, or one of them changes.
    #[error("a chunk at {offset} that is at odds with what came before")]
    Conflict {
        /// Where the message or packet begins in the stream.
        offset: u64,
    },
    /// The numbers of messages do not fit to where they lie.
    #[error("message {number} of priority {priority} cannot lie at {offset}")]
    Number {
        /// The message's priority.
        priority: Priority,
        /// Its number.
        number: u64,
        /// Where it is said to begin in the stream.
        offset: u64,
    },
    /// The stream ends, and messages are missing in it.
    #[error("the stream ends without message {number} of priority {priority}, and has later ones")]
    Missing {
        /// The priority.
        priority: Priority,
        /// The number of the first that is missing.
        number: u64,
    },
}

impl Priority {
    /// For what may wait.
    pub const LOWEST: Self = Self(0);
    /// For everything that is neither.
    pub const NORMAL: Self = Self(3);
    /// For what may not.
    pub const HIGHEST: Self = Self(7);
    /// How many there are.
    pub const LEVELS: usize = 8;

    /// The priority of that level, from 0 to 7; `None` above that.
    pub const fn new(level: u8) -> Option<Self> {
        if (level as usize) < Self::LEVELS { Some(Self(level)) } else { None }
    }

    /// Its level, from 0 to 7.
    pub const fn level(self) -> u8 {
        self.0
    }

    /// All of them, the most urgent first.
    fn falling() -> impl Iterator<Item = Self> {
        (0..Self::LEVELS as u8).rev().map(Self)
    }

    fn index(self) -> usize {
        self.0.into()
    }
}

impl Content {
    /// The same for what begins `bytes` further on; `None` for what is not split.
    pub(super) fn behind(self, bytes: u32) -> Option<Self> {
        match self {
            Self::Bytes => Some(Self::Bytes),
            Self::Packet(_) => None,
            Self::Part(part) => Some(Self::Part(Part { at: part.at + bytes, ..part })),
        }
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl std::fmt::Display for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

/// That is no priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("priority {0}: the highest is 7")]
pub struct NoSuchPriority(u8);

impl TryFrom<u8> for Priority {
    type Error = NoSuchPriority;

    fn try_from(level: u8) -> Result<Self, NoSuchPriority> {
        Self::new(level).ok_or(NoSuchPriority(level))
    }
}

/// How much of the window and of the stream's offsets a packet of so many bytes takes up: whole slots, and [`BESIDE_PACKET`] bytes of them for what it costs an
/// end beside its bytes, so that this is paid for in the window too.
pub fn packet_space(bytes: u32) -> u64 {
    (u64::from(bytes) + BESIDE_PACKET).div_ceil(SLOT) * SLOT
}

/// The same for a large message, which has [`BESIDE_MESSAGE`] bytes beside its own.
pub fn message_space(bytes: u32) -> u64 {
    (u64::from(bytes) + BESIDE_MESSAGE).div_ceil(SLOT) * SLOT
}

/// The longest message for an end with that window.
pub fn longest_message(window: u64) -> u64 {
    longest_range(window).saturating_sub(BESIDE_MESSAGE)
}

/// The longest packet for an end with that window.
pub fn longest_packet(window: u64) -> u64 {
    longest_range(window).saturating_sub(BESIDE_PACKET)
}

/// The longest range for which an end with that window has room sooner or later. The last quarter is left out because that much may have been read and not
/// been told yet.
fn longest_range(window: u64) -> u64 {
    let window = window.min(super::scheduler::MOST_KEPT);
    (window - window / 4) / SLOT * SLOT
}

/// The next message of a packet, whose lengths were checked when it arrived. A small one gets a buffer of its own: it must not hold the whole packet's for as
/// long as it lives.
pub fn next_of_packet(packet: &mut Bytes, whole: usize) -> Option<Bytes> {
    let length = packet.try_get_u32().ok()? as usize;
    let message = packet.split_to(length.min(packet.len()));
    let wasteful = message.len() * MOST_WASTE < whole;
    Some(if wasteful { Bytes::copy_from_slice(&message) } else { message })
}

/// Ranges of packets and messages are multiples of this.
pub const SLOT: u64 = 512;
/// What a packet costs an end beside its bytes: entries in two maps, 230 bytes where their nodes are half full, and what the allocator
/// puts before its buffer. What it costs above this is less than a tenth of its range.
pub const BESIDE_PACKET: u64 = 256;
/// The same for a large message; the map of its pieces is 700 bytes.
pub const BESIDE_MESSAGE: u64 = 1_024;
/// The bytes before each message of a packet.
pub const PREFIX: usize = 4;
/// The least that an end must take in a chunk for messages to be sent to it: an empty message fits many times.
pub const LEAST_CHUNK: usize = 64;
/// The least window for messages.
pub const LEAST_WINDOW: u64 = 4 * SLOT;
/// A message may hold a buffer that many times its length.
const MOST_WASTE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_message_does_not_hold_its_packet_s_buffer() {
        let mut packet = vec![0, 0, 0, 2, b'h', b'i', 0, 0, 0x10, 0];
        packet.extend_from_slice(&[7; 0x1000]);
        let whole = packet.len();
        let mut packet = Bytes::from(packet);
        let range = packet.as_ptr_range();
        let small = next_of_packet(&mut packet, whole).unwrap();
        let large = next_of_packet(&mut packet, whole).unwrap();
        assert_eq!((&small[..], large.len()), (&b"hi"[..], 0x1000));
        assert!(!range.contains(&small.as_ptr()) && range.contains(&large.as_ptr()));
        assert_eq!(next_of_packet(&mut packet, whole), None);
    }

    #[test]
    fn there_are_eight_priorities() {
        assert_eq!(Priority::new(7), Some(Priority::HIGHEST));
        assert_eq!(Priority::new(8), None);
        assert!(Priority::falling().is_sorted_by(|a, b| a > b));
    }
}
