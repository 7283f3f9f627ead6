//! Socket options that neither nix nor socket2 reads, or reads as something else.
//!
//! # Safety
//! Each block argues that the kernel writes no more than the integer it is given.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// The CPU that last handled a packet of the socket; -1 before the first.
pub(crate) fn incoming_cpu(socket: BorrowedFd<'_>) -> io::Result<i32> {
    get(socket, libc::SO_INCOMING_CPU, -1)
}

/// The identity of a network namespace for as long as the machine runs.
pub(crate) fn namespace_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    get(socket, SO_NETNS_COOKIE, 0)
}

/// An integer of which every bit pattern is a value.
trait Integer: Copy {}

impl Integer for i32 {}
impl Integer for u64 {}

fn get<T: Integer>(socket: BorrowedFd<'_>, option: libc::c_int, initial: T) -> io::Result<T> {
    let mut value = initial;
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: "optval and optlen ... identify a buffer in which the value is to be returned"; the
    // buffer is one integer, exclusively borrowed, its size is in `length`, and the kernel writes
    // no more than that (`sk_getsockopt` in net/core/sock.c takes the lesser of both). Any bits are
    // an integer. The descriptor is borrowed, so it is open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_mut(&mut value).cast(),
            &mut length,
        )
    };
    match result {
        0 if length as usize == size_of::<T>() => Ok(value),
        0 => Err(io::Error::other("the kernel's answer has another size")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// include/uapi/asm-generic/socket.h; libc does not name it.
const SO_NETNS_COOKIE: libc::c_int = 71;
