//! Socket options of one `int` that socket2 does not know.
//!
//! # Safety
//! The two blocks argue that the kernel reads and writes no more than the `int` that it is given.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// An option, by its level and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketOption(libc::c_int, libc::c_int);

impl SocketOption {
    pub(crate) const ZEROCOPY: Self = Self(libc::SOL_SOCKET, libc::SO_ZEROCOPY);
    pub(crate) const RCVLOWAT: Self = Self(libc::SOL_SOCKET, libc::SO_RCVLOWAT);
    pub(crate) const BUSY_POLL: Self = Self(libc::SOL_SOCKET, libc::SO_BUSY_POLL);
    /// `TCP_RTO_MAX_MS`, include/uapi/linux/tcp.h: since Linux 6.15.
    pub(crate) const RTO_MAX: Self = Self(libc::IPPROTO_TCP, 44);
    pub(crate) const UDP_SEGMENT: Self = Self(libc::SOL_UDP, libc::UDP_SEGMENT);
    pub(crate) const UDP_GRO: Self = Self(libc::SOL_UDP, libc::UDP_GRO);
    pub(crate) const RXQ_OVFL: Self = Self(libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
    pub(crate) const IP_BIND_ADDRESS_NO_PORT: Self = Self(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    pub(crate) const IP_MTU_DISCOVER: Self = Self(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
    pub(crate) const IPV6_MTU_DISCOVER: Self = Self(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
    pub(crate) const IPV6_TCLASS: Self = Self(libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
    /// Sends without checksums. The kernel segments no burst of such a socket.
    #[cfg(test)]
    pub(crate) const NO_CHECK: Self = Self(libc::SOL_SOCKET, libc::SO_NO_CHECK);

    pub(crate) fn set(self, socket: impl AsFd, value: libc::c_int) -> io::Result<()> {
        // SAFETY: "The arguments optval and optlen are used to access option values for setsockopt()":
        // optval points to an int that outlives the call and is only read, optlen is its size. The
        // descriptor is borrowed, so it is open.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                self.0,
                self.1,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(crate) fn get(self, socket: impl AsFd) -> io::Result<libc::c_int> {
        let mut value: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: "optlen is a value-result argument, initially containing the size of the buffer pointed
        // to by optval": both point to exclusively borrowed memory that outlives the call, the size
        // is that of the int, and any bytes are one.
        let result = unsafe {
            libc::getsockopt(socket.as_fd().as_raw_fd(), self.0, self.1, (&raw mut value).cast(), &raw mut length)
        };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(value) }
    }
}
