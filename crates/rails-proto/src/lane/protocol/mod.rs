//! A whole lane: its two halves, its timeouts and its end.

use super::{
    LaneError, StreamAccess, TransportSample,
    closing::Closing,
    outgoing::Outgoing,
    progress::Progress,
    receive::{Received, Receiver},
    send::{Asked, Next, Sender},
};
use crate::{
    seal::Seals,
    session::{LaneId, LaneTimeouts, Session},
};
use bytes::Bytes;
use std::{
    io::{self, IoSliceMut},
    ops::DerefMut,
    time::Instant,
};

/// One end of one lane that has joined. `B` is the driver's memory for chunks.
///
/// The driver calls [`receive`](Self::receive) while the connection has bytes, and
/// [`transmit`](Self::transmit) until that gives [`Next::Idle`]. It calls [`wake`](Self::wake) when
/// [`Wakes::lanes`](crate::session::Wakes::lanes) names the lane, and
/// [`handle_timeout`](Self::handle_timeout) at the time that [`poll_timeout`](Self::poll_timeout)
/// names after each of these. The lane is done when it has an [end](Self::end).
#[derive(Debug)]
pub struct LaneProtocol<B> {
    lane: LaneId,
    sender: Sender,
    /// The bytes that leave next; `None` while they are lent.
    outgoing: Option<Outgoing>,
    receiver: Receiver<B>,
    progress: Progress,
    closing: Closing,
    /// Whether the lane asks the stream for the next step as soon as nothing is outgoing.
    asks: bool,
    /// The lane's timeouts at its last call to the stream. They do not reflect later events of
    /// other lanes.
    timeouts: LaneTimeouts,
    is_stale: bool,
    end: Option<Result<(), LaneError>>,
}

impl<B: DerefMut<Target = [u8]>> LaneProtocol<B> {
    /// Creates a lane that has joined, with `seals` if its frames are sealed. At most `max_unsent`
    /// bytes may wait unsent in the connection, if that can be limited.
    pub fn new(lane: LaneId, seals: Option<Seals>, max_unsent: Option<u64>) -> Self {
        let (sealer, opener) = seals.map(|seals| (seals.sealer, seals.opener)).unzip();
        Self {
            lane,
            sender: Sender::new(lane, max_unsent),
            outgoing: Some(Outgoing::new(sealer)),
            receiver: Receiver::new(lane, opener),
            progress: Progress::new(lane),
            closing: Closing::new(lane),
            asks: true,
            timeouts: LaneTimeouts::default(),
            is_stale: true,
            end: None,
        }
    }

    /// The lane's end, as soon as the lane has ended. The driver then drops the connection and
    /// tells the stream. All later calls do nothing.
    pub fn end(&self) -> Option<&Result<(), LaneError>> {
        self.end.as_ref()
    }

    /// Notes that the stream has bytes for the lane, an earlier timeout, or its end.
    pub fn wake(&mut self) {
        (self.asks, self.is_stale) = (true, true);
    }

    /// The driver's next step on the sending side. A lane that takes a chunk keeps it, so it takes
    /// none before the driver has found out that the connection has room for it. A lane with
    /// few bytes in flight always has room.
    pub fn transmit<S: StreamAccess<Buffer = B>>(&mut self, now: Instant, stream: &mut S, has_room: bool) -> Next {
        self.transmit_with(now, has_room, |act| stream.with(act))
    }

    /// As [`transmit`](Self::transmit), for a driver that has the stream under its lock.
    pub fn transmit_locked(&mut self, now: Instant, session: &mut Session, has_room: bool) -> Next {
        self.transmit_with(now, has_room, |act| act(session))
    }

    fn transmit_with(
        &mut self,
        now: Instant,
        has_room: bool,
        with: impl FnOnce(&mut dyn FnMut(&mut Session) -> Asked) -> Asked,
    ) -> Next {
        if !self.is_sending() {
            return Next::Idle;
        }
        let Some(outgoing) = &mut self.outgoing else { return Next::Idle };
        if !outgoing.is_submitted() {
            return Next::Submit { unsent_limit: None };
        }
        if !self.asks {
            return Next::Idle;
        }
        let (sender, control) = (&mut self.sender, outgoing.frames());
        let asked = with(&mut |session| sender.ask(now, session, control, has_room));
        self.asks = asked.asks;
        let timeouts = asked.timeouts;
        let next = self.sender.take(asked, outgoing);
        self.note(timeouts);
        next
    }

    /// Whether the lane has nothing to send, as far as it knows.
    pub fn is_at_rest(&self) -> bool {
        !self.asks && self.is_submitted()
    }

    /// Whether the connection has taken everything that was outgoing.
    pub fn is_submitted(&self) -> bool {
        self.outgoing.as_ref().is_some_and(Outgoing::is_submitted)
    }

    /// The bytes that the connection still has to take: headers, and payload behind them. They are
    /// prepared first, in time in proportion to the chunk.
    pub fn outgoing(&mut self) -> (&[u8], &[Bytes]) {
        self.outgoing.as_mut().map_or((&[], &[]), Outgoing::bytes)
    }

