//! The options of UDP sockets.

use crate::LocalEnd;
use rails_topo::DataSize;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU8;

/// The options with which UDP sockets are opened.
///
/// Setters take and return the options, so they chain. One value opens any number of sockets, with
/// [`bind`](Self::bind) and [`connect`](Self::connect).
///
/// Options at their defaults, and the sizes of buffers, only improve a socket. Where a kernel lacks
/// one or a filter refuses it, the socket goes without it: a warning says so, and the settings that
/// are read back show it.
///
/// # Examples
/// ```
/// use rails_net::{LocalEnd, UdpOptions};
/// use rails_topo::DataSize;
///
/// let options = UdpOptions::new()
///     .local(LocalEnd::Device("eth0".to_owned()))
///     .receive_buffer(DataSize::bytes(4 << 20));
/// # let _ = options;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct UdpOptions {
    // The local end.
    pub(super) local: LocalEnd,
    // The kernel's buffers.
    pub(super) send_buffer: Option<DataSize>,
    pub(super) receive_buffer: Option<DataSize>,
    // Bursts.
    pub(super) segmentation: bool,
    pub(super) coalescing: bool,
    // IP headers.
    pub(super) hop_limit: Option<NonZeroU8>,
    pub(super) ecn: Ecn,
    pub(super) path_mtu_discovery: Option<PathMtuDiscovery>,
    // Time.
    pub(super) pacing: Pacing,
}

/// The codepoint of Explicit Congestion Notification in a datagram's IP header
/// ([RFC 3168](https://www.rfc-editor.org/rfc/rfc3168#section-5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: the sender does not heed marks, so routers drop and never mark.
    #[default]
    NotCapable = 0,
    /// ECT(1): capable, and by [RFC 9331](https://www.rfc-editor.org/rfc/rfc9331) a request for low
    /// latency.
    Capable1 = 1,
    /// ECT(0): capable.
    Capable0 = 2,
    /// CE: a router has met congestion.
    CongestionExperienced = 3,
}

/// The kernel's way to discover and heed the path's MTU (`IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`),
/// by the kernel's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PathMtuDiscovery {
    /// Datagrams may be fragmented, here and on the way.
    Dont,
    /// The kernel fragments datagrams above the path's MTU that it knows, and lets no router
    /// fragment the others.
    Want,
    /// No host fragments; the kernel refuses datagrams above the path's MTU that it knows, with
    /// `EMSGSIZE`.
    Do,
    /// No host fragments; the kernel refuses only datagrams above the interface's MTU, with
    /// `EMSGSIZE`. The caller finds the path's MTU by probes ([RFC 8899](https://www.rfc-editor.org/rfc/rfc8899)).
    Probe,
    /// Another mode, by its number; only ever read back.
    Other(i32),
}

/// Whether the kernel holds datagrams back until the time that they are sent with (`SO_TXTIME`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// The kernel sends datagrams at once.
    #[default]
    Off,
    /// Datagrams wait where the interface of the socket's route has a queueing discipline that
    /// heeds the time (`fq`, `etf`).
    Auto,
}

impl UdpOptions {
    /// The defaults, as each setter names them.
    pub fn new() -> Self {
        Self {
            local: LocalEnd::Any,
            send_buffer: None,
            receive_buffer: None,
            segmentation: true,
            coalescing: true,
            hop_limit: None,
            ecn: Ecn::NotCapable,
            path_mtu_discovery: Some(PathMtuDiscovery::Probe),
            pacing: Pacing::Off,
        }
    }

    /// The local end. [`bind`](Self::bind) takes its address as an argument, and only the device
    /// from here.
    ///
    /// # Default
    /// [`LocalEnd::Any`].
    ///
    /// # Privileges
    /// None; a device since Linux 5.7 (before, `CAP_NET_RAW`).
    pub fn local(mut self, local: impl Into<LocalEnd>) -> Self {
        self.local = local.into();
        self
    }

    /// Bytes that the kernel may hold for sending (`SO_SNDBUF`).
    ///
    /// # Default
    /// None: the system's `net.core.wmem_default`, mostly 208 KiB.
    ///
    /// # Cost
    /// Memory, and a longer queue in the host. `net.core.wmem_max` cuts it; the socket's
    /// [`deviations`](crate::UdpSocket::deviations) say if it did.
    pub fn send_buffer(mut self, size: impl Into<Option<DataSize>>) -> Self {
        self.send_buffer = size.into();
        self
    }

