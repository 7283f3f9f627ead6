//! Waiting for room on a socket whose error queue is in use.

use crate::sys::epoll::Watched;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    io,
    os::fd::AsFd,
    task::{Context, Poll, ready},
};
use tokio::io::unix::AsyncFd;

/// An epoll instance that watches the socket. The runtime watches the instance.
///
/// The runtime cannot watch the socket's writing side itself: a notice in the error queue is an
/// `EPOLLERR`, mio takes `EPOLLERR` with `EPOLLOUT` for "closed for writing" (`is_write_closed` in
/// its src/sys/unix/selector/epoll.rs), tokio never forgets that, and a lane without room would
/// spin. The runtime only sees that this instance is readable.
#[derive(Debug)]
pub(super) struct Watch(AsyncFd<Watched>);

impl Watch {
    /// Registers the instance with the calling runtime.
    pub(super) fn attach(watched: Watched) -> io::Result<Self> {
        Ok(Self(watched.attach()?))
    }

    /// Waits until the socket has room or notices since the last call that was ready.
    pub(super) fn poll_changed(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ready = ready!(self.0.poll_read_ready(context))?;
        self.0.get_ref().take();
        ready.clear_ready();
        Poll::Ready(Ok(()))
    }
}

/// The result of `poll(2)` for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writable {
    /// The socket accepts bytes, or has ended, which the next write reports.
    Yes,
    /// The socket takes no bytes, and has notices or an error.
    Error,
    No,
}

pub(super) fn ask(socket: impl AsFd) -> io::Result<Writable> {
    let mut sockets = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    loop {
        match poll(&mut sockets, PollTimeout::ZERO) {
            Ok(0) => return Ok(Writable::No),
            Ok(_) => break,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let found = sockets[0].revents().unwrap_or(PollFlags::POLLERR);
    Ok(if found == PollFlags::POLLERR { Writable::Error } else { Writable::Yes })
}
