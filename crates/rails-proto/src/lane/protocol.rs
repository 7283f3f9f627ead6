//! The two halves of a lane, its timeouts and its end, as one.

use super::{
    LaneError, Stream, TransportSample,
    closing::Closing,
    progress::Progress,
    receive::{Received, Receiver},
    send::{Next, Sender},
};
use crate::{
    connection::{LaneId, LaneTimeouts},
    seal::Seals,
};
use bytes::Bytes;
use std::{
    io::{self, IoSliceMut},
    ops::DerefMut,
    time::Instant,
};

/// One end of one lane that has joined. `B` is the memory that its driver has for chunks.
///
/// The driver has it [receive](Self::receive) while the connection has something, and [transmit](Self::transmit) until that says
/// [`Next::Idle`]; it calls [`wake`](Self::wake) where [`Wakes::lanes`](crate::connection::Wakes::lanes) names the lane, and
/// [`handle_timeout`](Self::handle_timeout) at the time that [`poll_timeout`](Self::poll_timeout) names after all of these. It is done when there
/// is an [end](Self::end).
#[derive(Debug)]
pub struct LaneProtocol<B> {
    lane: LaneId,
    sender: Sender,
    receiver: Receiver<B>,
    progress: Progress,
    closing: Closing,
    /// Whether the stream is asked what comes next, once nothing is outgoing.
    asks: bool,
    /// As the stream said last; not of what has happened to other lanes since.
    timeouts: LaneTimeouts,
    is_stale: bool,
    end: Option<Result<(), LaneError>>,
}

impl<B: DerefMut<Target = [u8]>> LaneProtocol<B> {
    /// For a lane that has joined; `seals` where its frames are sealed. `most_unsent` is how many bytes may wait in the connection unsent at most, where that can
    /// be limited.
    pub fn new(lane: LaneId, seals: Option<Seals>, most_unsent: Option<u64>) -> Self {
        let (sealer, opener) = seals.map(|seals| (seals.sealer, seals.opener)).unzip();
        Self {
            lane,
            sender: Sender::new(lane, sealer, most_unsent),
            receiver: Receiver::new(lane, opener),
            progress: Progress::new(lane),
            closing: Closing::new(lane),
            asks: true,
            timeouts: LaneTimeouts::default(),
            is_stale: true,
            end: None,
        }
    }

    /// How the lane has ended, once it has: its connection is to be let go, and its stream told. Nothing else does anything then.
    pub fn end(&self) -> Option<&Result<(), LaneError>> {
        self.end.as_ref()
    }

    /// The stream has something for the lane: bytes to send, an earlier timeout, or its end.
    pub fn wake(&mut self) {
        (self.asks, self.is_stale) = (true, true);
    }

    /// Whether the driver waits until the connection has room before it has the lane [transmit](Self::transmit) again: a chunk is bound to this lane when it is
    /// taken, so none is before there is room for it. A lane with next to nothing in flight needs no asking.
    pub fn needs_room(&self) -> bool {
        self.asks && self.is_sending() && self.sender.is_submitted() && self.sender.needs_room()
    }

    /// What the driver does next on the sending side.
    pub fn transmit<S: Stream<Buffer = B>>(&mut self, now: Instant, stream: &mut S) -> Next {
        if !self.is_sending() {
            return Next::Idle;
        }
        if !self.sender.is_submitted() {
            return Next::Submit { unsent_limit: None };
        }
        if !self.asks {
            return Next::Idle;
        }
        let (next, timeouts) = self.sender.next(now, stream);
        self.asks = next != Next::Idle;
        self.note(timeouts);
        next
    }

    /// What the connection is still to take: headers, and payload behind them.
    pub fn outgoing(&self) -> (&[u8], &[Bytes]) {
        self.sender.outgoing()
    }

    /// The connection has taken so many bytes of what is outgoing; gives the length of a chunk that is taken whole by that.
    pub fn submitted(&mut self, bytes: usize) -> Option<u32> {
        self.sender.submitted(bytes)
    }

    /// Nothing more is sent: the driver has closed the sending side, or the connection has failed.
    pub fn close_sending(&mut self, end: Result<(), LaneError>) {
        if self.is_sending() {
            self.end = self.closing.sent(end);
        }
    }

    /// Reads once, and takes in what came. `read` fills buffers from the first on and says how many bytes there were, as readv(2) does without waiting: 0 where the
    /// peer has closed its side, [`WouldBlock`](io::ErrorKind::WouldBlock) where nothing is there. What the connection has beyond a chunk is read ahead in the same
    /// call.
    pub fn receive<S: Stream<Buffer = B>>(
        &mut self,
        now: Instant,
        stream: &mut S,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Received {
        if self.end.is_some() || !self.closing.is_receiving() {
            return Received::End;
        }
        let received = self.receiver.receive(now, stream, read);
        if let Some(timeouts) = self.receiver.take_timeouts() {
            self.note(timeouts);
        }
        match received {
            Ok(Received::End) => self.close_receiving(now, stream, Ok(())),
            Ok(received) => {
                if let Some(error) = self.receiver.take_failure() {
                    self.close_receiving(now, stream, Err(error));
                }
                return received;
            }
            Err(error) => self.close_receiving(now, stream, Err(error)),
        }
        Received::End
    }

    /// Nothing more is received: the peer has closed its side, or the connection has failed.
    pub fn close_receiving<S: Stream>(&mut self, now: Instant, stream: &mut S, end: Result<(), LaneError>) {
        if self.end.is_none() && self.closing.is_receiving() {
            self.end = self.closing.received(now, stream, end);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; it changes with every other call.
    pub fn poll_timeout<S: Stream>(&mut self, stream: &mut S) -> Option<Instant> {
        if self.is_stale {
            let timeouts = stream.with(|connection| connection.lane_timeouts(self.lane));
            self.note(timeouts);
        }
        if self.end.is_some() {
            return None;
        }
        let LaneTimeouts { progress, end, .. } = self.timeouts;
        [self.acknowledge_at(), progress, end, self.closing.poll_timeout()].into_iter().flatten().min()
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named may have come; `sample` asks the transport.
    pub fn handle_timeout<S: Stream>(
        &mut self,
        now: Instant,
        stream: &mut S,
        sample: impl FnOnce() -> TransportSample,
    ) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if let Some(end) = self.closing.handle_timeout(now) {
            self.end = Some(end);
        } else if is_due(self.timeouts.end) {
            self.end = Some(Err(LaneError::Lingering));
        }
        self.asks |= is_due(self.acknowledge_at());
        if is_due(self.timeouts.progress) {
            let timeouts = self.progress.handle_timeout(now, stream, &sample());
            self.note(timeouts);
        }
    }

    fn is_sending(&self) -> bool {
        self.end.is_none() && self.closing.is_sending()
    }

    /// When the lane asks for the sake of an acknowledgement. One that has something outgoing, or waits for room, asks then in any case.
    fn acknowledge_at(&self) -> Option<Instant> {
        self.timeouts.acknowledge.filter(|_| self.is_sending() && !self.asks)
    }

    fn note(&mut self, timeouts: LaneTimeouts) {
        (self.timeouts, self.is_stale) = (timeouts, false);
        if timeouts.replaced && self.end.is_none() {
            self.end = Some(Err(LaneError::Replaced));
        }
    }
}
