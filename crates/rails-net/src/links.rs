//! The kernel's reports of links that go up and down.

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage, link::LinkFlags};
use netlink_sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket, protocols::NETLINK_ROUTE};
use std::{fmt, io};

/// Receives the changes of this network namespace's links from the link group of rtnetlink
/// ([rtnetlink(7)](https://man7.org/linux/man-pages/man7/rtnetlink.7.html)).
///
/// A link is up if the administrator has set it up and it has a carrier. Both ends of a cable
/// notice when it is pulled, but neither notices a fault behind the next switch. The kernel reports
/// at once that a link was set down. It may report carrier changes only once a second
/// (`linkwatch_urgent_event` in net/core/link_watch.c), so the stream often notices the lane's
/// silence earlier.
pub struct LinkWatch(TokioSocket);

/// The state of a link after a change of the state, or of another attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkChange {
    /// The interface's number (`if_nametoindex(3)`).
    pub index: u32,
    /// Whether the link can carry packets.
    pub up: bool,
}

impl LinkWatch {
    /// Subscribes to the link group.
    ///
    /// # Errors
    /// The kernel's, if it gives no such socket.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    ///
    /// # Privileges
    /// None.
    pub fn new() -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        socket.socket_mut().bind(&SocketAddr::new(0, LINKS))?;
        Ok(Self(socket))
    }

    /// Waits for the next changes. The state of a named link may be the same as before. Cancel
    /// safe.
    ///
    /// # Errors
    /// The kernel's: `ENOBUFS` if changes came faster than the caller read them. Some are lost
    /// then, and the next call continues.
    pub async fn changed(&mut self) -> io::Result<Vec<LinkChange>> {
        let (datagram, _) = self.0.recv_from_full().await?;
        Ok(changes(&datagram))
    }
}

impl fmt::Debug for LinkWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkWatch")
    }
}

/// The links that a datagram of the kernel names, without messages that this crate does not parse.
fn changes(mut datagram: &[u8]) -> Vec<LinkChange> {
    let mut changes = Vec::new();
    while let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram) {
        let link = match &message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Some((link, true)),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => Some((link, false)),
            _ => None,
        };
        // A bridge reports its ports in the same group, and a port that leaves the bridge is not a link
        // that goes down (net/bridge/br_netlink.c).
        let link = link.filter(|(link, _)| link.header.interface_family == AddressFamily::Unspec);
        changes.extend(link.map(|(link, exists)| LinkChange {
            index: link.header.index,
            up: exists && link.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        }));
        // Messages begin at multiples of four bytes (netlink(7), NLMSG_ALIGN).
        let length = (message.header.length as usize).next_multiple_of(4);
        if length == 0 || length >= datagram.len() {
            break;
        }
        datagram = &datagram[length..];
    }
    changes
}

/// `RTMGRP_LINK`, include/uapi/linux/rtnetlink.h.
const LINKS: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::NetlinkHeader;
    use netlink_packet_route::link::LinkMessage;
    use proptest::prelude::*;

    fn message(index: u32, flags: LinkFlags, deleted: bool) -> Vec<u8> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = flags;
        let payload = if deleted { RouteNetlinkMessage::DelLink(link) } else { RouteNetlinkMessage::NewLink(link) };
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(payload));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    #[test]
    fn a_link_is_up_with_its_carrier_only() {
        let up = LinkFlags::Up | LinkFlags::LowerUp;
        let datagram = [message(2, up, false), message(3, LinkFlags::Up, false), message(4, up, true)].concat();
        let expected = [(2, true), (3, false), (4, false)].map(|(index, up)| LinkChange { index, up });
        assert_eq!(changes(&datagram), expected);
    }

    #[test]
    fn a_port_that_left_its_bridge_is_still_a_link() {
        let mut port = LinkMessage::default();
        port.header.interface_family = AddressFamily::Bridge;
        let mut message =
            NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(RouteNetlinkMessage::DelLink(port)));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        assert_eq!(changes(&bytes), []);
    }

    proptest! {
        #[test]
        fn no_datagram_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            changes(&bytes);
        }
    }
}
