//! The options of a UDP socket, read back.

use crate::{
    Ecn, PacingUse, PathMtuDiscovery, SocketOptionError, UdpError, UdpRoute, UdpSocket, interfaces, netlink,
    socket::{self, get},
    sys::option::SocketOption,
};
use rails_topo::DataSize;
use serde::Serialize;
use socket2::SockRef;
use std::{io, net::SocketAddr};

/// A UDP socket's options, read from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UdpSettings {
    /// The size of the send buffer with the kernel's own bookkeeping: twice the requested size.
    #[serde(rename = "send_buffer_bytes")]
    pub send_buffer: DataSize,
    /// The size of the receive buffer with the kernel's own bookkeeping: twice the requested size.
    #[serde(rename = "receive_buffer_bytes")]
    pub receive_buffer: DataSize,
    /// Whether the kernel gets bursts as a whole: it has `UDP_SEGMENT`, and has refused no burst
    /// yet.
    pub segmentation: bool,
    /// Whether the kernel hands out trains of datagrams; `None` if the kernel does not say (before
    /// Linux 5.13).
    pub coalescing: Option<bool>,
    /// The number of routers that a datagram may pass.
    pub hop_limit: u32,
    /// The codepoint of Explicit Congestion Notification that datagrams are sent with.
    pub ecn: Ecn,
    /// The kernel's way to discover and heed the path's MTU.
    pub path_mtu_discovery: PathMtuDiscovery,
    /// Whether datagrams may be sent with a time.
    pub pacing: PacingUse,
    /// The interface that the socket is bound to; `None` is none.
    pub device: Option<String>,
    /// The interface by which datagrams leave; `None` for a socket that is neither connected nor
    /// bound to a device.
    pub route: Option<UdpRoute>,
}

impl UdpSocket {
    /// Reads the options from the kernel.
    ///
    /// # Errors
    /// [`UdpError::Option`] if one cannot be read, and those of [`route`](Self::route).
    pub fn settings(&self) -> Result<UdpSettings, UdpError> {
        let socket = SockRef::from(self.socket());
        let bytes = |option, size: io::Result<usize>| get(option, size).map(|size| DataSize::bytes(size as u64));
        let (hop_limit, ecn, mode) = self.of_family(&socket)?;
        Ok(UdpSettings {
            send_buffer: bytes("SO_SNDBUF", socket.send_buffer_size())?,
            receive_buffer: bytes("SO_RCVBUF", socket.recv_buffer_size())?,
            segmentation: self.bursts.segmentation(),
            coalescing: match SocketOption::UDP_GRO.get(self.socket()) {
                Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => None,
                result => Some(get("UDP_GRO", result)? != 0),
            },
            hop_limit,
            ecn,
            path_mtu_discovery: PathMtuDiscovery::of(mode),
            pacing: self.pacing(),
            device: socket::bound_device(&socket)?,
            route: self.route()?,
        })
    }

    /// The interface by which datagrams leave: that of the route to the peer, or the device that
    /// the socket is bound to. `None` without either.
    ///
    /// Each call queries the kernel by netlink; a route may change while the socket is used. Call
    /// it on a thread in the socket's own network namespace. Rules by mark, port or user may send
    /// datagrams another way.
    ///
    /// # Errors
    /// [`UdpError::Call`] if no route leads to the peer any more, or the interface is gone.
    pub fn route(&self) -> Result<Option<UdpRoute>, UdpError> {
        let unspecified = if self.is_ipv4 { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        let local = self.address(unspecified)?;
        let peer = self.peer_addr().map_err(failed("getpeername", local))?;
        let device = self.device_index()?;
        match (peer, device) {
            (Some(peer), _) => self.route_to(peer).map(Some),
            (None, Some(device)) => self.by_interface(device, local).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The interface by which datagrams for `to` leave, as [`route`](Self::route) does for the
    /// peer.
    ///
    /// # Errors
    /// Those of [`route`](Self::route).
    pub fn route_to(&self, to: SocketAddr) -> Result<UdpRoute, UdpError> {
        let local = self.address(to)?;
        let device = self.device_index()?;
        let index = netlink::route(to, local.ip(), device).map_err(failed("RTM_GETROUTE", to))?;
        self.by_interface(index, to)
    }

    fn device_index(&self) -> Result<Option<u32>, UdpError> {
        let device = socket::bound_device(&SockRef::from(self.socket()))?;
        Ok(device.and_then(|name| interfaces::index_of(&name)))
    }

    fn by_interface(&self, index: u32, address: SocketAddr) -> Result<UdpRoute, UdpError> {
        let (interface, mtu) = netlink::link(index).map_err(failed("RTM_GETLINK", address))?;
        let max_payload = u64::from(mtu).saturating_sub(if self.is_ipv4 { 20 + 8 } else { 40 + 8 });
        Ok(UdpRoute {
            index,
            interface,
            mtu: DataSize::bytes(mtu.into()),
            max_payload: DataSize::bytes(max_payload.min(Self::MAX_BURST_BYTES as u64)),
        })
    }

    /// The hop limit, the codepoint and the number of the mode of path-MTU discovery.
    fn of_family(&self, socket: &SockRef<'_>) -> Result<(u32, Ecn, i32), SocketOptionError> {
        if self.is_ipv4 {
            let mode = get("IP_MTU_DISCOVER", SocketOption::IP_MTU_DISCOVER.get(self.socket()))?;
            let tos = get("IP_TOS", socket.tos_v4())?;
            return Ok((get("IP_TTL", socket.ttl_v4())?, Ecn::of(tos as u8), mode));
        }
        let mode = get("IPV6_MTU_DISCOVER", SocketOption::IPV6_MTU_DISCOVER.get(self.socket()))?;
        let class = get("IPV6_TCLASS", SocketOption::IPV6_TCLASS.get(self.socket()))?;
        Ok((get("IPV6_UNICAST_HOPS", socket.unicast_hops_v6())?, Ecn::of(class as u8), mode))
    }
}

fn failed(call: &'static str, address: SocketAddr) -> impl FnOnce(io::Error) -> UdpError {
    move |source| UdpError::Call { call, address, source }
}
