//! Waiting for room to send.

use crate::sys::epoll::Watched;
use std::{
    io,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    task::{Context, Poll, ready},
};
use tokio::io::unix::AsyncFd;

/// An epoll instance that watches the socket for room while a caller waits for it. The runtime
/// watches the instance.
///
/// The runtime cannot watch the socket's writing side itself. The kernel reports room after every
/// sent datagram, which would wake the thread each time (`sock_wfree` in net/core/sock.c). And a
/// report of ICMP is an `EPOLLERR`, mio takes `EPOLLERR` with `EPOLLOUT` for "closed for writing"
/// (`is_write_closed` in its src/sys/unix/selector/epoll.rs), tokio never forgets that, and a task
/// without room would spin.
#[derive(Debug)]
pub(super) struct Room {
    watched: AsyncFd<Watched>,
    is_awaited: AtomicBool,
}

impl Room {
    /// Watches the socket on the calling thread's runtime.
    pub(super) fn of(socket: impl AsFd) -> io::Result<Self> {
        Ok(Self { watched: Watched::unarmed(socket)?.attach()?, is_awaited: AtomicBool::new(false) })
    }

    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.is_awaited.load(Relaxed) {
            let mut guard = ready!(self.watched.poll_read_ready(context))?;
            // A report after this line belongs to the next edge.
            guard.clear_ready();
            // The edge may come from a report that was cleared.
            if guard.get_inner().take() {
                self.is_awaited.store(false, Relaxed);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Calls `send`. If it fails for lack of room, arms the kernel's report of room, which also
    /// covers room that has come since.
    pub(super) fn try_send(&self, socket: impl AsFd, send: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let outcome = send();
        if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.watched.get_ref().arm(socket)?;
            self.is_awaited.store(true, Relaxed);
        }
        outcome
    }
}
