//! The receiving half of a lane.

mod chunk;

use super::{LaneError, StreamAccess};
use crate::{
    chunk::{ChunkKind, Content},
    messages::Lent,
    seal::{Opener, SEALED_FRAME_LEN, TAG_LEN},
    session::{LaneId, LaneTimeouts, Session},
    stream_number::StreamNumber,
    violation::Violation,
    wire::{Ack, DataHeader, FRAME_LEN, Frame, FrameError},
};
use bytes::Bytes;
use chunk::{Chunk, Memory, check, lend};
use std::{
    io::{self, IoSliceMut},
    ops::DerefMut,
    time::Instant,
};

/// The receiving half of a lane. It decodes frames, reads chunks straight into their final memory,
/// opens them there if they are sealed, and hands both to the stream.
#[derive(Debug)]
pub(super) struct Receiver<B> {
    lane: LaneId,
    opener: Option<Opener>,
    /// Bytes read ahead lie in `ahead[start..end]`. Between two calls a lane without any has no
    /// such memory.
    ahead: Box<[u8]>,
    start: usize,
    end: usize,
    /// The content of the next chunk.
    content: Content,
    /// The length of the longest message of which parts have arrived.
    longest_message: u32,
    /// The chunk whose bytes come next.
    chunk: Option<Chunk<B>>,
    /// The number of bytes for which the connection wakes the driver.
    low_water: usize,
    /// An acknowledgement that the stream has still to take: mostly a chunk follows it, and the
    /// stream takes both at once.
    acknowledged: Option<Ack>,
    /// The lane's timeouts when the stream took the last chunk.
    timeouts: Option<LaneTimeouts>,
    /// The error behind the last good frame. The caller first learns of the chunks before it.
    failed: Option<LaneError>,
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Bytes were read, and may have completed chunks. There may be more to read.
    Some {
        /// The number of chunks completed; 0 if only a part of a chunk or other frames arrived.
        chunks: u64,
        /// The bytes in those chunks.
        bytes: u64,
    },
    /// There is nothing to read until the connection is readable.
    Nothing,
    /// The peer has closed its side between two frames.
    End,
}

