//! The choice between sockets that share an address.
//!
//! # Safety
//! The block argues that the kernel reads no more than the program that it is given.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Attaches a classic BPF program to the group of a listening socket. The program returns the index
/// of a socket in the group.
pub(crate) fn attach_filter(socket: impl AsFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let Ok(len) = u16::try_from(program.len()) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies a `sock_fprog`, which outlives the call and whose size is given, and
    // the `len` instructions that it points to, which are borrowed for the call. The descriptor is
    // borrowed, so it is open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
