//! Socket options that neither nix nor socket2 has.
//!
//! # Safety
//! Each block argues that the kernel reads or writes no more than the integer it is given.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// The identity of a socket's network namespace, as the helper `bpf_get_netns_cookie` gives it to
/// programs (since Linux 5.14).
pub(crate) fn namespace_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: "optval and optlen ... identify a buffer in which the value is to be returned"; the
    // buffer is one integer, exclusively borrowed, its size is in `length`, and the kernel writes
    // no more than that (`sk_getsockopt` in net/core/sock.c takes the lesser of both). Any bits are
    // an integer. The descriptor is borrowed, so it is open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            std::ptr::from_mut(&mut cookie).cast(),
            &mut length,
        )
    };
    match result {
        0 if length as usize == size_of::<u64>() => Ok(cookie),
        0 => Err(io::Error::other("the kernel's answer has another size")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets no connection to a listening socket be accepted before its handshake is over.
pub(crate) fn forbid_fast_open(listener: BorrowedFd<'_>) -> io::Result<()> {
    let queue: libc::c_int = 0;
    // SAFETY: "optval and optlen are used to access option values"; the value is one integer, which
    // the kernel only reads, and its size is the length. The descriptor is borrowed, so it is open.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_FASTOPEN,
            std::ptr::from_ref(&queue).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// include/uapi/asm-generic/socket.h; libc does not name it.
const SO_NETNS_COOKIE: libc::c_int = 71;
