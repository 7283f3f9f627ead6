//! Socket options that the libraries have not.
//!
//! # Safety
//!
//! An option decides what the kernel reads or writes at the pointer, within the length. Each block
//! argues that as much memory is there.
#![allow(unsafe_code)]

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Allows `MSG_ZEROCOPY` (`SO_ZEROCOPY`).
pub(crate) fn allow_zero_copy(socket: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY)
}

/// Puts the connection off until something is sent (`TCP_FASTOPEN_CONNECT`).
pub(crate) fn connect_with_the_first_byte(socket: BorrowedFd<'_>) -> io::Result<()> {
    switch_on(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT)
}

fn switch_on(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads an int, which outlives the call; the descriptor is open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What `TCP_INFO` says of a connection.
pub(crate) struct TcpInfo {
    /// The state, as `include/net/tcp_states.h` counts: 1 is established.
    pub(crate) state: u8,
    /// The length of the segments that are sent, in bytes.
    pub(crate) segment: u32,
}

/// Asks for `TCP_INFO`.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, all of which are the structure's; it outlives
    // the call, and the descriptor is open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the structure is integers alone, which any bytes are, and all of it was zeroed.
    let info = unsafe { info.assume_init() };
    Ok(TcpInfo { state: info.tcpi_state, segment: info.tcpi_snd_mss })
}
