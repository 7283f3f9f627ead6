//! Violations of the protocol by a peer.

use crate::{chunk::Priority, stream_number::StreamNumber};
use std::fmt;

/// A frame that breaks the protocol: no honest peer sends one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A chunk is longer than this end takes.
    #[error("a chunk of {length} bytes, longer than the {longest} that this end takes")]
    TooLong {
        /// The chunk's length in bytes.
        length: u32,
        /// The longest chunk that this end takes.
        longest: u32,
    },
    /// A chunk lies beyond the window.
    #[error("a chunk that ends at {end}, beyond the limit {limit}")]
    BeyondWindow {
        /// The chunk's end.
        end: u64,
        /// The limit.
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
    /// The peer states two different ends of the stream, or an end below bytes that have arrived.
    #[error("the end of the stream moved to {end}")]
    EndMoved {
        /// The new end.
        end: u64,
    },
    /// The bytes that have arrived lie in too many pieces.
    #[error("the bytes that have arrived lie in more than {max} pieces")]
    Fragmented {
        /// The most pieces that this end takes.
        max: usize,
    },
    /// The peer acknowledges chunks that this end has not sent.
    #[error("the peer acknowledges {acknowledged} chunks of a lane, and this end has sent {sent}")]
    NeverSent {
        /// The number that the peer acknowledges.
        acknowledged: u64,
        /// The number that this end has sent.
        sent: u64,
    },
    /// The ends use the stream for different things.
    #[error("the peer sent {arrived}, and this end's application uses the stream for {expected}")]
    Form {
        /// The form that arrived.
        arrived: Form,
        /// The form that the application uses.
        expected: Form,
    },
    /// A chunk of messages breaks the protocol.
    #[error("{0}")]
    Message(MessageViolation),
    /// A chunk of control records holds none, or one that no honest peer sends.
    #[error("a chunk of control records that are none")]
    Control,
    /// A frame names a stream that its sender may not open, or sends in a direction that the stream
    /// does not have.
    #[error("a frame for stream {stream}, which the peer may not use so")]
    Stream {
        /// The stream.
        stream: StreamNumber,
    },
    /// The peer opens more streams than it may.
    #[error("the peer opens stream {stream}, and may open {max} of its kind")]
    TooManyStreams {
        /// The stream.
        stream: StreamNumber,
        /// How many streams of that kind the peer may open in all.
        max: u64,
    },
    /// The session carries one stream, and the peer sends frames of sessions with many; or the
    /// other way round.
    #[error("a frame that this kind of session does not have")]
    Kind,
}

/// The form of a stream. Both ends have to use the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Bytes in order.
    Bytes,
    /// Messages.
    Messages,
}

/// A chunk of messages that breaks the protocol: no honest peer sends one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageViolation {
    /// A packet cannot hold its stated number of messages, or does not hold them.
    #[error("a packet of {length} bytes that does not hold the stated {count} messages")]
    Packet {
        /// The packet's length in bytes.
        length: u32,
        /// The number of messages that the packet states.
        count: u32,
    },
    /// A part is empty, or does not lie in its message.
    #[error("a part of {length} bytes at {at} of a message of {total}")]
    Part {
        /// The part's length in bytes.
        length: u32,
        /// The offset within the message that the part states.
        at: u32,
        /// The length of the message that the part states.
        total: u32,
    },
    /// Two messages lie in the same place, or a message's description changes.
    #[error("a chunk at {offset} that contradicts an earlier chunk")]
    Conflict {
        /// The stream offset at which the message or packet begins.
        offset: u64,
    },
    /// The numbers of messages do not fit their places.
    #[error("message {number} of priority {priority} cannot lie at {offset}")]
    Number {
        /// The message's priority.
        priority: Priority,
        /// The message's number.
        number: u64,
        /// The stream offset at which the message begins.
        offset: u64,
    },
    /// The stream ends, and a message before a later one is missing.
    #[error("the stream ends without message {number} of priority {priority}, and has later ones")]
    Missing {
        /// The priority.
        priority: Priority,
        /// The number of the first missing message.
        number: u64,
    },
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Messages => "messages",
        })
    }
}
