//! The kernel asked for a route.

use super::{SocketError, host_prefix};
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAttribute, RouteMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::{io, net::IpAddr};

/// The index of the interface through which packets from `local` with this mark reach `peer`.
pub(super) fn interface_towards(peer: IpAddr, local: IpAddr, mark: u32) -> Result<u32, SocketError> {
    let failed = |source| SocketError::NoRoute { to: peer, source };
    let answer = ask(&question(peer, local, mark)).map_err(failed)?;
    match answer.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => {
            let interface = |attribute: &RouteAttribute| match attribute {
                RouteAttribute::Oif(index) => Some(*index),
                _ => None,
            };
            let index = route.attributes.iter().find_map(interface);
            index.ok_or_else(|| failed(io::Error::other("the route names no interface")))
        }
        NetlinkPayload::Error(error) => Err(failed(error.to_io())),
        _ => Err(failed(io::Error::other("the kernel's answer is no route"))),
    }
}

fn question(peer: IpAddr, local: IpAddr, mark: u32) -> NetlinkMessage<RouteNetlinkMessage> {
    let mut route = RouteMessage::default();
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
    if mark != 0 {
        route.attributes.push(RouteAttribute::Mark(mark));
    }
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::GetRoute(route)));
    message.finalize();
    message
}

fn ask(question: &NetlinkMessage<RouteNetlinkMessage>) -> io::Result<NetlinkMessage<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut bytes = vec![0; question.buffer_len()];
    question.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    NetlinkMessage::deserialize(&answer).map_err(io::Error::other)
}
