//! Waiting for datagrams.

use crate::sys::datagrams::DatagramSocket;
use std::{
    io,
    net::UdpSocket,
    task::{Context, Poll, ready},
};
use tokio::io::{Interest, unix::AsyncFd};

/// The socket, which a runtime may watch for arrivals.
///
/// The writing side is not watched here: the kernel reports room after every sent datagram, and
/// each report would wake the thread.
#[derive(Debug)]
pub(super) struct Arrivals(Option<Watching>);

#[derive(Debug)]
enum Watching {
    Watched(AsyncFd<DatagramSocket>),
    Unwatched(DatagramSocket),
}

impl Arrivals {
    /// The socket, watched by the calling thread's runtime.
    pub(super) fn of(socket: UdpSocket) -> io::Result<Self> {
        let socket = DatagramSocket::new(socket);
        Ok(Self(Some(Watching::Watched(socket.attach().map_err(|(_, error)| error)?))))
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        match self.watching() {
            Watching::Watched(watched) => watched.get_ref().socket(),
            Watching::Unwatched(socket) => socket.socket(),
        }
    }

    /// Whether a runtime watches the socket.
    pub(super) fn are_watched(&self) -> bool {
        matches!(self.watching(), Watching::Watched(_))
    }

    /// Registers the socket with the calling thread's runtime, or deregisters it.
    pub(super) fn watch(&mut self, is_watched: bool) -> io::Result<()> {
        let (watching, outcome) = match (self.0.take().expect(HERE), is_watched) {
            (Watching::Watched(watched), false) => (Watching::Unwatched(watched.into_inner()), Ok(())),
            (Watching::Unwatched(socket), true) => match socket.attach() {
                Ok(watched) => (Watching::Watched(watched), Ok(())),
                Err((socket, error)) => (Watching::Unwatched(socket), Err(error)),
            },
            (same, _) => (same, Ok(())),
        };
        self.0 = Some(watching);
        outcome
    }

    /// Moves to the calling thread's runtime.
    pub(super) fn register_here(mut self) -> io::Result<Self> {
        self.watch(false)?;
        self.watch(true)?;
        Ok(self)
    }

    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.watching() {
            Watching::Watched(watched) => {
                let _ready = ready!(watched.poll_read_ready(context))?;
                Poll::Ready(Ok(()))
            }
            Watching::Unwatched(_) => Poll::Pending,
        }
    }

    /// Calls `receive`, unless the runtime knows that no datagram has come since the last failure.
    pub(super) fn try_receive<T>(&self, receive: impl FnOnce(&UdpSocket) -> io::Result<T>) -> io::Result<T> {
        match self.watching() {
            Watching::Watched(watched) => watched.try_io(Interest::READABLE, |socket| receive(socket.socket())),
            Watching::Unwatched(socket) => receive(socket.socket()),
        }
    }

    fn watching(&self) -> &Watching {
        self.0.as_ref().expect(HERE)
    }
}

/// Only [`Arrivals::watch`] takes the socket out, and puts it back.
const HERE: &str = "the socket is here";