    /// Notes that the connection has taken `bytes` of the outgoing bytes. Returns a chunk's length
    /// when the connection has taken all of it.
    pub fn submitted(&mut self, bytes: usize) -> Option<u32> {
        let outgoing = self.outgoing.as_mut()?;
        outgoing.submitted(bytes);
        outgoing.take_chunk()
    }

    /// The length of the chunk that leaves next, if it is still to be prepared; 0 if there is none.
    pub fn unprepared_chunk(&self) -> u32 {
        self.outgoing.as_ref().map_or(0, Outgoing::unprepared)
    }

    /// Lends the outgoing bytes, so that another thread prepares and submits them. Until the driver
    /// [gives them back](Self::give_back), the lane sends nothing else.
    ///
    /// # Panics
    /// If the bytes are lent.
    pub fn lend(&mut self) -> Outgoing {
        self.outgoing.take().expect("the outgoing bytes are here")
    }

    /// Takes the outgoing bytes back. Returns a chunk's length when the connection has taken all of
    /// it; if not, the driver submits the rest.
    pub fn give_back(&mut self, mut outgoing: Outgoing) -> Option<u32> {
        let chunk = outgoing.take_chunk();
        self.outgoing = Some(outgoing);
        chunk
    }

    /// Ends sending: the driver has closed the sending side, or the connection has failed.
    pub fn close_sending(&mut self, end: Result<(), LaneError>) {
        if self.is_sending() {
            self.end = self.closing.sent(end);
        }
    }

    /// Reads once, and takes the bytes in. `read` fills buffers from the first on and returns the
    /// number of bytes, as readv(2) does without waiting: 0 if the peer has closed its side,
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there are none. The same call reads ahead the
    /// bytes behind a chunk.
    pub fn receive<S: StreamAccess<Buffer = B>>(
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

    /// The bytes that the lane had sent and the peer had not acknowledged when the lane last asked
    /// the stream.
    pub fn in_flight(&self) -> u64 {
        self.sender.in_flight()
    }

    /// The length of the chunk of which the rest has still to arrive.
    pub fn chunk_under_way(&self) -> Option<u32> {
        self.receiver.chunk_under_way()
    }

    /// The least number of bytes for which the connection is to wake the driver from now on, if
    /// that has changed; one byte at first. The driver asks before it waits for bytes. A wake
    /// may come earlier.
    pub fn take_low_water(&mut self) -> Option<usize> {
        self.receiver.take_low_water()
    }

    /// The length of the longest message of which parts have arrived since the last call; 0 if none
    /// have.
    pub fn take_longest_message(&mut self) -> u32 {
        self.receiver.take_longest_message()
    }

    /// Ends receiving: the peer has closed its side, or the connection has failed.
    pub fn close_receiving<S: StreamAccess>(&mut self, now: Instant, stream: &mut S, end: Result<(), LaneError>) {
        if self.end.is_none() && self.closing.is_receiving() {
            self.end = self.closing.received(now, stream, end);
        }
    }

    /// When the driver calls [`handle_timeout`](Self::handle_timeout), at most
    /// [`TIMER_SLACK`](crate::parameters::TIMER_SLACK) later. Every other call may change it.
    pub fn poll_timeout<S: StreamAccess>(&mut self, stream: &mut S) -> Option<Instant> {
        if self.is_stale {
            let timeouts = stream.with(|session| session.lane_timeouts(self.lane));
            self.note(timeouts);
        }
        if self.end.is_some() {
            return None;
        }
        let LaneTimeouts { progress, linger, .. } = self.timeouts;
        [self.acknowledge_at(), progress, linger, self.closing.poll_timeout()].into_iter().flatten().min()
    }

    /// Drops timeouts that are not needed any more. The driver calls this when nothing has come or
    /// gone for a while.
    pub fn rest<S: StreamAccess>(&mut self, stream: &mut S) {
        let timeouts = stream.with(|session| {
            session.rest(self.lane);
            session.lane_timeouts(self.lane)
        });
        self.note(timeouts);
    }

    /// Handles the timeouts that are due at `now`; `sample` asks the transport for its figures.
    pub fn handle_timeout<S: StreamAccess>(
        &mut self,
        now: Instant,
        stream: &mut S,
        sample: impl FnOnce() -> TransportSample,
    ) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if let Some(end) = self.closing.handle_timeout(now) {
            self.end = Some(end);
        } else if is_due(self.timeouts.linger) {
            let timeouts = stream.with(|session| {
                session.handle_timeout(now);
                session.lane_timeouts(self.lane)
            });
            self.note(timeouts);
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

    /// When the lane asks the stream because an acknowledgement is due. A lane that has outgoing
    /// bytes, or waits for room, asks later in any case.
    fn acknowledge_at(&self) -> Option<Instant> {
        self.timeouts.acknowledge.filter(|_| self.is_sending() && !self.asks)
    }

    fn note(&mut self, timeouts: LaneTimeouts) {
        (self.timeouts, self.is_stale) = (timeouts, false);
        if self.end.is_none() && (timeouts.replaced || timeouts.lingered) {
            self.end = Some(Err(if timeouts.replaced { LaneError::Replaced } else { LaneError::Lingering }));
        }
    }
}

#[cfg(test)]
mod tests;
