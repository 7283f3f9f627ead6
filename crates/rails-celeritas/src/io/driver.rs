//! The task that drives a connection: moves bytes between its sockets, its protocol and its callers' memory, and keeps
//! the time. It decides nothing.

use super::{
    byte_stream::Waiting,
    error::ConnectionError,
    incoming::Incoming,
    outgoing::{Delivery, Outgoing},
    scatter::{Scatter, ScatterStats},
};
use crate::proto::{
    connection::{ConnectionProtocol, Event, Failure},
    receiver::Arrival,
    sender::Segment,
    wire::{FrameReader, HEADER_LEN},
};
use rails_net::{Timer, UdpSocket};
use std::{
    future::Future,
    io::{self, IoSlice},
    net::SocketAddr,
    num::NonZeroU16,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use tokio::{net::TcpStream, sync::Notify};

/// A connection, as its driver and its callers share it.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Wakes the callers that wait for a message or for the end.
    pub(super) changed: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) protocol: ConnectionProtocol,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// The last caller is gone.
    pub(super) is_dropped: bool,
    /// The end of the connection; an error if messages are missing.
    pub(super) end: Option<Result<(), ConnectionError>>,
    pub(super) scatter: ScatterStats,
    pub(super) waiting: Waiting,
    waker: Option<Waker>,
}

/// The future of a connection's driver. Dropping it ends the connection.
pub(super) struct Driver {
    shared: Arc<Shared>,
    segments: UdpSocket,
    control: TcpStream,
    timer: Timer,
    scatter: Scatter,
    reader: FrameReader,
    peer: SocketAddr,
    /// Bytes for the control channel.
    frames: Vec<u8>,
    /// The segments that are to leave, the first of which may have left.
    burst: Vec<Segment>,
    left: usize,
    /// Whether the peer has closed its sending side of the control channel.
    peer_is_shut: bool,
}

impl Shared {
    pub(super) fn new(protocol: ConnectionProtocol, incoming: Incoming) -> Self {
        let state = State {
            protocol,
            incoming,
            outgoing: Outgoing::default(),
            is_dropped: false,
            end: None,
            scatter: ScatterStats::default(),
            waiting: Waiting::default(),
            waker: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the callers of news, after a change by the driver.
    fn announce(&self, mut state: MutexGuard<'_, State>) {
        let woken = state.take_woken();
        // They may call back at once.
        drop(state);
        woken.into_iter().flatten().for_each(Waker::wake);
        self.changed.notify_waiters();
    }

    /// Changes the state, and has the driver look at it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        result
    }
}

impl State {
    fn finish(&mut self, end: Result<(), ConnectionError>) {
        if self.end.is_none() {
            self.end = Some(end);
            self.outgoing.clear();
        }
    }

    /// Tells of the protocol's news.
    fn tell(&mut self, event: Event, peer: SocketAddr) {
        match event {
            Event::Delivered { message } => self.outgoing.settle(message, Delivery::Arrived),
            Event::Expired { message } => self.outgoing.settle(message, Delivery::Expired),
            Event::Refused { message } => self.outgoing.settle(message, Delivery::Refused),
            Event::Arrival(Arrival::Whole { message }) => self.incoming.whole(message),
            Event::Arrival(Arrival::GivenUp { message }) => self.incoming.given_up(message),
            Event::Finished { messages } => self.incoming.finished(messages),
            Event::Closed => self.finish(Ok(())),
            Event::Failed(Failure::Silent(_)) if self.protocol.stats().0.acknowledged_bytes == 0 => {
                self.finish(Err(ConnectionError::Blocked { remote: peer }));
            }
            Event::Failed(failure) => self.finish(Err(failure.into())),
            // A message that begins was told when its segment came.
            _ => {}
        }
    }
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        segments: UdpSocket,
        control: TcpStream,
        timer: Timer,
        scatter: Scatter,
        peer: SocketAddr,
    ) -> Self {
        Self {
            shared,
            segments,
            control,
            timer,
            scatter,
            reader: FrameReader::default(),
            peer,
            frames: Vec::new(),
            burst: Vec::new(),
            left: 0,
            peer_is_shut: false,
        }
    }

    /// One round: all that can be done now. Returns whether another round may find more.
    fn work(&mut self, state: &mut State) -> Result<bool, ConnectionError> {
        let now = Instant::now();
        let mut is_worthwhile = false;
        for _ in 0..TRAINS {
            match self.scatter.receive(&self.segments, now, &mut state.protocol, &mut state.incoming) {
                Ok(()) => is_worthwhile = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Reports of ICMP about segments sent before: those are lost.
                Err(_) => break,
            }
            for event in std::mem::take(&mut self.scatter.events) {
                state.tell(event, self.peer);
            }
        }
        is_worthwhile |= self.read_control(state, now)?;
        let (limit, messages) = state.incoming.limits();
        state.protocol.raise_limits(now, limit, messages);
        state.protocol.handle_timeout(now);
        is_worthwhile |= self.transmit(state, now);
        self.write_control(state, now)?;
        while let Some(event) = state.protocol.poll_event() {
            state.tell(event, self.peer);
        }
        state.scatter = self.scatter.stats;
        Ok(is_worthwhile)
    }

