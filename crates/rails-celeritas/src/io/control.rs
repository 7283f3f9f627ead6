//! The control channel of a connection: frames over TCP.

use super::{driver::State, error::ConnectionError};
use crate::proto::wire::{FrameReader, FrameWriter};
use std::{
    io,
    net::Shutdown,
    task::{Context, Poll},
    time::Instant,
};
use tokio::net::TcpStream;

/// The control channel.
#[derive(Debug)]
pub(super) struct ControlChannel {
    stream: TcpStream,
    reader: FrameReader,
    writer: FrameWriter,
    /// Bytes that the socket has not taken.
    unsent: Vec<u8>,
    /// Whether the peer has closed its sending side.
    peer_is_shut: bool,
}

impl ControlChannel {
    pub(super) fn new(stream: TcpStream, reader: FrameReader, writer: FrameWriter) -> Self {
        Self { stream, reader, writer, unsent: Vec::new(), peer_is_shut: false }
    }

    /// Reads frames. Returns whether there may be more.
    pub(super) fn read(&mut self, state: &mut State, now: Instant) -> Result<bool, ConnectionError> {
        let mut bytes = [0; 4096];
        if self.peer_is_shut {
            return Ok(false);
        }
        match self.stream.try_read(&mut bytes) {
            Ok(0) => {
                self.handle_close(state);
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
            // The peer has closed with frames unread, which matters if messages are missing.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.handle_close(state);
                Ok(true)
            }
            Err(error) => Err(ConnectionError::Control(error.kind())),
        }
    }

    fn handle_close(&mut self, state: &mut State) {
        self.peer_is_shut = true;
        // The peer reads nothing more.
        self.unsent.clear();
        state.protocol.handle_close();
    }

    /// Writes the frames that are due.
    pub(super) fn write(&mut self, state: &mut State, now: Instant) -> Result<(), ConnectionError> {
        loop {
            // A list is made when it can leave: a later one has newer news.
            while !self.is_blocked()
                && let Some(frame) = state.protocol.poll_control(now)
            {
                self.unsent.extend(self.writer.frame(&frame));
            }
            if self.unsent.is_empty() {
                break;
            }
            match self.stream.try_write(&self.unsent) {
                Ok(length) => drop(self.unsent.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The next reads get the frames that the peer sent before it closed, and then the end.
                Err(error) if is_close(error.kind()) => {
                    self.unsent.clear();
                    return Ok(());
                }
                Err(error) => return Err(ConnectionError::Control(error.kind())),
            }
        }
        if state.protocol.poll_close() {
            match socket2::SockRef::from(&self.stream).shutdown(Shutdown::Write) {
                // The peer has closed both directions already.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
                shut => shut.map_err(|error| ConnectionError::Control(error.kind()))?,
            }
        }
        Ok(())
    }

    /// Whether further frames wait until the socket takes bytes.
    pub(super) fn is_blocked(&self) -> bool {
        self.unsent.len() >= MOST_UNSENT
    }

    /// Waits until there is something to read, or room for the bytes that wait.
    pub(super) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.peer_is_shut
            && let Poll::Ready(result) = self.stream.poll_read_ready(context)
        {
            return Poll::Ready(result);
        }
        if self.unsent.is_empty() { Poll::Pending } else { self.stream.poll_write_ready(context) }
    }
}

/// Whether a write fails with it because the peer has closed.
fn is_close(error: io::ErrorKind) -> bool {
    matches!(error, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// The bytes that may wait before a further frame is made.
const MOST_UNSENT: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        io::driver::Shared,
        proto::{
            connection::{ConnectionProtocol, Event, Failure, Parameters},
            rate::Fixed,
            wire::{Control, Token},
        },
    };
    use rails_topo::Bandwidth;
    use std::{future::poll_fn, io::Write, net::TcpListener, time::Duration};

    #[tokio::test]
    async fn reset_behind_the_last_frame_is_a_close() {
        assert_eq!(event_of_reset(Some(Control::Finish { messages: 0 })).await, Some(Event::Closed));
    }

    #[tokio::test]
    async fn reset_with_messages_missing_is_a_cut() {
        for last in [None, Some(Control::Finish { messages: 1 })] {
            assert_eq!(event_of_reset(last).await, Some(Event::Failed(Failure::Cut)));
        }
    }

    /// The last event of an end whose peer sends that frame and goes, with the frames of this end unread.
    async fn event_of_reset(last: Option<Control>) -> Option<Event> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut channel = ControlChannel::new(stream, FrameReader::default(), FrameWriter::default());
        let now = Instant::now();
        let shared = Shared::new(protocol(now));
        channel.write(&mut shared.lock(), now).unwrap();
        peer.write_all(&last.map(|frame| FrameWriter::default().frame(&frame)).unwrap_or_default()).unwrap();
        drop(peer);
        poll_fn(|context| channel.poll_ready(context)).await.unwrap();
        let mut state = shared.lock();
        state.protocol.finish();
        channel.write(&mut state, now).unwrap();
        while channel.read(&mut state, now).unwrap() {}
        channel.write(&mut state, now).unwrap();
        std::iter::from_fn(|| state.protocol.poll_event()).last()
    }

    fn protocol(now: Instant) -> ConnectionProtocol {
        let parameters = Parameters {
            peer_token: Token(71),
            most_payload: 1432,
            base_payload: 1432,
            floor_payload: None,
            overhead: 28,
            most_unacknowledged: 1 << 20,
            window: 1 << 20,
            most_message: 1 << 20,
            round_trip: Duration::from_millis(1),
            depth: Duration::from_millis(1),
            burst: Duration::from_millis(1),
        };
        ConnectionProtocol::new(now, parameters, Box::new(Fixed(Bandwidth::mbps(100))))
    }
}
