//! Waits for a descriptor in a runtime.
//!
//! # Safety
//! tokio requires that a watched descriptor stays open and keeps its file description. The one
//! block argues that it does.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// A copy of a descriptor, which tells when there is something to read.
#[derive(Debug)]
pub(crate) struct Watched(OwnedFd);

impl Watched {
    /// Registers a copy of the descriptor with the calling thread's runtime.
    pub(crate) fn attach(descriptor: BorrowedFd<'_>) -> io::Result<AsyncFd<Self>> {
        let copy = Self(descriptor.try_clone_to_owned()?);
        // SAFETY: "The file descriptor returned by inner.as_raw_fd() must be a valid, open file descriptor,
        // and it must remain open and refer to the same underlying file description for the entire
        // lifetime of the AsyncFd": the OwnedFd closes it when it is dropped, which the AsyncFd that
        // owns it outlasts; the field is private to this file, in which no code replaces it or
        // borrows it mutably.
        let registered = unsafe { AsyncFd::register_with_interest(copy, Interest::READABLE) };
        registered.map_err(|error| error.into_parts().1)
    }
}

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
