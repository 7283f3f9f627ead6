//! connect(2) with arguments that no library passes on.
//!
//! # Safety
//!
//! The kernel only reads the address, and copies it by itself: a pointer that leads nowhere is
//! answered with `EFAULT`. The one block argues for each of the arguments.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
};

/// An argument that is wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wrong {
    /// A descriptor that no process has.
    Descriptor,
    /// An address whose family is not the socket's.
    Family,
    /// Half an address.
    Length,
    /// An address at no place in memory.
    Pointer,
    /// An address of no family, which takes a connection back and is no mistake by itself.
    NoFamily,
}

/// Calls connect(2) with an argument that is wrong.
pub(crate) fn connect_wrongly(socket: BorrowedFd<'_>, wrong: Wrong) -> io::Result<()> {
    let mut address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 9_u16.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    let mut descriptor: RawFd = socket.as_raw_fd();
    let mut length = size_of::<libc::sockaddr_in>();
    let mut pointer = ptr::from_ref(&address).cast::<libc::sockaddr>();
    match wrong {
        Wrong::Descriptor => descriptor = NO_DESCRIPTOR,
        Wrong::Family => {
            address.sin_family = libc::AF_APPLETALK as libc::sa_family_t;
            pointer = ptr::from_ref(&address).cast();
        }
        Wrong::NoFamily => {
            address.sin_family = libc::AF_UNSPEC as libc::sa_family_t;
            pointer = ptr::from_ref(&address).cast();
        }
        Wrong::Length => length /= 2,
        Wrong::Pointer => pointer = ptr::without_provenance(NOWHERE),
    }
    // SAFETY: the kernel reads `length` bytes at the pointer, and no more. They are within the address,
    // which outlives the call; or the pointer is in the first page, which no process may map, and
    // the kernel answers with EFAULT without touching anything (move_addr_to_kernel of
    // net/socket.c). A descriptor that is closed is answered with EBADF.
    let result = unsafe { libc::connect(descriptor, pointer, length as libc::socklen_t) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Above every limit of open files.
const NO_DESCRIPTOR: RawFd = RawFd::MAX;
/// Within the first page of memory.
const NOWHERE: usize = 8;
