//! The control channel of a connection: frames over a stream of bytes that keeps its order.

use super::{
    connection::ConnectionProtocol,
    io::Io,
    wire::{FrameError, FrameReader, FrameWriter},
};
use std::{io, time::Instant};

/// The control channel.
#[derive(Debug, Default)]
pub struct ControlChannel {
    reader: FrameReader,
    writer: FrameWriter,
    /// Bytes that the stream has not taken.
    unsent: Vec<u8>,
    /// Whether the peer has closed its sending side.
    peer_is_shut: bool,
}

/// The control channel of a connection is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The stream of bytes failed.
    #[error("the control channel failed: {0}")]
    Stream(io::ErrorKind),
    /// The peer sent bytes that are no frame.
    #[error("the peer broke the protocol")]
    Frame(#[from] FrameError),
}

impl ControlChannel {
    /// A channel whose frames these read and write.
    pub fn new(reader: FrameReader, writer: FrameWriter) -> Self {
        Self { reader, writer, ..Self::default() }
    }

    /// Reads frames. Returns whether more may wait.
    pub(super) fn read(
        &mut self,
        now: Instant,
        protocol: &mut ConnectionProtocol,
        io: &mut impl Io,
    ) -> Result<bool, Broken> {
        let mut bytes = [0; READ_BYTES];
        for _ in 0..READS {
            if self.peer_is_shut {
                return Ok(false);
            }
            match io.read(&mut bytes) {
                Ok(0) => self.handle_close(protocol),
                Ok(length) => {
                    self.reader.push(&bytes[..length]);
                    while let Some(frame) = self.reader.next_frame()? {
                        protocol.handle_control(now, &frame);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // The peer has closed with frames unread, which matters if messages are missing.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.handle_close(protocol),
                Err(error) => return Err(Broken::Stream(error.kind())),
            }
        }
        Ok(!self.peer_is_shut)
    }

    fn handle_close(&mut self, protocol: &mut ConnectionProtocol) {
        self.peer_is_shut = true;
        // The peer reads nothing more.
        self.unsent.clear();
        protocol.handle_close();
    }

    /// Writes the frames that are due, and closes the sending side behind the last.
    pub(super) fn write(
        &mut self,
        now: Instant,
        protocol: &mut ConnectionProtocol,
        io: &mut impl Io,
    ) -> Result<(), Broken> {
        loop {
            // A list is made when it can leave: a later one has newer news.
            while !self.is_blocked()
                && let Some(frame) = protocol.poll_control(now)
            {
                self.unsent.extend(self.writer.frame(&frame));
            }
            if self.unsent.is_empty() {
                break;
            }
            match io.write(&self.unsent) {
                Ok(length) => drop(self.unsent.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The next reads get the frames that the peer sent before it closed, and then the end.
                Err(error) if is_close(error.kind()) => {
                    self.unsent.clear();
                    return Ok(());
                }
                Err(error) => return Err(Broken::Stream(error.kind())),
            }
        }
        if protocol.poll_close() {
            match io.shut() {
                // The peer has closed both directions already.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
                shut => shut.map_err(|error| Broken::Stream(error.kind()))?,
            }
        }
        Ok(())
    }

    /// Whether further frames wait until the stream takes bytes.
    pub(super) fn is_blocked(&self) -> bool {
        self.unsent.len() >= MAX_UNSENT
    }

    /// Whether there may be something to read.
    pub fn is_open(&self) -> bool {
        !self.peer_is_shut
    }

    /// Whether bytes wait until the stream takes them.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}

/// Whether a write fails with this error because the peer has closed.
fn is_close(error: io::ErrorKind) -> bool {
    matches!(error, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// The bytes that may wait before a further frame is made.
const MAX_UNSENT: usize = 8 << 10;
/// The bytes of one read: a hundred error lists without gaps.
const READ_BYTES: usize = 4096;
/// The reads of one round, for a driver that has not looked for a while.
const READS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{
        connection::{Event, Failure, tests::end},
        round::Round,
        wire::Control,
    };
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpListener, TcpStream},
        time::Duration,
    };

    /// A connection without a path for segments.
    impl Io for TcpStream {
        fn receive(&mut self, _: Instant, _: &mut ConnectionProtocol) -> bool {
            false
        }

        fn transmit(&mut self, _: Instant, _: &mut ConnectionProtocol) -> bool {
            false
        }

        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            Read::read(self, bytes)
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Write::write(self, bytes)
        }

        fn shut(&mut self) -> io::Result<()> {
            self.shutdown(Shutdown::Write)
        }

        fn peer_host_lives(&mut self, _: Duration) -> bool {
            true
        }
    }

    #[test]
    fn reset_behind_the_last_frame_is_a_close() {
        assert_eq!(event_of_reset(Some(Control::Finish { messages: 0 })), Some(Event::Closed));
    }

    #[test]
    fn reset_with_messages_missing_is_a_cut() {
        for last in [None, Some(Control::Finish { messages: 1 })] {
            assert_eq!(event_of_reset(last), Some(Event::Failed(Failure::Cut)));
        }
    }

    /// The last event of an end whose peer sends that frame and goes, with the frames of this end
    /// unread.
    fn event_of_reset(last: Option<Control>) -> Option<Event> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut round = Round::default();
        let now = Instant::now();
        let mut protocol = end(now);
        stream.set_nonblocking(true).unwrap();
        round.run(now, &mut protocol, &mut stream).unwrap();
        Write::write_all(&mut peer, &last.map(|frame| frame.encode()).unwrap_or_default()).unwrap();
        // The peer waits until the frame of this end has come, which it leaves unread.
        assert!(peer.peek(&mut [0]).unwrap() > 0);
        drop(peer);
        protocol.finish();
        while !protocol.is_over() {
            round.run(now, &mut protocol, &mut stream).unwrap();
        }
        std::iter::from_fn(|| protocol.poll_event()).last()
    }
}