/// The result of [`Receiver::step`].
enum Step {
    /// The receiver took a frame, or a part of a chunk.
    Taken,
    /// The receiver completed a chunk, and the stream has taken it.
    Whole { length: u32 },
    /// The bytes read ahead do not complete the next frame.
    Short,
}

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// Creates the half of a lane that has joined, with an `opener` if its frames are sealed.
    pub(super) fn new(lane: LaneId, opener: Option<Opener>) -> Self {
        Self {
            lane,
            opener,
            ahead: Box::default(),
            start: 0,
            end: 0,
            content: Content::Bytes,
            longest_message: 0,
            chunk: None,
            low_water: 1,
            acknowledged: None,
            timeouts: None,
            failed: None,
        }
    }

    /// Reads once, and takes the bytes in. `read` fills buffers from the first on and returns the
    /// number of bytes, as readv(2) does without waiting: 0 if the peer has closed its side,
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there are none. The same call reads ahead the
    /// bytes behind a chunk.
    ///
    /// # Errors
    /// [`LaneError`]: nothing more can be read from the lane.
    pub(super) fn receive<S: StreamAccess<Buffer = B>>(
        &mut self,
        now: Instant,
        stream: &mut S,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<Received, LaneError> {
        if self.ahead.is_empty() {
            self.ahead = stream.read_ahead();
        }
        let received = self.read_and_take(now, stream, read);
        if self.start == self.end {
            stream.keep_read_ahead(std::mem::take(&mut self.ahead));
        }
        received
    }

    fn read_and_take<S: StreamAccess<Buffer = B>>(
        &mut self,
        now: Instant,
        stream: &mut S,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<Received, LaneError> {
        let (mut chunks, mut bytes) = (0, 0);
        if let Some(Chunk { content: Content::Part(part), .. }) = &self.chunk {
            self.longest_message = self.longest_message.max(part.total);
        }
        match self.read(now, stream, read)? {
            Ok(0) => return self.end(),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Received::Some { chunks, bytes }),
            Err(error) => return Err(error.into()),
        }
        loop {
            match self.step(now, stream) {
                Ok(Step::Taken) => {}
                Ok(Step::Whole { length }) => (chunks, bytes) = (chunks + 1, bytes + u64::from(length)),
                Ok(Step::Short) => {
                    self.pass_acknowledgement(now, stream)?;
                    return Ok(Received::Some { chunks, bytes });
                }
                Err(error) => {
                    self.pass_acknowledgement(now, stream)?;
                    if chunks == 0 {
                        return Err(error);
                    }
                    self.failed = Some(error);
                    return Ok(Received::Some { chunks, bytes });
                }
            }
        }
    }

    /// Has the stream take the acknowledgement that it has still to take.
    fn pass_acknowledgement<S: StreamAccess<Buffer = B>>(
        &mut self,
        now: Instant,
        stream: &mut S,
    ) -> Result<(), LaneError> {
        let lane = self.lane;
        match self.acknowledged.take() {
            Some(ack) => Ok(stream.with(|session| session.handle_ack(now, lane, &ack))?),
            None => Ok(()),
        }
    }

    /// The length of the chunk of which the rest has still to arrive.
    pub(super) fn chunk_under_way(&self) -> Option<u32> {
        self.chunk.as_ref().map(|chunk| chunk.header.length)
    }

    /// The least number of bytes for which the connection is to wake the driver, if it has changed
    /// since the last call: those that complete a chunk. With fewer the lane can do nothing but
    /// copy them.
    pub(super) fn take_low_water(&mut self) -> Option<usize> {
        let missing = self.chunk.as_ref().map_or(0, Chunk::missing);
        let tag = if self.opener.is_some() { TAG_LEN } else { 0 };
        let low_water = if missing < MIN_AWAITED { 1 } else { (missing + tag).min(MAX_AWAITED) };
        (std::mem::replace(&mut self.low_water, low_water) != low_water).then_some(low_water)
    }

    /// The length of the longest message of which parts have arrived since the last call; 0 if none
    /// have.
    pub(super) fn take_longest_message(&mut self) -> u32 {
        std::mem::take(&mut self.longest_message)
    }

    /// Takes the error that the last call found behind the chunks that it returned.
    pub(super) fn take_failure(&mut self) -> Option<LaneError> {
        self.failed.take()
    }

    /// Takes the lane's timeouts, if a chunk that has arrived may have changed them.
    pub(super) fn take_timeouts(&mut self) -> Option<LaneTimeouts> {
        self.timeouts.take()
    }

    /// The peer has closed its side.
    fn end(&self) -> Result<Received, LaneError> {
        let ahead = self.end - self.start;
        let missing = match &self.chunk {
            None if ahead == 0 => return Ok(Received::End),
            None => self.header_len() - ahead,
            Some(chunk) if chunk.is_full() => TAG_LEN - ahead,
            Some(chunk) => chunk.missing(),
        };
        Err(LaneError::Cut { missing })
    }

    fn header_len(&self) -> usize {
        if self.opener.is_some() { SEALED_FRAME_LEN } else { FRAME_LEN }
    }

    /// Reads the rest of a chunk, or reads ahead.
    fn read<S: StreamAccess<Buffer = B>>(
        &mut self,
        now: Instant,
        stream: &mut S,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Result<io::Result<usize>, LaneError> {
        match &mut self.chunk {
            Some(chunk) if !chunk.is_full() => {
                // The receiver has used up all bytes that it read ahead.
                let ahead = &mut self.ahead[..];
                let (outcome, beyond) = chunk.fill(now, stream, self.lane, |rest| {
                    let missing = rest.len();
                    let outcome = read(&mut [IoSliceMut::new(rest), IoSliceMut::new(ahead)]);
                    let count = *outcome.as_ref().unwrap_or(&0);
                    (count.min(missing), (outcome, count.saturating_sub(missing)))
                })?;
                (self.start, self.end) = (0, beyond);
                Ok(outcome)
            }
            _ => {
                self.ahead.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
                let outcome = read(&mut [IoSliceMut::new(&mut self.ahead[self.end..])]);
                self.end += *outcome.as_ref().unwrap_or(&0);
                Ok(outcome)
            }
        }
    }

    /// Takes the next frame, or a part of a chunk, from the bytes read ahead.
    fn step<S: StreamAccess<Buffer = B>>(&mut self, now: Instant, stream: &mut S) -> Result<Step, LaneError> {
        let Some(chunk) = &mut self.chunk else {
            let Some(frame) = self.frame()? else { return Ok(Step::Short) };
            self.handle(now, stream, frame)?;
            return Ok(Step::Taken);
        };
        let ahead = &self.ahead[self.start..self.end];
        if !chunk.is_full() {
            if ahead.is_empty() {
                return Ok(Step::Short);
            }
            let count = chunk.fill(now, stream, self.lane, |rest| {
                let count = rest.len().min(ahead.len());
                rest[..count].copy_from_slice(&ahead[..count]);
                (count, count)
            })?;
            self.start += count;
            return Ok(Step::Taken);
        }
        let header = chunk.header;
        let is_tagged = self.opener.is_some() && header.length > 0;
        let tag = match ahead.first_chunk::<TAG_LEN>() {
            None if is_tagged => return Ok(Step::Short),
            tag => tag.copied().filter(|_| is_tagged),
        };
        self.start += tag.map_or(0, |tag| tag.len());
        if let Some(chunk) = self.chunk.take() {
            self.finish(now, stream, chunk, tag)?;
        }
        Ok(Step::Whole { length: header.length })
    }

    /// The next frame's header, if all of it has arrived.
    fn frame(&mut self) -> Result<Option<Frame>, LaneError> {
        let length = self.header_len();
        let Some(bytes) = self.ahead[self.start..self.end].get(..length) else { return Ok(None) };
        let header = match &mut self.opener {
            Some(opener) => opener.header(&std::array::from_fn(|index| bytes[index]))?,
            None => std::array::from_fn(|index| bytes[index]),
        };
        self.start += length;
        Ok(Some(Frame::decode(&header)?))
    }

    fn handle<S: StreamAccess<Buffer = B>>(
        &mut self,
        now: Instant,
        stream: &mut S,
        frame: Frame,
    ) -> Result<(), LaneError> {
        if self.content != Content::Bytes && !matches!(frame, Frame::Data(_)) {
            return Err(FrameError::WithoutData.into());
        }
        if !matches!(frame, Frame::Data(_)) {
            self.pass_acknowledgement(now, stream)?;
        }
        let lane = self.lane;
        match frame {
            Frame::Packet(packet) => self.content = Content::Packet(packet),
            Frame::Part(part) => {
                self.content = Content::Part(part);
                self.longest_message = self.longest_message.max(part.total);
            }
            Frame::Data(header) => {
                let content = std::mem::take(&mut self.content);
                self.chunk = Some(Chunk::new(now, stream, lane, header, content)?);
            }
            Frame::Control(header) => self.chunk = Some(Chunk::special(now, stream, header, ChunkKind::Control)?),
            Frame::Datagram(header) => self.chunk = Some(Chunk::special(now, stream, header, ChunkKind::Datagram)?),
            Frame::Close { code, length, checksum } => {
                let header = DataHeader { stream: StreamNumber::FIRST, offset: 0, length, fin: false, checksum };
                self.chunk = Some(Chunk::special(now, stream, header, ChunkKind::Close { code })?);
            }
            Frame::Ack(ack) => self.acknowledged = Some(ack),
            Frame::Leave { drained } => stream.with(|session| session.handle_leave(now, lane, drained)),
            Frame::Stop { read } => stream.with(|session| session.handle_stop(now, read))?,
            Frame::Reset(reason) => stream.with(|session| session.handle_reset(now, reason)),
        }
        Ok(())
    }

    /// Verifies a chunk, and hands it to the stream.
    fn finish<S: StreamAccess<Buffer = B>>(
        &mut self,
        now: Instant,
        stream: &mut S,
        chunk: Chunk<B>,
        tag: Option<[u8; TAG_LEN]>,
    ) -> Result<(), LaneError> {
        let Chunk { header, content, kind, memory, .. } = chunk;
        let (lane, opener) = (self.lane, &mut self.opener);
        let payload: Bytes = match memory {
            Memory::Own(mut buffer) => {
                check(opener, &header, &mut buffer, tag)?;
                S::freeze(buffer)
            }
            Memory::Ousted(mut buffer) => {
                check(opener, &header, &mut buffer, tag)?;
                buffer.freeze()
            }
            Memory::Message => match lend(stream, lane, &header) {
                Lent::Own(mut buffer) => {
                    check(opener, &header, &mut buffer, tag)?;
                    buffer.freeze()
                }
                Lent::Piece(mut piece) => {
                    if let Err(error) = check(opener, &header, &mut piece, tag) {
                        // The damaged chunk ends the lane. The message stays, unless the stream fails.
                        let _ = stream.with(|session| session.give_back(now, lane, &header, piece, 0));
                        return Err(error);
                    }
                    return self.take_in(now, stream, |session| session.handle_part(now, lane, &header, piece));
                }
            },
        };
        self.take_in(now, stream, |session| match (kind, content) {
            (ChunkKind::Stream, Content::Bytes) => session.handle_data(now, lane, &header, payload),
            (ChunkKind::Stream, content) => session.handle_content(now, lane, &header, &content, payload),
            (ChunkKind::Control, _) => session.handle_control(now, lane, &payload),
            (ChunkKind::Datagram, _) => {
                session.handle_datagram(payload);
                Ok(())
            }
            (ChunkKind::Close { code }, _) => {
                session.handle_close(now, code, payload);
                Ok(())
            }
        })
    }

    /// Gives the stream a chunk, and keeps the lane's timeouts after it.
    fn take_in<S: StreamAccess<Buffer = B>>(
        &mut self,
        now: Instant,
        stream: &mut S,
        act: impl FnOnce(&mut Session) -> Result<(), Violation>,
    ) -> Result<(), LaneError> {
        let lane = self.lane;
        let ack = self.acknowledged.take();
        let (taken, timeouts) = stream.with(|session| {
            session.begin_turn();
            let taken = ack.map_or(Ok(()), |ack| session.handle_ack(now, lane, &ack)).and_then(|()| act(session));
            session.end_turn(now);
            (taken, session.lane_timeouts(lane))
        });
        self.timeouts = Some(timeouts);
        Ok(taken?)
    }
}

/// The bytes that the lane reads ahead: enough for 16 KiB with their frames in one call, and few
/// enough that to copy them into a large chunk costs next to nothing.
pub const READ_AHEAD: usize = 17 << 10;
/// Fewer bytes arrive within the time that a wake takes.
const MIN_AWAITED: usize = 16 << 10;
/// Of a longer chunk the lane receives pieces of this size, so that it receives one while the peer
/// sends the next.
const MAX_AWAITED: usize = 256 << 10;

#[cfg(test)]
mod tests;
