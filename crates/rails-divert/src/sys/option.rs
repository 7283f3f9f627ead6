//! Socket options that neither socket2 nor nix knows, read as bytes.
//!
//! # Safety
//! The one block argues that the kernel reads and writes no more than the bytes that it is given.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// An option, by its level and its number, of `N` bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketOption<const N: usize>(libc::c_int, libc::c_int);

/// `tcpi_state`, the first byte of `struct tcp_info`: the kernel returns as much of the struct as
/// there is room for.
pub(crate) const TCP_STATE: SocketOption<1> = SocketOption(libc::IPPROTO_TCP, libc::TCP_INFO);
/// `SO_BINDTOIFINDEX`, include/uapi/asm-generic/socket.h: the index of the device to which the
/// socket is bound, 0 for none, whether it was bound by its index or by its name. Since Linux 5.1.
pub(crate) const DEVICE: SocketOption<4> = SocketOption(libc::SOL_SOCKET, 62);
/// `SO_NETNS_COOKIE`, include/uapi/asm-generic/socket.h: a number of the socket's network
/// namespace. Since Linux 5.14.
pub(crate) const NETWORK: SocketOption<8> = SocketOption(libc::SOL_SOCKET, 71);
/// `TCP_AO_INFO`, include/uapi/linux/tcp.h, whose struct is in and out, and zeros ask for nothing:
/// `ENOENT` where the socket has no keys of TCP-AO. Since Linux 6.7.
pub(crate) const AUTHENTICATION: SocketOption<64> = SocketOption(libc::IPPROTO_TCP, 40);

impl<const N: usize> SocketOption<N> {
    pub(crate) fn get(self, socket: BorrowedFd<'_>) -> io::Result<[u8; N]> {
        let mut value = [0_u8; N];
        let mut length = N as libc::socklen_t;
        // SAFETY: "optlen is a value-result argument, initially containing the size of the buffer pointed
        // to by optval": both point to exclusively borrowed memory that outlives the call, the size
        // is that of the array, and any bytes are one. The descriptor is borrowed, so it is open.
        let result =
            unsafe { libc::getsockopt(socket.as_raw_fd(), self.0, self.1, value.as_mut_ptr().cast(), &raw mut length) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(value) }
    }
}
