//! A query of the kernel's routes.

use super::SocketError;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags},
};
use netlink_sys::{Socket, SocketAddr as NetlinkAddr, protocols::NETLINK_ROUTE};
use std::{
    io,
    net::{IpAddr, SocketAddr},
};

/// The facts that the route of a socket's packets depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// `IPPROTO_*`.
    pub(super) protocol: Option<i32>,
    pub(super) mark: u32,
}

impl Flow {
    /// The index of the interface through which the packets leave.
    pub(super) fn interface(&self) -> Result<u32, SocketError> {
        let route = self.ask(RouteFlags::empty())?;
        let index = route.attributes.iter().find_map(leaving_by);
        index.ok_or_else(|| self.no_route(io::Error::other("the route names no interface")))
    }

    /// The indices of all interfaces that the kernel may have chosen for a connection like this
    /// one, if its choice cannot be repeated.
    ///
    /// Where the route has several next hops and ports decide, the kernel draws the port of a TCP
    /// connection that was bound to none at random to choose one, and not the port that the
    /// connection has in the end (`FLOWI_FLAG_ANY_SPORT`, seen on Linux 6.18). It is not visible
    /// either whether a socket was bound to a port.
    pub(super) fn alternatives(&self) -> Result<Vec<u32>, SocketError> {
        if self.protocol_with_ports() != Some(libc::IPPROTO_TCP as u8) || !self.ports_decide() {
            return Ok(Vec::new());
        }
        let route = self.ask(RouteFlags::FibMatch)?;
        let hops = route.attributes.iter().filter_map(|attribute| match attribute {
            RouteAttribute::MultiPath(hops) => Some(hops),
            _ => None,
        });
        let alive = hops.flatten().filter(|hop| !hop.flags.contains(RouteNextHopFlags::Dead));
        let mut interfaces: Vec<u32> = alive.map(|hop| hop.interface_index).collect();
        interfaces.sort_unstable();
        interfaces.dedup();
        Ok(if interfaces.len() > 1 { interfaces } else { Vec::new() })
    }

    /// Whether ports decide among next hops too, and not only addresses. A kernel without the file
    /// (before 4.12, or without multiple next hops) goes by the addresses.
    fn ports_decide(&self) -> bool {
        let family = if self.peer.is_ipv4() { "ipv4" } else { "ipv6" };
        // This file is that of the thread's network namespace, whichever process `/proc` is asked by.
        let policy = std::fs::read_to_string(format!("/proc/sys/net/{family}/fib_multipath_hash_policy"));
        policy.is_ok_and(|policy| policy.trim() != "0")
    }

    fn ask(&self, flags: RouteFlags) -> Result<RouteMessage, SocketError> {
        match ask(&self.question(flags)).map_err(|source| self.no_route(source))?.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => Ok(route),
            NetlinkPayload::Error(error) => Err(self.no_route(error.to_io())),
            _ => Err(self.no_route(io::Error::other("the kernel's answer is no route"))),
        }
    }

    fn no_route(&self, source: io::Error) -> SocketError {
        SocketError::NoRoute { to: self.peer.ip(), source }
    }

    fn question(&self, flags: RouteFlags) -> NetlinkMessage<RouteNetlinkMessage> {
        let (peer, local) = (self.peer.ip(), self.local.ip());
        let mut route = RouteMessage::default();
        route.header.flags = flags;
        route.header.address_family = match peer {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        route.header.destination_prefix_length = host_prefix(peer);
        route.attributes.push(RouteAttribute::Destination(peer.into()));
        if peer.is_ipv4() == local.is_ipv4() && !local.is_unspecified() {
            route.header.source_prefix_length = host_prefix(local);
            route.attributes.push(RouteAttribute::Source(local.into()));
        }
        if let Some(protocol) = self.protocol_with_ports() {
            route.attributes.push(RouteAttribute::IpProto(protocol));
            route.attributes.push(RouteAttribute::Sport(self.local.port()));
            route.attributes.push(RouteAttribute::Dport(self.peer.port()));
        }
        if self.mark != 0 {
            route.attributes.push(RouteAttribute::Mark(self.mark));
        }
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::GetRoute(route)));
        message.finalize();
        message
    }

    /// The kernel takes ports with these protocols only (`rtm_getroute_parse_ip_proto` in
    /// net/ipv4/netlink.c, Linux 6.12). A multipath connection's first flow is one of TCP.
    fn protocol_with_ports(&self) -> Option<u8> {
        match self.protocol? {
            libc::IPPROTO_TCP | libc::IPPROTO_MPTCP => Some(libc::IPPROTO_TCP as u8),
            libc::IPPROTO_UDP => Some(libc::IPPROTO_UDP as u8),
            _ => None,
        }
    }
}

fn ask(question: &NetlinkMessage<RouteNetlinkMessage>) -> io::Result<NetlinkMessage<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&NetlinkAddr::new(0, 0))?;
    let mut bytes = vec![0; question.buffer_len()];
    question.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    NetlinkMessage::deserialize(&answer).map_err(io::Error::other)
}

fn leaving_by(attribute: &RouteAttribute) -> Option<u32> {
    match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    }
}

/// The number of bits of a host's own address.
fn host_prefix(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
