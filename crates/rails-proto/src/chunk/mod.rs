//! A chunk of a stream, and its content.

mod priority;

use bytes::Bytes;
pub use priority::{InvalidPriority, Priority};

/// A run of a stream's bytes, which one lane sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The stream offset of the chunk's first byte.
    pub offset: u64,
    /// The chunk's bytes, in the slices that the application wrote.
    pub payload: Vec<Bytes>,
    /// The chunk's length in bytes.
    pub length: u32,
    /// Whether the stream ends behind the chunk.
    pub fin: bool,
    /// The content of the bytes.
    pub content: Content,
}

/// The content of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// Bytes of a stream of bytes; at the end of any stream, no content.
    #[default]
    Bytes,
    /// Whole small messages.
    Packet(Packet),
    /// A part of a large message.
    Part(Part),
}

/// Small messages of one priority in a row. Each has its length in four bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The priority of all these messages.
    pub priority: Priority,
    /// The number of the first among the messages of this priority; the others follow.
    pub first: u64,
    /// The number of messages.
    pub count: u32,
}

/// The place of a chunk in a large message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The message's priority.
    pub priority: Priority,
    /// The message's number among those of this priority.
    pub number: u64,
    /// The message's length in bytes.
    pub total: u32,
    /// The chunk's offset in the message.
    pub at: u32,
}

impl Chunk {
    /// Whether the peer certainly has the chunk, if it has read everything below `consumed`. The
    /// end of the stream is not read, so the peer must acknowledge the chunk with the end
    /// itself.
    pub(crate) fn is_known_below(&self, consumed: u64) -> bool {
        self.offset + u64::from(self.length) <= consumed && !self.fin
    }

    /// Keeps the first `max` bytes, and returns the rest if there is any. Small messages stay
    /// together.
    pub(crate) fn split_off(&mut self, max: usize) -> Option<Self> {
        if self.length as usize <= max {
            return None;
        }
        let offset = self.offset + max as u64;
        let content = self.content.after_split(max as u32)?;
        let mut rest = Self { offset, payload: Vec::new(), length: self.length, fin: self.fin, content };
        let mut left = max;
        for mut slice in std::mem::take(&mut self.payload) {
            let kept = slice.split_to(left.min(slice.len()));
            left -= kept.len();
            self.payload.extend(Some(kept).filter(|kept| !kept.is_empty()));
            rest.payload.extend(Some(slice).filter(|slice| !slice.is_empty()));
        }
        (self.length, self.fin) = (max as u32, false);
        rest.length -= self.length;
        Some(rest)
    }
}

impl Content {
    /// The content of the rest, after a split `bytes` behind the beginning; `None` if the content
    /// cannot be split.
    pub(crate) fn after_split(self, bytes: u32) -> Option<Self> {
        match self {
            Self::Bytes => Some(Self::Bytes),
            Self::Packet(_) => None,
            Self::Part(part) => Some(Self::Part(Part { at: part.at + bytes, ..part })),
        }
    }
}
