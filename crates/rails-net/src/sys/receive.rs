//! `recvmsg(2)` and `recvmmsg(2)`, with all of the kernel's facts about a datagram on the stack.
//!
//! `nix::sys::socket::recvmmsg` reuses its headers, and leaves the kernel less room for control
//! messages with each call.
//!
//! # Safety
//! nix does not fit, and socket2 and the standard library do not wrap `recvmmsg`. The blocks argue
//! that the kernel writes into memory that is exclusively borrowed for the call, and no further
//! than it reaches.
#![allow(unsafe_code)]

use nix::errno::Errno;
use std::{
    io::{self, IoSliceMut},
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{from_mut, null_mut},
};

/// A datagram, or a train of them, that was received.
pub(crate) struct Arrived<'a> {
    /// The number of bytes in the buffers.
    pub(crate) bytes: usize,
    /// Whether the buffers, or the room for control messages, were too small.
    pub(crate) is_truncated: bool,
    /// The sender's `struct sockaddr`.
    pub(crate) name: &'a [u8],
    /// The control messages.
    pub(crate) control: &'a [u8],
}

/// Room for the kernel's facts about a datagram, aligned as the headers of control messages.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Ancillary {
    control: [u8; CONTROL_LEN],
    name: [u8; NAME_LEN],
}

/// Receives one datagram or train.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffers: &mut [IoSliceMut<'_>],
    took: impl FnOnce(Arrived<'_>),
) -> io::Result<()> {
    let mut ancillary = Ancillary::default();
    let mut header = no_header();
    ancillary.describe(&mut header, buffers);
    // SAFETY: "The msg_name field points to a caller-allocated buffer", as the control messages and the
    // buffers do: all are exclusively borrowed by `ancillary` and `buffers` until the call returns,
    // with their lengths beside them, and their bytes may hold any value.
    let result = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) };
    let bytes = Errno::result(result)?;
    took(ancillary.arrived(&header, bytes as usize));
    Ok(())
}

/// Receives one datagram or train into each list of buffers, as far as they wait: into at most
/// [`MAX_TRAINS`] lists.
pub(crate) fn receive_several(
    socket: BorrowedFd<'_>,
    lists: &mut [&mut [IoSliceMut<'_>]],
    mut took: impl FnMut(Arrived<'_>),
) -> io::Result<()> {
    let mut ancillary = [Ancillary::default(); MAX_TRAINS];
    let mut headers = [libc::mmsghdr { msg_hdr: no_header(), msg_len: 0 }; MAX_TRAINS];
    let count = lists.len().min(MAX_TRAINS);
    for ((header, ancillary), buffers) in headers.iter_mut().zip(&mut ancillary).zip(lists.iter_mut()) {
        ancillary.describe(&mut header.msg_hdr, buffers);
    }
    // SAFETY: as above, for each of the first `count` headers: all names, control messages and buffers
    // are exclusively borrowed by `ancillary` and `lists` until the call returns, and `count` is no
    // more than the headers that were set. "The timeout argument" may be null.
    let result =
        unsafe { libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as libc::c_uint, 0, null_mut()) };
    let received = Errno::result(result)?;
    for (header, ancillary) in headers.iter().zip(&ancillary).take(received as usize) {
        took(ancillary.arrived(&header.msg_hdr, header.msg_len as usize));
    }
    Ok(())
}

fn no_header() -> libc::msghdr {
    // SAFETY: a `struct msghdr` is numbers and pointers, each of which may be zero; its padding depends
    // on the C library.
    unsafe { std::mem::zeroed() }
}

impl Default for Ancillary {
    fn default() -> Self {
        Self { control: [0; CONTROL_LEN], name: [0; NAME_LEN] }
    }
}

impl Ancillary {
    /// Points a message header to this room and to the buffers.
    fn describe(&mut self, header: &mut libc::msghdr, buffers: &mut [IoSliceMut<'_>]) {
        header.msg_name = from_mut(&mut self.name).cast();
        header.msg_namelen = NAME_LEN as libc::socklen_t;
        // "IoSliceMut is guaranteed to be ABI compatible with the iovec type on Unix platforms."
        header.msg_iov = buffers.as_mut_ptr().cast();
        header.msg_iovlen = buffers.len() as _;
        header.msg_control = from_mut(&mut self.control).cast();
        header.msg_controllen = CONTROL_LEN as _;
    }

    fn arrived(&self, header: &libc::msghdr, bytes: usize) -> Arrived<'_> {
        // The C libraries count in different types.
        let control_len: usize = header.msg_controllen as _;
        Arrived {
            bytes,
            is_truncated: header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
            // The kernel states the length of the whole address, also if it has cut the address.
            name: &self.name[..NAME_LEN.min(header.msg_namelen as usize)],
            control: &self.control[..CONTROL_LEN.min(control_len)],
        }
    }
}

/// The maximum number of trains of one call.
pub(crate) const MAX_TRAINS: usize = 16;
/// A `struct sockaddr_in6`, the longest address of UDP.
const NAME_LEN: usize = size_of::<libc::sockaddr_in6>();
/// The size of segments, the TOS or the traffic class (an `int` over IPv6, a byte over IPv4), and
/// the count of drops.
const CONTROL_LEN: usize = 3 * nix::sys::socket::cmsg_space::<libc::c_int>();
