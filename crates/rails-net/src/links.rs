//! Whether the links under lanes are up, as the kernel tells it.

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage, link::LinkFlags};
use netlink_sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket, protocols::NETLINK_ROUTE};
use std::{fmt, io};

/// Hears of the changes of this network namespace's links, by rtnetlink's group for them ([rtnetlink(7)](https://man7.org/linux/man-pages/man7/rtnetlink.7.html)).
///
/// A link is up when it is set up and its carrier is there: both ends of a cable hear of it when it is pulled, and of nothing that happens
/// behind the next switch. That a link was set down is told at once; of carriers that come and go the kernel may tell once a second only
/// (`linkwatch_urgent_event` in net/core/link_watch.c), so that a lane's own silence is often known before.
pub struct LinkWatch(TokioSocket);

/// The state of a link, at a change of it or of something else about the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkChange {
    /// The interface's number (`if_nametoindex(3)`).
    pub index: u32,
    /// Whether it can carry anything.
    pub up: bool,
}

impl LinkWatch {
    /// Starts to listen.
    ///
    /// # Errors
    /// The kernel's, where it gives no such socket.
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

    /// What has changed next; some of the links that are named may be as they were. Cancel safe.
    ///
    /// # Errors
    /// The kernel's: `ENOBUFS` where changes came faster than they were read, and some are lost; the next call goes on.
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

/// The links that a datagram of the kernel speaks of. What this crate does not understand of it is left out.
fn changes(mut datagram: &[u8]) -> Vec<LinkChange> {
    let mut changes = Vec::new();
    while let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram) {
        let link = match &message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Some((link, true)),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => Some((link, false)),
            _ => None,
        };
        // A bridge tells of its ports in the same group, and that one has left it is no end of the link (net/bridge/br_netlink.c).
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
