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
                self.peer_is_shut = true;
                // It reads nothing more.
                self.unsent.clear();
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

    /// Writes the frames that are due.
    pub(super) fn write(&mut self, state: &mut State, now: Instant) -> Result<(), ConnectionError> {
        loop {
            // A list is made when it can leave: a later one has newer news.
            while self.unsent.len() < MOST_UNSENT
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
                Err(error) => return Err(ConnectionError::Control(error.kind())),
            }
        }
        if state.protocol.poll_close() {
            let shut = socket2::SockRef::from(&self.stream).shutdown(Shutdown::Write);
            shut.map_err(|error| ConnectionError::Control(error.kind()))?;
        }
        Ok(())
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

/// The bytes that may wait before a further frame is made.
const MOST_UNSENT: usize = 8 << 10;
