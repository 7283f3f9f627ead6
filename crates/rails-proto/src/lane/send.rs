//! The sending half of a lane.

use super::Stream;
use crate::{
    chunk::Chunk,
    connection::{CONTROL_LEN, LaneId, LaneTimeouts, NEEDS_NO_ROOM, Transmit},
    seal::Sealer,
    wire::{DataHeader, Frame},
};
use bytes::{Buf, Bytes};
use std::time::Instant;

/// The sending half of a lane. It asks the stream for the next chunk, puts it into frames, and seals them if the stream is encrypted.
#[derive(Debug)]
pub(super) struct Sender {
    lane: LaneId,
    sealer: Option<Sealer>,
    /// The frames under way, or the sealer's output for them; the connection has taken `control[..taken]`.
    control: Vec<u8>,
    taken: usize,
    /// The payload behind the frames, if it is not sealed; the connection has taken `payload[..first]`.
    payload: Vec<Bytes>,
    first: usize,
    /// The number of bytes in the sealer's output.
    sealed: usize,
    /// The length of the chunk under way.
    chunk: Option<u32>,
    in_flight: u64,
    unsent: Option<UnsentLimit>,
}

/// The driver's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The driver gives the connection the [outgoing](super::LaneProtocol::outgoing) bytes.
    Submit {
        /// The bytes that may wait unsent in the connection from now on, if that has changed.
        unsent_limit: Option<u64>,
    },
    /// The driver waits until the connection has room, and then calls again and says so.
    AwaitRoom,
    /// The driver waits until the stream wakes the lane or a timeout comes.
    Idle,
    /// The driver [closes the sending side](super::LaneProtocol::close_sending): nothing follows.
    Close,
}

impl Sender {
    /// Creates the half of a lane that has joined, with a `sealer` if its frames are sealed. At most `most_unsent` bytes may wait unsent in the
    /// connection, if that can be limited.
    pub(super) fn new(lane: LaneId, sealer: Option<Sealer>, most_unsent: Option<u64>) -> Self {
        Self {
            lane,
            sealer,
            control: Vec::with_capacity(5 * CONTROL_LEN),
            taken: 0,
            payload: Vec::new(),
            first: 0,
            sealed: 0,
            chunk: None,
            in_flight: 0,
            unsent: most_unsent.map(|most| UnsentLimit { most, now: most }),
        }
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Decides the next step when nothing is [outgoing](Self::outgoing). Returns the lane's timeouts too.
    pub(super) fn next<S: Stream>(&mut self, now: Instant, stream: &mut S, has_room: bool) -> (Next, LaneTimeouts) {
        let (lane, control) = (self.lane, &mut self.control);
        control.clear();
        (self.taken, self.sealed) = (0, 0);
        let (transmit, chunk_length, timeouts);
        (transmit, chunk_length, self.in_flight, timeouts) = stream.with(|connection| {
            let may_take = has_room || !connection.needs_room(lane);
            let transmit = may_take.then(|| connection.poll_transmit(now, lane, control));
            let in_flight = connection.in_flight(lane);
            let is_much = in_flight >= NEEDS_NO_ROOM && matches!(transmit, Some(Transmit::Send(Some(_))));
            let chunk_length = is_much.then(|| connection.chunk_length(lane));
            (transmit, chunk_length, in_flight, connection.lane_timeouts(lane))
        });
        let next = match transmit {
            None => Next::AwaitRoom,
            Some(Transmit::Idle) => Next::Idle,
            Some(Transmit::Close) => Next::Close,
            Some(Transmit::Send(chunk)) => {
                self.chunk = chunk.map(|chunk| self.put(chunk));
                debug_assert!(!self.control.is_empty(), "a step that sends has a frame to send");
                if let Some(sealer) = &mut self.sealer {
                    self.sealed = sealer.seal(&self.control, &self.payload).len();
                    self.payload.clear();
                }
                let unsent_limit =
                    self.unsent.as_mut().zip(chunk_length).and_then(|(limit, length)| limit.follow(length));
                Next::Submit { unsent_limit }
            }
        };
        (next, timeouts)
    }

    /// The bytes that the connection still has to take: headers, and payload behind them.
    pub(super) fn outgoing(&self) -> (&[u8], &[Bytes]) {
        let control = match &self.sealer {
            Some(sealer) => &sealer.sealed()[..self.sealed],
            None => &self.control,
        };
        (&control[self.taken..], &self.payload[self.first..])
    }

    /// Notes that the connection has taken `bytes` of the outgoing bytes. Returns a chunk's length when the connection has taken all of it.
    pub(super) fn submitted(&mut self, bytes: usize) -> Option<u32> {
        let of_control = bytes.min(self.outgoing().0.len());
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
        if !self.is_submitted() {
            return None;
        }
        // Release the application's memory now: the lane may wait long for room.
        self.payload.clear();
        self.first = 0;
        self.chunk.take()
    }

    /// Whether nothing is outgoing.
    pub(super) fn is_submitted(&self) -> bool {
        let (control, payload) = self.outgoing();
        control.is_empty() && payload.is_empty()
    }

    /// Puts a chunk behind the other outgoing bytes, and returns its length.
    fn put(&mut self, chunk: Chunk) -> u32 {
        let Chunk { offset, payload, length, fin, content } = chunk;
        if let Some(frame) = Frame::of_content(content) {
            self.control.extend_from_slice(&frame.encode());
        }
        // A sealed chunk has a tag, which is stronger than a checksum.
        let header = match self.sealer {
            Some(_) => DataHeader { offset, length, fin, checksum: 0 },
            None => DataHeader::of(offset, &payload, fin),
        };
        self.control.extend_from_slice(&Frame::Data(header).encode());
        self.payload = payload;
        length
    }
}

/// The bytes that may wait unsent in the connection. No other lane can take them, so they must be few on a slow lane.
#[derive(Debug)]
struct UnsentLimit {
    /// The limit that the connection began with, and the greatest that this end sets.
    most: u64,
    now: u64,
}

impl UnsentLimit {
    /// Sets the limit to two chunks: the connection sends one while the other waits, so that the lane is never idle, and it has room for a whole
    /// chunk as soon as the one before is on its way. A limit somewhat too high costs less than a system call.
    fn follow(&mut self, chunk_length: usize) -> Option<u64> {
        let wanted = (2 * chunk_length as u64).min(self.most);
        let is_large =
            wanted > self.now + self.now / 8 || wanted < self.now / 2 || wanted == self.most && self.now < self.most;
        is_large.then(|| {
            self.now = wanted;
            wanted
        })
    }
}
