//! A piece of a stream on its way, and what its bytes are.

mod priority;

pub use priority::{NoSuchPriority, Priority};

use bytes::Bytes;

/// Some of a stream's bytes, to be sent on one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where its first byte belongs in the stream.
    pub offset: u64,
    /// Its bytes, in slices as they were written.
    pub payload: Vec<Bytes>,
    /// Its length in bytes.
    pub length: u32,
    /// The stream ends behind it.
    pub fin: bool,
    /// What the bytes are.
    pub content: Content,
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

impl Chunk {
    /// Whether the peer has it for certain, having read everything below `consumed`. That the stream ends is not
    /// read, so the chunk that says it has to be acknowledged itself.
    pub(crate) fn is_known_below(&self, consumed: u64) -> bool {
        self.offset + u64::from(self.length) <= consumed && !self.fin
    }

    /// Keeps the first `most` bytes, and gives the rest if there is any. Small messages stay together.
    pub(crate) fn split_off(&mut self, most: usize) -> Option<Self> {
        if self.length as usize <= most {
            return None;
        }
        let offset = self.offset + most as u64;
        let content = self.content.behind(most as u32)?;
        let mut rest = Self { offset, payload: Vec::new(), length: self.length, fin: self.fin, content };
        let mut left = most;
        for mut slice in std::mem::take(&mut self.payload) {
            let kept = slice.split_to(left.min(slice.len()));
            left -= kept.len();
            self.payload.extend(Some(kept).filter(|kept| !kept.is_empty()));
            rest.payload.extend(Some(slice).filter(|slice| !slice.is_empty()));
        }
        (self.length, self.fin) = (most as u32, false);
        rest.length -= self.length;
        Some(rest)
    }
}

impl Content {
    /// The same for what begins `bytes` further on; `None` for what is not split.
    pub(crate) fn behind(self, bytes: u32) -> Option<Self> {
        match self {
            Self::Bytes => Some(Self::Bytes),
            Self::Packet(_) => None,
            Self::Part(part) => Some(Self::Part(Part { at: part.at + bytes, ..part })),
        }
    }
}