    fn read_control(&mut self, state: &mut State, now: Instant) -> Result<bool, ConnectionError> {
        let mut bytes = [0; 4096];
        if self.peer_is_shut {
            return Ok(false);
        }
        match self.control.try_read(&mut bytes) {
            Ok(0) => {
                self.peer_is_shut = true;
                // It reads nothing more.
                self.frames.clear();
                state.protocol.handle_close();
                Ok(true)
            }
            Ok(length) => {
                self.reader.push(&bytes[..length]);
                while let Some(frame) = self.reader.next_frame()? {
                    state.protocol.handle_control(now, &frame);
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(ConnectionError::Control(error.kind())),
        }
    }

    fn write_control(&mut self, state: &mut State, now: Instant) -> Result<(), ConnectionError> {
        loop {
            // A list is made when it can leave: a later one has newer news.
            while self.frames.len() < FRAMES
                && let Some(frame) = state.protocol.poll_control(now)
            {
                self.frames.extend(frame.encode());
            }
            if self.frames.is_empty() {
                break;
            }
            match self.control.try_write(&self.frames) {
                Ok(length) => drop(self.frames.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(ConnectionError::Control(error.kind())),
            }
        }
        if state.protocol.poll_close() {
            let shut = socket2::SockRef::from(&self.control).shutdown(std::net::Shutdown::Write);
            shut.map_err(|error| ConnectionError::Control(error.kind()))?;
        }
        Ok(())
    }

    /// Sends what may leave now. Returns whether more may follow at once.
    fn transmit(&mut self, state: &mut State, now: Instant) -> bool {
        for _ in 0..BURSTS {
            if self.left == self.burst.len() {
                self.burst.clear();
                self.left = 0;
                let most = usize::from(self.segments.most_segments());
                state.protocol.poll_transmit(now, most, &mut self.burst);
                if self.burst.is_empty() {
                    return false;
                }
            }
            if !self.send(state) {
                return false;
            }
        }
        true
    }

    /// Sends the rest of the burst by one call. Returns whether the socket took it.
    fn send(&mut self, state: &State) -> bool {
        let mut segments = &self.burst[self.left..];
        let whole = HEADER_LEN + segments[0].payload_len as usize;
        segments = &segments[..segments.len().min(UdpSocket::MOST_BURST_BYTES / whole)];
        let headers: Vec<[u8; HEADER_LEN]> = segments.iter().map(|segment| segment.header.encode()).collect();
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(3 * segments.len());
        let mut count = 0;
        for (segment, header) in segments.iter().zip(&headers) {
            let before = slices.len();
            slices.push(IoSlice::new(header));
            if !state.outgoing.slices(segment, &mut slices) || slices.len() > UdpSocket::MOST_SLICES {
                slices.truncate(before);
                break;
            }
            count += 1;
        }
        if count == 0 {
            // Its message was given up since, or its bytes are in more blocks than the kernel takes.
            return self.send_copied(state);
        }
        let size = NonZeroU16::new(whole as u16).filter(|_| count > 1);
        match self.segments.try_send(&slices, size, None, None) {
            Ok(bytes) => self.left += bytes.div_ceil(whole).max(1),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            // They count as lost. A path that takes none at all is noticed by its silence.
            Err(_) => self.left += count,
        }
        true
    }

    /// Sends one segment from a copy of its payload.
    fn send_copied(&mut self, state: &State) -> bool {
        let segment = self.burst[self.left];
        let mut slices = Vec::new();
        if state.outgoing.slices(&segment, &mut slices) {
            let mut datagram = segment.header.encode().to_vec();
            slices.iter().for_each(|slice| datagram.extend_from_slice(slice));
            match self.segments.try_send(&[IoSlice::new(&datagram)], None, None, None) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Ok(_) | Err(_) => {}
            }
        }
        self.left += 1;
        true
    }

    /// Has the task woken when there is more to do. Returns whether there is already.
    fn wait(&mut self, state: &State, context: &mut Context<'_>) -> io::Result<bool> {
        let mut is_ready = false;
        let mut look = |poll: Poll<io::Result<()>>| match poll {
            Poll::Ready(result) => result.map(|()| is_ready = true),
            Poll::Pending => Ok(()),
        };
        look(self.segments.poll_receive_ready(context))?;
        if !self.peer_is_shut {
            look(self.control.poll_read_ready(context))?;
        }
        if !self.frames.is_empty() {
            look(self.control.poll_write_ready(context))?;
        }
        let is_blocked = self.left < self.burst.len();
        if is_blocked {
            look(self.segments.poll_send_ready(context))?;
        }
        let now = Instant::now();
        let mut due = state.protocol.poll_timeout();
        if is_blocked {
            // The protocol would have more to send, if the socket took it.
            due = due.map(|due| due.max(now + Duration::from_millis(1)));
        }
        self.timer.set(now, due)?;
        look(self.timer.poll(context))?;
        Ok(is_ready)
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        let shared = Arc::clone(&driver.shared);
        let mut state = shared.lock();
        for _ in 0..ROUNDS {
            let worked = driver.work(&mut state);
            let is_worthwhile = match worked {
                Ok(is_worthwhile) => is_worthwhile,
                Err(error) => {
                    state.finish(Err(error));
                    false
                }
            };
            if state.end.is_some() || state.is_dropped {
                shared.announce(state);
                return Poll::Ready(());
            }
            if is_worthwhile {
                continue;
            }
            state.waker = Some(context.waker().clone());
            match driver.wait(&state, context) {
                Ok(true) => {}
                Ok(false) => {
                    shared.announce(state);
                    return Poll::Pending;
                }
                Err(error) => state.finish(Err(ConnectionError::Control(error.kind()))),
            }
        }
        shared.announce(state);
        // Other tasks of the runtime come in between.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.finish(Err(ConnectionError::Stopped));
        self.shared.announce(state);
    }
}

/// The most trains that are received before something else is done.
const TRAINS: usize = 16;
/// The most bursts that are sent before something else is done.
const BURSTS: usize = 16;
/// The most rounds before other tasks have their turn.
const ROUNDS: usize = 8;
/// The bytes that may wait for the control channel before a further list is made.
const FRAMES: usize = 8 << 10;
