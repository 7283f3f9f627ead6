//! A connection of a program or of a service, on this host.

use bytes::BufMut;
use nix::sys::socket::{AddressFamily, SockType, getsockopt, sockopt};
use socket2::SockRef;
use std::{
    io,
    net::Shutdown,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};
use tokio::{
    io::{Interest, Ready},
    net::{TcpStream, UnixStream},
};

/// A stream socket that is connected.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// The socket that another process handed over.
    ///
    /// # Errors
    /// The descriptor is no connected stream socket of TCP or of the Unix domain.
    pub(crate) fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let socket = socket2::Socket::from(descriptor);
        let unfit = || io::Error::new(io::ErrorKind::InvalidInput, "the descriptor is no connected stream socket");
        if getsockopt(&socket, sockopt::SockType).ok() != Some(SockType::Stream) {
            return Err(unfit());
        }
        let family = socket.local_addr()?.domain();
        // A listener, for example, has no peer.
        socket.peer_addr().map_err(|_| unfit())?;
        socket.set_nonblocking(true)?;
        match i32::from(family) {
            family if family == AddressFamily::Unix as i32 => UnixStream::from_std(socket.into()).map(Self::Unix),
            family if family == AddressFamily::Inet as i32 || family == AddressFamily::Inet6 as i32 => {
                let socket = TcpStream::from_std(socket.into())?;
                Ok(Self::of_tcp(socket))
            }
            _ => Err(unfit()),
        }
    }

    /// A TCP connection. Bytes leave at once: their sender has decided already when.
    pub(crate) fn of_tcp(stream: TcpStream) -> Self {
        // An improvement only: a socket that refuses it carries bytes too.
        let _ = stream.set_nodelay(true);
        Self::Tcp(stream)
    }

    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
        }
    }

    /// Reads at most `max` bytes that are there.
    ///
    /// Must be called by the thread of the socket's runtime. A read that is shorter than asked for
    /// has emptied the socket, so it is not asked again before the kernel tells of more: of no
    /// such word this thread can have heard since it read.
    pub(crate) fn try_read(&self, buffer: &mut impl BufMut, max: usize) -> io::Result<usize> {
        let empty = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let read = match self {
            Self::Tcp(stream) => stream.try_read_buf(&mut buffer.limit(max)),
            Self::Unix(stream) => stream.try_read_buf(&mut buffer.limit(max)),
        }?;
        if (1..max).contains(&read) {
            // An end that has come already stays known.
            let _ = match self {
                Self::Tcp(stream) => stream.try_io(Interest::READABLE, empty),
                Self::Unix(stream) => stream.try_io(Interest::READABLE, empty),
            };
        }
        Ok(read)
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Ends the direction towards the program or the service.
    pub(crate) fn finish(&self) -> io::Result<()> {
        SockRef::from(&self.as_fd()).shutdown(Shutdown::Write)
    }

    /// Undoes [`reset_on_close`]: the kernel ends the connection when the socket is closed.
    pub(crate) fn end_on_close(&self) {
        let _ = SockRef::from(&self.as_fd()).set_linger(None);
    }
}

/// Has the kernel reset a connection when its last descriptor is closed: its other end learns that
/// the connection was not carried to its end. A connection that is gone needs no reset, and a
/// socket of the Unix domain knows none.
pub fn reset_on_close(connection: &impl AsFd) {
    let _ = SockRef::from(&connection.as_fd()).set_linger(Some(Duration::ZERO));
}

impl AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
