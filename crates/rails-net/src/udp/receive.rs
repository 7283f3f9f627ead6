//! Receiving trains of datagrams.

use crate::{Ecn, UdpSocket};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, cmsg_space, recvmsg};
use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, SocketAddrV4, SocketAddrV6},
    num::NonZeroU16,
    os::fd::AsRawFd,
    task::{Context, Poll},
};
use tokio::io::Interest;

/// A datagram, or a train of equal ones from one sender, that was received at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The bytes in the buffers.
    pub bytes: usize,
    /// The size of each datagram of a train, of which the last may be shorter; `None` for a single datagram.
    pub segment_bytes: Option<NonZeroU16>,
    /// The sender.
    pub from: SocketAddr,
    /// The codepoint of Explicit Congestion Notification; `None` if the kernel did not tell it. Datagrams with another
    /// codepoint are never in the same train.
    pub ecn: Option<Ecn>,
    /// Whether the buffers were too small, so that the kernel cut bytes off.
    pub is_truncated: bool,
    /// How many datagrams the kernel had dropped since the socket was opened when this one arrived, mostly for want of
    /// room in the socket's buffer (`SO_RXQ_OVFL`); it wraps around. A train that was coalesced before it was dropped
    /// counts as one.
    pub dropped: u32,
}

impl UdpSocket {
    /// Polls for datagrams. Reports of ICMP alone do not wake the caller; the next send or receive returns them.
    ///
    /// # Errors
    /// The runtime's, when it shuts down.
    pub fn poll_receive_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_recv_ready(context)
    }

    /// Receives a datagram, or a train of them, into the buffers, one after the other, by one system call. The call
    /// neither blocks nor allocates memory.
    ///
    /// With [`coalescing`](crate::UdpOptions::coalescing), a train is up to 65,507 bytes (over IPv6 65,527) long. What
    /// does not fit into the buffers is lost ([`Received::is_truncated`]).
    ///
    /// Datagrams of other senders that came before the socket was connected to its peer are received too.
    ///
    /// # Errors
    /// * [`WouldBlock`](io::ErrorKind::WouldBlock): none waits.
    /// * [`InvalidInput`](io::ErrorKind::InvalidInput): more buffers than [`MOST_SLICES`](Self::MOST_SLICES).
    /// * [`ConnectionRefused`](io::ErrorKind::ConnectionRefused), `EMSGSIZE` and other reports of ICMP about datagrams
    ///   that a connected socket sent before; the next call goes on.
    /// * `ENOBUFS` if the caller has switched on options of the descriptor that bring more than there is room for.
    ///
    /// # References
    /// [recvmsg(2)](https://man7.org/linux/man-pages/man2/recvmsg.2.html),
    /// [udp(7)](https://man7.org/linux/man-pages/man7/udp.7.html), `UDP_GRO`
    pub fn try_receive(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Received> {
        if buffers.len() > Self::MOST_SLICES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.socket.try_io(Interest::READABLE, || {
            let mut control = Control([0; CONTROL]);
            let message = recvmsg(self.socket.as_raw_fd(), buffers, Some(&mut control.0), MsgFlags::empty());
            let received = message.map_err(io::Error::from).and_then(|message| received(&message));
            match &received {
                Ok(received) => {
                    let datagrams =
                        received.segment_bytes.map_or(1, |segment| received.bytes.div_ceil(segment.get().into()));
                    let Received { bytes, is_truncated, dropped, .. } = *received;
                    self.counters.received(datagrams as u64, bytes as u64, is_truncated, dropped);
                }
                Err(_) => self.counters.not_received(),
            }
            received
        })
    }
}

/// Room for the kernel's control messages. Its first header is read in place, so it is aligned as one.
#[repr(align(8))]
struct Control([u8; CONTROL]);

/// The size of segments, the TOS or the traffic class (an `int` over IPv6, a byte over IPv4), and the count of drops.
const CONTROL: usize = cmsg_space::<libc::c_int>() + cmsg_space::<libc::c_int>() + cmsg_space::<u32>();

fn received(message: &RecvMsg<'_, '_, SockaddrStorage>) -> io::Result<Received> {
    let mut received = Received {
        bytes: message.bytes,
        segment_bytes: None,
        // The kernel names the sender of every UDP datagram (`udp_recvmsg` in net/ipv4/udp.c).
        from: message.address.as_ref().and_then(address).ok_or(io::ErrorKind::InvalidData)?,
        ecn: None,
        is_truncated: message.flags.contains(MsgFlags::MSG_TRUNC),
        // The kernel counts from the socket's start, and tells the count unless it is zero (`sock_recv_drops`).
        dropped: 0,
    };
    for control in message.cmsgs()? {
        match control {
            ControlMessageOwned::UdpGroSegments(bytes) => {
                received.segment_bytes = u16::try_from(bytes).ok().and_then(NonZeroU16::new);
            }
            ControlMessageOwned::Ipv4Tos(class) => received.ecn = Some(Ecn::of(class)),
            ControlMessageOwned::Ipv6TClass(class) => received.ecn = Some(Ecn::of(class as u8)),
            ControlMessageOwned::RxqOvfl(count) => received.dropped = count,
            _ => {}
        }
    }
    Ok(received)
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddrV4::from(*v4).into());
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into()))
}
