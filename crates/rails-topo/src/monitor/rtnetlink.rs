//! Messages of rtnetlink about links and addresses
//! ([rtnetlink(7)](https://man7.org/linux/man-pages/man7/rtnetlink.7.html)). No I/O.

use super::event::{Event, LinkState};
use crate::InterfaceAddress;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    link::{LinkAttribute, LinkFlags, LinkMessage, State},
};

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR` (include/uapi/linux/rtnetlink.h).
pub(super) const GROUPS: u32 = 0x1 | 0x10 | 0x100;

/// The events in a datagram of the kernel. Unknown messages are left out.
pub(crate) fn events(mut datagram: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram) {
        events.extend(match &message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => new_link(link),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                is_of_the_interface(link).then_some(Event::LinkGone { index: link.header.index })
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(address)) => address_event(address, true),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelAddress(address)) => address_event(address, false),
            NetlinkPayload::Overrun(_) => Some(Event::Lost),
            _ => None,
        });
        // Messages begin at multiples of four bytes (netlink(7), NLMSG_ALIGN).
        let length = (message.header.length as usize).next_multiple_of(4);
        if length == 0 || length >= datagram.len() {
            break;
        }
        datagram = &datagram[length..];
    }
    events
}

/// Whether the message is about the interface itself: a bridge reports its ports in the same group,
/// and a port that leaves it does not end the interface (`br_info_notify` in
/// net/bridge/br_netlink.c).
fn is_of_the_interface(link: &LinkMessage) -> bool {
    link.header.interface_family == AddressFamily::Unspec
}

fn new_link(link: &LinkMessage) -> Option<Event> {
    let mut state = LinkState { index: link.header.index, ..LinkState::default() };
    let mut operational = None;
    let mut carrier = None;
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => state.name = Some(name.clone()),
            LinkAttribute::Mtu(mtu) => state.mtu = Some(*mtu),
            LinkAttribute::OperState(state) => operational = Some(*state),
            LinkAttribute::Carrier(there) => carrier = Some(*there != 0),
            _ => {}
        }
    }
    // As in the files of sysfs, so that both ways of reading agree: an interface that is set down has
    // no carrier state (`carrier_show` and `operstate_show` in net/core/net-sysfs.c).
    let carrier = carrier.filter(|_| link.header.flags.contains(LinkFlags::Up));
    let up = |operational| match operational {
        State::Up => Some(true),
        State::Down | State::LowerLayerDown | State::NotPresent | State::Dormant | State::Testing => Some(false),
        _ => carrier,
    };
    state.link = operational.map(|operational| (up(operational), carrier));
    is_of_the_interface(link).then_some(Event::Link(state))
}

/// The address is the local one: of a point-to-point link the other attribute is the peer's
/// (include/uapi/linux/if_addr.h).
fn address_event(message: &AddressMessage, present: bool) -> Option<Event> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    let shared = || {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        })
    };
    let ip = local.or_else(shared)?;
    let address = InterfaceAddress { ip, prefix_len: message.header.prefix_len };
    Some(Event::Address { index: message.header.index, address, present })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::NetlinkHeader;
    use proptest::prelude::*;

    fn bytes(message: RouteNetlinkMessage) -> Vec<u8> {
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    fn link(flags: LinkFlags, attributes: &[LinkAttribute]) -> LinkMessage {
        let mut link = LinkMessage::default();
        link.header.index = 7;
        link.header.flags = flags;
        link.attributes = attributes.to_vec();
        link
    }

    #[test]
    fn links_state_is_that_of_its_files() {
        let state = |flags, operational, carrier| {
            let attributes = [LinkAttribute::OperState(operational), LinkAttribute::Carrier(carrier)];
            let found = events(&bytes(RouteNetlinkMessage::NewLink(link(flags, &attributes))));
            let [Event::Link(LinkState { index: 7, link: Some(link), .. })] = &found[..] else { panic!("{found:?}") };
            *link
        };
        assert_eq!(state(LinkFlags::Up, State::Up, 1), (Some(true), Some(true)));
        assert_eq!(state(LinkFlags::Up, State::LowerLayerDown, 0), (Some(false), Some(false)));
        assert_eq!(state(LinkFlags::empty(), State::Down, 1), (Some(false), None));
        assert_eq!(state(LinkFlags::Up, State::Unknown, 1), (Some(true), Some(true)));
        assert_eq!(state(LinkFlags::empty(), State::Unknown, 1), (None, None));
    }

    #[test]
    fn several_messages_of_one_datagram_are_read_in_order() {
        let name = [LinkAttribute::IfName("odd".to_owned())];
        let datagram = [
            bytes(RouteNetlinkMessage::NewLink(link(LinkFlags::Up, &name))),
            bytes(RouteNetlinkMessage::DelLink(link(LinkFlags::empty(), &[]))),
        ];
        let named = LinkState { index: 7, name: Some("odd".to_owned()), ..LinkState::default() };
        assert_eq!(events(&datagram.concat()), [Event::Link(named), Event::LinkGone { index: 7 }]);
    }

    #[test]
    fn port_that_left_its_bridge_is_still_an_interface() {
        let mut port = link(LinkFlags::Up, &[]);
        port.header.interface_family = AddressFamily::Bridge;
        assert_eq!(events(&bytes(RouteNetlinkMessage::DelLink(port))), []);
    }

    #[test]
    fn of_two_addresses_the_local_one_counts() {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.index = 7;
        message.header.prefix_len = 32;
        let (local, peer) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        message.attributes = vec![AddressAttribute::Address(peer), AddressAttribute::Local(local)];
        let address = InterfaceAddress { ip: local, prefix_len: 32 };
        let expected = [Event::Address { index: 7, address, present: false }];
        assert_eq!(events(&bytes(RouteNetlinkMessage::DelAddress(message))), expected);
    }

    proptest! {
        #[test]
        fn no_datagram_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            events(&bytes);
        }
    }
}
