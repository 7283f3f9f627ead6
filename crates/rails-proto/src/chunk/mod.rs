//! A chunk of a stream, and its content.

mod priority;

use crate::stream_number::StreamNumber;
use bytes::Bytes;
pub use priority::{InvalidPriority, Priority};
use smallvec::{SmallVec, smallvec};

/// A run of a stream's bytes, which one lane sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The place of the chunk's first byte on the line of all chunks of the session, in the order
    /// in which lanes first took them. It stays at this end.
    pub position: u64,
    /// The chunk's stream.
    pub stream: StreamNumber,
    /// The stream offset of the chunk's first byte.
    pub offset: u64,
    /// The chunk's bytes, in the slices that the application wrote.
    pub payload: SmallVec<[Bytes; 1]>,
    /// The chunk's length in bytes.
    pub length: u32,
    /// Whether the stream ends behind the chunk.
    pub fin: bool,
    /// The content of the bytes, of a chunk of a stream.
    pub content: Content,
    /// The kind of the chunk.
    pub kind: ChunkKind,
}

/// The kind of a chunk. Only a chunk of a stream has an offset there, a content and an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChunkKind {
    /// A chunk of a stream.
    #[default]
    Stream,
    /// [Control records](crate::control).
    Control,
    /// A datagram.
    Datagram,
    /// The reason for which the session is closed.
    Close {
        /// The application's code.
        code: u64,
    },
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
    /// A chunk of that kind, which is none of a stream, at that position.
    pub(crate) fn special(kind: ChunkKind, position: u64, payload: Bytes) -> Self {
        let length = payload.len() as u32;
        let payload = if payload.is_empty() { SmallVec::new() } else { smallvec![payload] };
        let (stream, content) = (StreamNumber::FIRST, Content::Bytes);
        Self { position, stream, offset: 0, payload, length, fin: false, content, kind }
    }

    /// Whether the peer certainly has the chunk, if it has read all bytes of streams below the
    /// position `consumed`.
    pub(crate) fn is_known_below(&self, consumed: u64) -> bool {
        self.position + u64::from(self.length) <= consumed && !self.must_be_acknowledged()
    }

    /// Whether only an acknowledgement shows that the peer has the chunk: no application reads the
    /// end of a stream, or a control record.
    pub(crate) fn must_be_acknowledged(&self) -> bool {
        self.fin || self.kind == ChunkKind::Control
    }

    /// Whether the chunk can be cut `bytes` behind its beginning.
    pub(crate) fn can_be_split(&self, bytes: u32) -> bool {
        self.kind == ChunkKind::Stream && self.content.after_split(bytes).is_some()
    }

    /// Keeps the first `max` bytes, and returns the rest if there is any. Small messages stay
    /// together.
    pub(crate) fn split_off(&mut self, max: usize) -> Option<Self> {
        if self.length as usize <= max || self.kind != ChunkKind::Stream {
            return None;
        }
        let (position, offset) = (self.position + max as u64, self.offset + max as u64);
        let content = self.content.after_split(max as u32)?;
        let mut rest = Self { position, offset, payload: SmallVec::new(), content, ..*self };
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
