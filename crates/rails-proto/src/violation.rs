//! How a peer breaks the protocol.

use crate::chunk::Priority;
use std::fmt;

/// What no honest peer sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A chunk is longer than this end said it takes.
    #[error("a chunk of {length} bytes, where {longest} are the most that was agreed")]
    TooLong {
        /// Its length in bytes.
        length: u32,
        /// The longest that was agreed.
        longest: u32,
    },
    /// A chunk lies beyond the window.
    #[error("a chunk that ends at {end}, beyond the limit {limit}")]
    BeyondWindow {
        /// The chunk's end.
        end: u64,
        /// The limit that the peer was told.
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
    /// The stream was said to end in two places, or below bytes that have arrived.
    #[error("the end of the stream moved to {end}")]
    EndMoved {
        /// Where it is said to be now.
        end: u64,
    },
    /// The bytes that have arrived lie in too many pieces.
    #[error("the bytes that have arrived lie in more than {most} pieces")]
    Fragmented {
        /// How many are held.
        most: usize,
    },
    /// Chunks were acknowledged that were not sent.
    #[error("{acknowledged} chunks of a lane are acknowledged, {sent} were sent")]
    NeverSent {
        /// How many are said to have arrived.
        acknowledged: u64,
        /// How many were sent.
        sent: u64,
    },
    /// The ends use the stream for different things.
    #[error("the peer sent {arrived}, and this end's application uses the stream for {expected}")]
    Form {
        /// What arrived.
        arrived: Form,
        /// What the application uses the stream for.
        expected: Form,
    },
    /// What is said of messages cannot be.
    #[error("{0}")]
    Message(MessageViolation),
}

/// What a stream is used for. Both ends have to use it for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Bytes in order.
    Bytes,
    /// Messages.
    Messages,
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

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Messages => "messages",
        })
    }
}
