//! The bytes that a lane sends next: frames, and payload behind them.

use crate::{
    chunk::{Chunk, ChunkKind},
    seal::Sealer,
    session::CONTROL_LEN,
    wire::{DataHeader, Frame},
};
use bytes::{Buf, Bytes};
use smallvec::SmallVec;

/// The bytes that a lane sends next. To prepare them, which is to compute the chunk's checksum or
/// to seal it, takes time in proportion to the chunk; so does a submission to the connection.
/// Another thread can do both, once the lane has [lent](super::LaneProtocol::lend) them.
#[derive(Debug)]
pub struct Outgoing {
    sealer: Option<Sealer>,
    /// The frames under way; the connection has taken `control[..taken]` of them, or of the
    /// sealer's output for them.
    control: Vec<u8>,
    taken: usize,
    /// The payload behind the frames, if it is not sealed; the connection has taken
    /// `payload[..first]`.
    payload: SmallVec<[Bytes; 1]>,
    first: usize,
    /// The number of bytes in the sealer's output.
    sealed: usize,
    /// The length of the chunk under way.
    chunk: Option<u32>,
    /// The header of that chunk and its kind, until the bytes are prepared.
    header: Option<(DataHeader, ChunkKind)>,
    is_prepared: bool,
}

impl Outgoing {
    pub(super) fn new(sealer: Option<Sealer>) -> Self {
        Self {
            sealer,
            control: Vec::with_capacity(5 * CONTROL_LEN),
            taken: 0,
            payload: SmallVec::new(),
            first: 0,
            sealed: 0,
            chunk: None,
            header: None,
            is_prepared: true,
        }
    }

    /// The place for the next frames. All bytes before them are submitted.
    pub(super) fn frames(&mut self) -> &mut Vec<u8> {
        self.control.clear();
        (self.taken, self.sealed) = (0, 0);
        &mut self.control
    }

    /// Puts a chunk behind the frames, if there is one. The bytes are complete then.
    pub(super) fn put(&mut self, chunk: Option<Chunk>) {
        debug_assert!(chunk.is_some() || !self.control.is_empty(), "a step that sends has a frame to send");
        self.is_prepared = false;
        let Some(Chunk { stream, offset, payload, length, fin, content, kind, .. }) = chunk else { return };
        if let Some(frame) = Frame::of_content(content) {
            self.control.extend_from_slice(&frame.encode());
        }
        self.header = Some((DataHeader { stream, offset, length, fin, checksum: 0 }, kind));
        (self.payload, self.chunk) = (payload, Some(length));
    }

    /// The length of the chunk that is still to be prepared; 0 if there is none.
    pub(super) fn unprepared(&self) -> u32 {
        self.header.map_or(0, |(header, _)| header.length)
    }

    /// Prepares the bytes, if they are not.
    fn prepare(&mut self) {
        if std::mem::replace(&mut self.is_prepared, true) {
            return;
        }
        if let Some((mut header, kind)) = self.header.take() {
            // A sealed chunk has a tag, which is stronger than a checksum.
            if self.sealer.is_none() {
                header = DataHeader::of(header.stream, header.offset, &self.payload, header.fin);
            }
            self.control.extend_from_slice(&Frame::of_chunk(kind, header).encode());
        }
        if let Some(sealer) = &mut self.sealer {
            self.sealed = sealer.seal(&self.control, &self.payload).len();
            self.payload.clear();
        }
    }

    /// The bytes that the connection still has to take: headers, and payload behind them.
    pub fn bytes(&mut self) -> (&[u8], &[Bytes]) {
        self.prepare();
        self.prepared()
    }

    fn prepared(&self) -> (&[u8], &[Bytes]) {
        let control = match &self.sealer {
            Some(sealer) => &sealer.sealed()[..self.sealed],
            None => &self.control,
        };
        (&control[self.taken..], &self.payload[self.first..])
    }

    /// Notes that the connection has taken the next `bytes` of the [bytes](Self::bytes).
    pub fn submitted(&mut self, bytes: usize) {
        let of_control = bytes.min(self.prepared().0.len());
        self.taken += of_control;
        let mut bytes = bytes - of_control;
        while let Some(piece) = self.payload.get_mut(self.first)
            && (bytes > 0 || piece.is_empty())
        {
            let count = bytes.min(piece.len());
            piece.advance(count);
            bytes -= count;
            self.first += usize::from(piece.is_empty());
        }
        if self.is_submitted() {
            // Release the application's memory now: the lane may wait long for room.
            self.payload.clear();
            self.first = 0;
        }
    }

    /// Whether the connection has taken all bytes.
    pub fn is_submitted(&self) -> bool {
        let (control, payload) = self.prepared();
        self.is_prepared && control.is_empty() && payload.is_empty()
    }

    /// The length of the chunk, once the connection has taken all of it: the first time that it is
    /// asked for.
    pub(super) fn take_chunk(&mut self) -> Option<u32> {
        if self.is_submitted() { self.chunk.take() } else { None }
    }
}
