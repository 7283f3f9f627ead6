//! A UDP socket that a runtime watches for arrivals.
//!
//! # Safety
//! tokio requires that a watched descriptor stays open and keeps its file description. The one
//! block argues that it does.
#![allow(unsafe_code)]

use std::{
    io,
    net::UdpSocket,
    os::fd::{AsRawFd, RawFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// A UDP socket, which does not block.
#[derive(Debug)]
pub(crate) struct DatagramSocket(UdpSocket);

impl DatagramSocket {
    pub(crate) fn new(socket: UdpSocket) -> Self {
        Self(socket)
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.0
    }

    /// Registers the socket with the calling thread's runtime, for arrivals. An error hands it
    /// back.
    pub(crate) fn attach(self) -> Result<AsyncFd<Self>, (Self, io::Error)> {
        // SAFETY: "The file descriptor returned by inner.as_raw_fd() must be a valid, open file descriptor,
        // and it must remain open and refer to the same underlying file description for the entire
        // lifetime of the AsyncFd": the UdpSocket owns its descriptor and closes it when it is
        // dropped, which the AsyncFd that owns it outlasts; the field is private to this file, in
        // which no code replaces it or borrows it mutably.
        let registered = unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) };
        registered.map_err(|error| error.into_parts())
    }
}

impl AsRawFd for DatagramSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
