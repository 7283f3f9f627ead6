//! The facts of received datagrams.

use super::control::messages;
use crate::{Ecn, sys::receive::Arrived};
use std::{
    net::{SocketAddr, SocketAddrV6},
    num::NonZeroU16,
};

/// A datagram, or a train of equal ones from one sender, that was received at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The bytes in the buffers.
    pub bytes: usize,
    /// The size of each datagram of a train, of which the last may be shorter; `None` for a single
    /// datagram.
    pub segment_bytes: Option<NonZeroU16>,
    /// The sender.
    pub from: SocketAddr,
    /// The codepoint of Explicit Congestion Notification; `None` if the kernel did not give it.
    /// Datagrams with another codepoint are never in the same train.
    pub ecn: Option<Ecn>,
    /// Whether the kernel cut off bytes, for which the buffers were too small, or did not give all
    /// facts: the size of a train's datagrams may be missing then. The latter needs options of
    /// the descriptor that the caller has switched on, such as `SO_TIMESTAMPING`.
    pub is_truncated: bool,
    /// Datagrams that the kernel had dropped since the socket was opened when this one arrived,
    /// mostly for lack of room in the socket's buffer (`SO_RXQ_OVFL`); the count wraps around. A
    /// train that was coalesced before it was dropped counts as one.
    pub dropped: u32,
}

impl Received {
    /// The facts of an arrived datagram or train; `None` without a sender.
    pub(super) fn of(arrived: &Arrived<'_>) -> Option<Self> {
        let mut train = Self {
            bytes: arrived.bytes,
            segment_bytes: None,
            from: address(arrived.name)?,
            ecn: None,
            is_truncated: arrived.is_truncated,
            // The kernel counts since the socket was opened, and reports the count unless it is
            // zero (`sock_recv_drops`).
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
