//! Errors of decoders.

use super::{
    encoding::Encoding,
    limits::{MAX_BLOCKS, MAX_DESCRIPTION_MEMORY, MAX_INLINE_SUM, VERSION},
};
use rails_array::BlockIndex;

/// A message that breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message has no bytes.
    #[error("a message has no bytes")]
    Empty,
    /// The message is none that this end receives.
    #[error("a message of kind {found} is unknown here")]
    Kind {
        /// The first byte.
        found: u8,
    },
    /// The message has an unknown number within its kind.
    #[error("number {found} is no message of {sender}")]
    Unknown {
        /// The end that sends such messages.
        sender: &'static str,
        /// The number.
        found: u8,
    },
    /// The peer speaks another version.
    #[error("the peer speaks version {found} of the array cache's messages, and this node version {VERSION}")]
    Version {
        /// The version of the peer.
        found: u16,
    },
    /// The message is too long.
    #[error("`{message}` has {bytes} bytes, which is more than {max}")]
    TooLong {
        /// The name of the message.
        message: &'static str,
        /// The number of bytes.
        bytes: usize,
        /// The largest number.
        max: usize,
    },
    /// The message ends too early, or has bytes without a meaning.
    #[error("`{message}` is cut short, or has bytes without a meaning")]
    Malformed {
        /// The name of the message.
        message: &'static str,
    },
    /// There are bytes behind the message.
    #[error("`{message}` has {bytes} bytes behind it")]
    Trailing {
        /// The name of the message.
        message: &'static str,
        /// The number of bytes.
        bytes: usize,
    },
    /// A value in the message is not allowed.
    #[error("`{message}` is wrong")]
    Content {
        /// The name of the message.
        message: &'static str,
        /// The cause.
        #[source]
        problem: WireProblem,
    },
}

/// A value in a message that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireProblem {
    /// A list is too long.
    #[error("the list of {entries} has more than {max}")]
    List {
        /// The entries.
        entries: &'static str,
        /// The largest number of them.
        max: usize,
    },
    /// A list of blocks names too many.
    #[error("the list names {blocks} blocks, which is more than {MAX_BLOCKS}")]
    Blocks {
        /// The number of blocks.
        blocks: u64,
    },
    /// A run of blocks is empty, or its end does not fit 64 bits.
    #[error("{count} blocks from block {first} are no run")]
    Run {
        /// The first block.
        first: BlockIndex,
        /// The number of blocks.
        count: u32,
    },
    /// A text is too long.
    #[error("the {field} has {bytes} bytes, which is more than {max}")]
    Text {
        /// The text.
        field: &'static str,
        /// The size in bytes.
        bytes: usize,
        /// The largest size.
        max: usize,
    },
    /// The name of the application is empty, or has characters that cannot be printed.
    #[error("the name of the application is empty, or cannot be printed")]
    Application,
    /// A list has no entries.
    #[error("the list of {entries} is empty")]
    NoEntry {
        /// The entries.
        entries: &'static str,
    },
    /// A number is zero.
    #[error("the {field} is zero")]
    Zero {
        /// The number.
        field: &'static str,
    },
    /// The level of a memory is unknown.
    #[error("level {found} of a memory is unknown")]
    Level {
        /// The level.
        found: u8,
    },
    /// A byte of a block's header has a value without a meaning.
    #[error("byte {at} of the header is {found}, which means nothing")]
    Reserved {
        /// The number of the byte.
        at: usize,
        /// The value.
        found: u8,
    },
    /// The encoding of a block is unknown.
    #[error("encoding {found} of a block is unknown")]
    Encoding {
        /// The number.
        found: u8,
    },
    /// The payload of a block has another size than it must have.
    #[error("a payload of {payload_bytes} bytes, encoded as {encoding}, is no block of {block_bytes}")]
    Payload {
        /// The encoding.
        encoding: Encoding,
        /// The size of the payload.
        payload_bytes: usize,
        /// The size of the block.
        block_bytes: usize,
    },
    /// The description would take too much memory.
    #[error("the description would take {bytes} bytes of memory, which is more than {MAX_DESCRIPTION_MEMORY}")]
    Memory {
        /// The number of bytes.
        bytes: u64,
    },
    /// The description holds too many elements.
    #[error("the description holds {bytes} bytes of elements, which is more than {MAX_INLINE_SUM}")]
    InlineSum {
        /// The number of bytes.
        bytes: u64,
    },
    /// Two arrays of a dataset have the same name.
    #[error("the array `{name}` is there twice")]
    DuplicateArray {
        /// The name.
        name: String,
    },
    /// A fact about an array does not fit its type or its shape.
    #[error("the {field} of the array `{name}` does not fit its type or shape")]
    Array {
        /// The name of the array.
        name: String,
        /// The fact.
        field: &'static str,
    },
}
