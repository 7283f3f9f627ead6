//! Receiving trains of datagrams.

use super::{control::messages, stats::Count};
use crate::{
    Ecn, UdpSocket,
    sys::receive::{self, Arrived, receive, receive_several},
};
use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, SocketAddrV6},
    num::NonZeroU16,
    os::fd::AsFd,
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll},
};

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
    /// The codepoint of Explicit Congestion Notification; `None` if the kernel did not give it. Datagrams with another
    /// codepoint are never in the same train.
    pub ecn: Option<Ecn>,
    /// Whether the kernel cut off bytes, for which the buffers were too small, or did not give all facts: the size of a
    /// train's datagrams may be missing then. The latter needs options of the descriptor that the caller has switched
    /// on, such as `SO_TIMESTAMPING`.
    pub is_truncated: bool,
    /// Datagrams that the kernel had dropped since the socket was opened when this one arrived, mostly for want of room
    /// in the socket's buffer (`SO_RXQ_OVFL`); it wraps around. A train that was coalesced before it was dropped
    /// counts as one.
    pub dropped: u32,
}

impl UdpSocket {
    /// The most datagrams or trains of one call.
    pub const MAX_TRAINS: usize = receive::MAX_TRAINS;

    /// Polls for datagrams. Reports of ICMP alone do not wake the caller; the next send or receive returns them.
    ///
    /// # Errors
    /// The runtime's, when it shuts down.
    pub fn poll_receive_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.arrivals.poll(context)
    }

    /// Receives a datagram, or a train of them, into the buffers, one after the other, by one system call. The call
    /// neither blocks nor allocates memory.
    ///
    /// With [`coalescing`](crate::UdpOptions::coalescing), a train is up to 65,507 bytes (over IPv6 65,527) long. Bytes
    /// that do not fit into the buffers are lost ([`Received::is_truncated`]).
    ///
    /// Datagrams of other senders that came before the socket was connected to its peer are received too.
    ///
    /// # Errors
    /// * [`WouldBlock`](io::ErrorKind::WouldBlock): none waits.
    /// * [`InvalidInput`](io::ErrorKind::InvalidInput): more buffers than [`MAX_SLICES`](Self::MAX_SLICES).
    /// * [`ConnectionRefused`](io::ErrorKind::ConnectionRefused), `EMSGSIZE` and other reports of ICMP about datagrams
    ///   that a connected socket sent before; the next call goes on.
    ///
    /// # References
    /// [recvmsg(2)](https://man7.org/linux/man-pages/man2/recvmsg.2.html),
    /// [udp(7)](https://man7.org/linux/man-pages/man7/udp.7.html), `UDP_GRO`
    pub fn try_receive(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Received> {
        let mut received = None;
        self.receive(&mut [buffers], |train| received = Some(train))?;
        received.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// As [`try_receive`](Self::try_receive), for several datagrams or trains at once: each goes into a list of buffers
    /// of its own, in their order. Adds those that came to `received`: one or more, and at most
    /// [`MAX_TRAINS`](Self::MAX_TRAINS). Where the kernel does not take such a call, one comes by each.
    ///
    /// # Errors
    /// Those of [`try_receive`](Self::try_receive); no train has come then.
    ///
    /// # References
    /// [recvmmsg(2)](https://man7.org/linux/man-pages/man2/recvmmsg.2.html)
    pub fn try_receive_trains(
        &self,
        lists: &mut [&mut [IoSliceMut<'_>]],
        received: &mut Vec<Received>,
    ) -> io::Result<()> {
        self.receive(lists, |train| received.push(train))
    }

    fn receive(&self, lists: &mut [&mut [IoSliceMut<'_>]], mut took: impl FnMut(Received)) -> io::Result<()> {
        if lists.iter().any(|buffers| buffers.len() > Self::MAX_SLICES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.arrivals.try_receive(|socket| {
            let (mut count, mut all_are_named) = (Count::default(), true);
            let mut look = |arrived: Arrived<'_>| match train(&arrived) {
                Some(train) => {
                    count.add(&train);
                    took(train);
                }
                None => all_are_named = false,
            };
            let socket = socket.as_fd();
            let outcome = match lists {
                [] => Ok(()),
                [buffers] => receive(socket, buffers, look),
                [first, ..] if self.receives_singly.load(Relaxed) => receive(socket, first, look),
                [..] => match receive_several(socket, lists, &mut look) {
                    // A filter of system calls, or another kernel.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                        self.receives_singly.store(true, Relaxed);
                        receive(socket, lists[0], look)
                    }
                    outcome => outcome,
                },
            };
            self.counters.received(&count);
            // The kernel names the sender of every UDP datagram (`udp_recvmsg` in net/ipv4/udp.c).
            outcome.and_then(|()| if all_are_named { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) })
        })
    }
}

fn train(arrived: &Arrived<'_>) -> Option<Received> {
    let mut train = Received {
        bytes: arrived.bytes,
        segment_bytes: None,
        from: address(arrived.name)?,
        ecn: None,
        is_truncated: arrived.is_truncated,
        // The kernel counts from the socket's start, and tells the count unless it is zero (`sock_recv_drops`).
        dropped: 0,
    };
    for (level, kind, data) in messages(arrived.control) {
        let number = data.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                train.segment_bytes = number.and_then(|bytes| u16::try_from(bytes).ok()).and_then(NonZeroU16::new);
            }
            (libc::SOL_IP, libc::IP_TOS) => train.ecn = data.first().map(|class| Ecn::of(*class)),
            (libc::SOL_IPV6, libc::IPV6_TCLASS) => train.ecn = number.map(|class| Ecn::of(class as u8)),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => train.dropped = number.unwrap_or(0),
            _ => {}
        }
    }
    Some(train)
}

/// The address in a `struct sockaddr_in` or `sockaddr_in6`.
fn address(name: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = name.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    match libc::c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => Some((*rest.first_chunk::<4>()?, port).into()),
        libc::AF_INET6 => {
            let (flow, rest) = rest.split_first_chunk()?;
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            let scope = u32::from_ne_bytes(*rest.first_chunk()?);
            Some(SocketAddrV6::new((*ip).into(), port, u32::from_ne_bytes(*flow), scope).into())
        }
        _ => None,
    }
}
