//! An epoll instance that a runtime watches.
//!
//! # Safety
//! tokio requires that a watched descriptor stays open and keeps its file description. The one
//! block argues that it does.
#![allow(unsafe_code)]

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// An epoll instance that watches the writing side of one socket.
#[derive(Debug)]
pub(crate) struct Watched(Epoll);

impl Watched {
    /// The kernel reports each change.
    pub(crate) fn by_edges(socket: impl AsFd) -> io::Result<Self> {
        Self::new(socket, EpollFlags::EPOLLOUT | EpollFlags::EPOLLET)
    }

    /// The kernel reports room when it is [armed](Self::arm).
    pub(crate) fn unarmed(socket: impl AsFd) -> io::Result<Self> {
        Self::new(socket, EpollFlags::EPOLLONESHOT)
    }

    fn new(socket: impl AsFd, events: EpollFlags) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(socket, EpollEvent::new(events, 0))?;
        Ok(Self(epoll))
    }

    /// Requests one report of room on the socket; it comes at once if there is room. An earlier
    /// report is forgotten.
    pub(crate) fn arm(&self, socket: impl AsFd) -> io::Result<()> {
        self.take();
        let mut once = EpollEvent::new(EpollFlags::EPOLLOUT | EpollFlags::EPOLLONESHOT, 0);
        Ok(self.0.modify(socket, &mut once)?)
    }

    /// Registers the instance with the calling runtime, where it is readable after an event.
    pub(crate) fn attach(self) -> io::Result<AsyncFd<Self>> {
        // SAFETY: "The file descriptor returned by inner.as_raw_fd() must be a valid, open file descriptor,
        // and it must remain open and refer to the same underlying file description for the entire
        // lifetime of the AsyncFd": the Epoll owns its descriptor and closes it when it is dropped,
        // which the AsyncFd that owns it outlasts; the field is private to this file, in which no
        // code replaces it or borrows it mutably.
        let registered = unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) };
        registered.map_err(|error| error.into_parts().1)
    }

    /// Consumes the reports so far, so that later ones are an edge again. Returns whether there was
    /// one.
    pub(crate) fn take(&self) -> bool {
        self.0.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO).is_ok_and(|reports| reports > 0)
    }
}

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}
