//! A chunk on its way into its memory.

use crate::{
    chunk::{ChunkKind, Content},
    lane::{LaneError, StreamAccess},
    messages::{Lent, Place},
    seal::{Opener, TAG_LEN},
    session::LaneId,
    wire::DataHeader,
};
use bytes::BytesMut;
use std::{ops::DerefMut, time::Instant};

/// A chunk that the lane is receiving.
#[derive(Debug)]
pub(super) struct Chunk<B> {
    pub(super) header: DataHeader,
    pub(super) content: Content,
    pub(super) kind: ChunkKind,
    pub(super) memory: Memory<B>,
    /// The bytes of the chunk that have arrived.
    filled: usize,
}

/// The memory into which a lane reads a chunk.
#[derive(Debug)]
pub(super) enum Memory<B> {
    Own(B),
    /// The chunk's piece of a message. The lane holds it only while it reads: another lane may
    /// bring the same part meanwhile.
    Message,
    /// Another lane has brought the same part. The lane reads the rest into a buffer of its own.
    Ousted(BytesMut),
}

impl<B: DerefMut<Target = [u8]>> Chunk<B> {
    /// The chunk with this header, of which no byte has arrived.
    pub(super) fn new<S: StreamAccess<Buffer = B>>(
        now: Instant,
        stream: &mut S,
        lane: LaneId,
        header: DataHeader,
        content: Content,
    ) -> Result<Self, LaneError> {
        let memory = place(now, stream, lane, &header, &content)?;
        Ok(Self { header, content, kind: ChunkKind::Stream, memory, filled: 0 })
    }

    /// As [`new`](Self::new), for a control chunk, a datagram or a close.
    pub(super) fn special<S: StreamAccess<Buffer = B>>(
        now: Instant,
        stream: &mut S,
        header: DataHeader,
        kind: ChunkKind,
    ) -> Result<Self, LaneError> {
        stream.with(|session| session.admit_special(now, &header, kind))?;
        let memory = Memory::Own(stream.chunk(header.length as usize));
        Ok(Self { header, content: Content::Bytes, kind, memory, filled: 0 })
    }

    pub(super) fn is_full(&self) -> bool {
        self.missing() == 0
    }

    /// The number of bytes that have still to arrive.
    pub(super) fn missing(&self) -> usize {
        self.header.length as usize - self.filled
    }

    /// Lets `fill` write into the rest of the memory; `fill` returns the number of bytes it has
    /// written, and its own result.
    pub(super) fn fill<S: StreamAccess<Buffer = B>, T>(
        &mut self,
        now: Instant,
        stream: &mut S,
        lane: LaneId,
        fill: impl FnOnce(&mut [u8]) -> (usize, T),
    ) -> Result<T, LaneError> {
        if let Memory::Message = self.memory {
            match lend(stream, lane, &self.header) {
                Lent::Own(buffer) => self.memory = Memory::Ousted(buffer),
                Lent::Piece(mut piece) => {
                    let (count, outcome) = fill(&mut piece[self.filled..]);
                    self.filled += count;
                    let (header, filled) = (self.header, self.filled);
                    stream.with(|session| session.give_back(now, lane, &header, piece, filled))?;
                    return Ok(outcome);
                }
            }
        }
        let rest = match &mut self.memory {
            Memory::Own(buffer) => &mut buffer[self.filled..],
            Memory::Ousted(buffer) => &mut buffer[self.filled..],
            Memory::Message => &mut [],
        };
        let (count, outcome) = fill(rest);
        self.filled += count;
        Ok(outcome)
    }
}

/// Chooses the memory of a chunk. A new message's buffer is allocated here, outside the stream's
/// lock.
fn place<S: StreamAccess>(
    now: Instant,
    stream: &mut S,
    lane: LaneId,
    header: &DataHeader,
    content: &Content,
) -> Result<Memory<S::Buffer>, LaneError> {
    if *content == Content::Bytes {
        // A short chunk is not worth a lock of its own.
        if header.length >= LITTLE {
            stream.with(|session| session.admit(now, header))?;
        }
        return Ok(Memory::Own(stream.chunk(header.length as usize)));
    }
    let mut spare = None;
    loop {
        match stream.with(|session| session.admit_content(now, lane, header, content, &mut spare))? {
            Place::NeedsBuffer(length) => spare = Some(stream.message(length)),
            Place::Message => return Ok(Memory::Message),
            Place::Own => return Ok(Memory::Own(stream.chunk(header.length as usize))),
        }
    }
}

/// Takes the piece of a message that the lane fills.
pub(super) fn lend<S: StreamAccess>(stream: &mut S, lane: LaneId, header: &DataHeader) -> Lent {
    stream.with(|session| session.lend(lane, header))
}

/// Verifies a chunk by its checksum, or opens it if it is sealed.
pub(super) fn check(
    opener: &mut Option<Opener>,
    header: &DataHeader,
    chunk: &mut [u8],
    tag: Option<[u8; TAG_LEN]>,
) -> Result<(), LaneError> {
    match (opener, tag) {
        (Some(opener), Some(tag)) => Ok(opener.payload(chunk, &tag)?),
        // The chunk has no bytes, and its header was sealed.
        (Some(_), None) => Ok(()),
        (None, _) if header.matches(chunk) => Ok(()),
        (None, _) => Err(LaneError::Checksum { offset: header.offset }),
    }
}

/// The lane reads a shorter chunk before it asks the stream.
const LITTLE: u32 = 4 << 10;
