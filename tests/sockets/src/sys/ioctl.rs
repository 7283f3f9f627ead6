//! Questions to a socket by ioctl(2).
//!
//! # Safety
//!
//! A request decides what the kernel writes to its argument. The one block argues for the request
//! that is made.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// The number of bytes that have arrived and are unread (`FIONREAD`).
pub(crate) fn unread(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: tcp(7) on FIONREAD: "ioctl(tcp_socket, FIONREAD, &value)" with an int, which this is; it
    // outlives the call, and the descriptor is borrowed, so it is open.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}
