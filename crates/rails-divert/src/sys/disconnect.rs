//! `connect(2)` to no address, which cuts a connection.
//!
//! # Safety
//! Neither socket2 nor nix makes an address of family `AF_UNSPEC` without unsafe code. The one
//! block argues that the kernel reads no more than the address that it is given.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Cuts a TCP connection, and leaves a socket that can connect again. The peer gets a reset
/// (`tcp_disconnect` in net/ipv4/tcp.c), and the socket may keep `ECONNRESET` as its error.
pub(crate) fn disconnect(socket: BorrowedFd<'_>) -> io::Result<()> {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    // SAFETY: "Some protocol sockets (e.g., TCP sockets ...) may dissolve the association by connecting
    // to an address with the sa_family member of sockaddr set to AF_UNSPEC": the address is a whole
    // sockaddr that outlives the call, its length is given, and the kernel only reads it. The
    // descriptor is borrowed, so it is open.
    let result = unsafe {
        libc::connect(socket.as_raw_fd(), &raw const nowhere, size_of::<libc::sockaddr>() as libc::socklen_t)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
