//! Waiting for room to send.

use crate::sys::epoll::Watched;
use std::{
    io,
    os::fd::AsFd,
    task::{Context, Poll, ready},
};
use tokio::io::{Interest, unix::AsyncFd};

/// An epoll instance that watches the socket for room. The runtime watches the instance.
///
/// The runtime cannot watch the socket's writing side itself: a report of ICMP is an `EPOLLERR`, mio takes `EPOLLERR`
/// with `EPOLLOUT` for "closed for writing" (`is_write_closed` in its src/sys/unix/selector/epoll.rs), tokio never
/// forgets that, and a task without room would spin.
#[derive(Debug)]
pub(super) struct Room(AsyncFd<Watched>);

impl Room {
    /// Watches the socket on the calling thread's runtime.
    pub(super) fn of(socket: impl AsFd) -> io::Result<Self> {
        Ok(Self(Watched::new(socket)?.attach()?))
    }

    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ready = ready!(self.0.poll_read_ready(context))?;
        Poll::Ready(Ok(()))
    }

    /// Calls `send`, which takes nothing if there is no room; then the runtime waits for the kernel's next event.
    pub(super) fn try_send(&self, mut send: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, |watched| match send() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Room that comes between the failure and this line is an event too. It is forgotten here, so the
                // second try finds it.
                watched.clear();
                send()
            }
            outcome => outcome,
        })
    }
}
