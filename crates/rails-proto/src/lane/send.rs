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

/// The sending half of a lane: it asks its stream for the next chunk, and puts it into frames, which it seals if the stream is encrypted.
#[derive(Debug)]
pub(super) struct Sender {
    lane: LaneId,
    sealer: Option<Sealer>,
    /// The frames under way, or the sealer's output for them; the connection has taken `control[..taken]`.
    control: Vec<u8>,
    taken: usize,
    /// The payload behind them, if it is not sealed; the connection has taken `payload[..first]`.
    payload: Vec<Bytes>,
    first: usize,
    /// How many bytes the sealer made.
    sealed: usize,
    /// The length of the chunk under way.
    chunk: Option<u32>,
    in_flight: u64,
    unsent: Option<UnsentLimit>,
}

/// The driver's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It has the connection take the [outgoing](super::LaneProtocol::outgoing) bytes.
    Submit {
        /// How many bytes may wait unsent in the connection from now on, if that has changed.
        unsent_limit: Option<u64>,
    },
    /// It waits until the lane is woken or a timeout has come.
    Idle,
    /// It [closes the sending side](super::LaneProtocol::close_sending): nothing follows.
    Close,
}

impl Sender {
    /// The half of a lane that has joined, with a `sealer` if its frames are sealed. `most_unsent` bytes may wait unsent in the connection, if that can be
    /// limited.
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

    /// Whether the connection needs room before the stream is [asked](Self::next) again. With only a few bytes in flight, it has room in any case.
    pub(super) fn needs_room(&self) -> bool {
        self.in_flight >= NEEDS_NO_ROOM
    }

    /// The next step, once nothing is [outgoing](Self::outgoing) any more, and the lane's timeouts after it.
    pub(super) fn next<S: Stream>(&mut self, now: Instant, stream: &mut S) -> (Next, LaneTimeouts) {
        let (lane, control) = (self.lane, &mut self.control);
        control.clear();
        (self.taken, self.sealed) = (0, 0);
        let (transmit, chunk_length, timeouts);
        (transmit, chunk_length, self.in_flight, timeouts) = stream.with(|connection| {
            let transmit = connection.poll_transmit(now, lane, control);
            let in_flight = connection.in_flight(lane);
            let is_much = in_flight >= NEEDS_NO_ROOM && matches!(transmit, Transmit::Send(Some(_)));
            let chunk_length = is_much.then(|| connection.chunk_length(lane));
            (transmit, chunk_length, in_flight, connection.lane_timeouts(lane))
        });
        let next = match transmit {
            Transmit::Idle => Next::Idle,
            Transmit::Close => Next::Close,
            Transmit::Send(chunk) => {
                self.chunk = chunk.map(|chunk| self.put(chunk));
                debug_assert!(!self.control.is_empty(), "there is something in what is to be sent");
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

    /// The connection has taken so many bytes. Gives the length of a chunk that it has now taken whole.
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
        // The application's memory is released now: the lane may wait long for room.
        self.payload.clear();
        self.first = 0;
        self.chunk.take()
    }

    /// Whether nothing is outgoing.
    pub(super) fn is_submitted(&self) -> bool {
        let (control, payload) = self.outgoing();
        control.is_empty() && payload.is_empty()
    }

    /// Puts a chunk behind the other outgoing bytes, and gives its length.
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

/// How many bytes may wait unsent in the connection. They are bound to their lane, so on a slow lane they must be few.
#[derive(Debug)]
struct UnsentLimit {
    /// The limit that the connection began with, which is not exceeded.
    most: u64,
    now: u64,
}

impl UnsentLimit {
    /// Two chunks: one is being sent, and one waits, so that the lane is never idle. Only a large change is worth a system call.
    fn follow(&mut self, chunk_length: usize) -> Option<u64> {
        let wanted = (2 * chunk_length as u64).min(self.most);
        let is_large =
            wanted > self.now + self.now / 2 || wanted < self.now / 2 || wanted == self.most && self.now < self.most;
        is_large.then(|| {
            self.now = wanted;
            wanted
        })
    }
}