    /// Bytes that the kernel may hold for receiving (`SO_RCVBUF`). The kernel drops and counts
    /// datagrams that do not fit ([`Received::dropped`](crate::Received::dropped)). The kernel's
    /// bookkeeping counts too: a small datagram may take several times its length.
    ///
    /// # Default
    /// None: the system's `net.core.rmem_default`, mostly 208 KiB, which a fast sender fills within
    /// a millisecond.
    ///
    /// # Cost
    /// Memory. `net.core.rmem_max` cuts it; the socket's
    /// [`deviations`](crate::UdpSocket::deviations) say if it did.
    pub fn receive_buffer(mut self, size: impl Into<Option<DataSize>>) -> Self {
        self.receive_buffer = size.into();
        self
    }

    /// Whether the kernel, or the NIC, cuts a burst into datagrams (`UDP_SEGMENT`, Linux 4.18).
    /// Otherwise, and where the kernel or the device refuses, each datagram takes a system
    /// call.
    ///
    /// # Default
    /// On.
    ///
    /// # Cost
    /// The datagrams of a burst follow each other at the speed of the link, which may overrun a
    /// small queue on the way: bound bursts by time.
    pub fn segmentation(mut self, on: bool) -> Self {
        self.segmentation = on;
        self
    }

    /// Whether the kernel delivers a train of equal datagrams at once (`UDP_GRO`, Linux 5.0), with
    /// their size ([`Received::segment_bytes`](crate::Received::segment_bytes)).
    ///
    /// # Default
    /// On. A kernel without the option works on, and [`UdpSettings`](crate::UdpSettings) say so.
    ///
    /// # Cost
    /// The receiver needs buffers of 64 KiB in all, since the kernel cuts off the bytes that do not
    /// fit.
    pub fn coalescing(mut self, on: bool) -> Self {
        self.coalescing = on;
        self
    }

    /// The number of routers that a datagram may pass (`IP_TTL`, `IPV6_UNICAST_HOPS`).
    ///
    /// # Default
    /// None: the system's (`net.ipv4.ip_default_ttl`, or the router's advertisement), mostly 64.
    pub fn hop_limit(mut self, routers: impl Into<Option<NonZeroU8>>) -> Self {
        self.hop_limit = routers.into();
        self
    }

    /// The codepoint of Explicit Congestion Notification that datagrams are sent with (`IP_TOS`,
    /// `IPV6_TCLASS`).
    ///
    /// # Default
    /// [`Ecn::NotCapable`]. A sender that declares itself capable must slow down when the receiver
    /// reports marks.
    pub fn ecn(mut self, codepoint: Ecn) -> Self {
        self.ecn = codepoint;
        self
    }

    /// The kernel's way to discover and heed the path's MTU.
    ///
    /// # Default
    /// [`PathMtuDiscovery::Probe`]: the caller finds the MTU, and ICMP messages, which anyone may forge, change none.
    /// None: the system's, [`PathMtuDiscovery::Want`] unless `net.ipv4.ip_no_pmtu_disc` says
    /// otherwise.
    pub fn path_mtu_discovery(mut self, mode: impl Into<Option<PathMtuDiscovery>>) -> Self {
        self.path_mtu_discovery = mode.into();
        self
    }

    /// Whether datagrams may be sent with a time at which they leave (`SO_TXTIME`).
    /// [`UdpSocket::pacing`](crate::UdpSocket::pacing) says whether they may, and why not.
    ///
    /// # Default
    /// [`Pacing::Off`].
    ///
    /// # Cost
    /// Three netlink requests when the socket is opened or connected.
    ///
    /// # Privileges
    /// None with `fq`; `CAP_NET_ADMIN` with `etf`, which goes by another clock.
    pub fn pacing(mut self, pacing: Pacing) -> Self {
        self.pacing = pacing;
        self
    }
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Ecn {
    /// The codepoint in the last two bits of a TOS byte or a traffic class.
    pub(super) fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::CongestionExperienced,
        }
    }
}

impl PathMtuDiscovery {
    /// The kernel's number, the same for both address families (include/uapi/linux/in.h and in6.h).
    pub(super) fn number(self) -> i32 {
        match self {
            Self::Dont => libc::IP_PMTUDISC_DONT,
            Self::Want => libc::IP_PMTUDISC_WANT,
            Self::Do => libc::IP_PMTUDISC_DO,
            Self::Probe => libc::IP_PMTUDISC_PROBE,
            Self::Other(number) => number,
        }
    }

    pub(super) fn of(number: i32) -> Self {
        let known = [Self::Dont, Self::Want, Self::Do, Self::Probe];
        known.into_iter().find(|mode| mode.number() == number).unwrap_or(Self::Other(number))
    }
}
