//! Queries of the kernel's routes, links and queueing disciplines
//! ([rtnetlink(7)](https://man7.org/linux/man-pages/man7/rtnetlink.7.html)), in the calling
//! thread's network namespace.

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    link::{LinkAttribute, LinkMessage},
    route::{RouteAddress, RouteAttribute, RouteMessage},
    tc::{TcAttribute, TcHandle, TcMessage},
};
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};
use std::{
    io,
    net::{IpAddr, SocketAddr},
};

/// A queueing discipline of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Qdisc {
    /// The discipline's name, such as `fq`.
    pub(crate) kind: String,
    pub(crate) handle: TcHandle,
    pub(crate) parent: TcHandle,
}

/// The interface by which packets to `remote` leave, from the address `local` (if it is specified)
/// and by `device`.
pub(crate) fn route(remote: SocketAddr, local: IpAddr, device: Option<u32>) -> io::Result<u32> {
    let mut question = RouteMessage::default();
    let (family, bits) = if remote.is_ipv4() { (AddressFamily::Inet, 32) } else { (AddressFamily::Inet6, 128) };
    question.header.address_family = family;
    question.header.destination_prefix_length = bits;
    question.attributes.push(RouteAttribute::Destination(remote.ip().into()));
    if !local.is_unspecified() {
        question.header.source_prefix_length = bits;
        question.attributes.push(RouteAttribute::Source(RouteAddress::from(local)));
    }
    // A link-local address belongs to a link, which the scope names.
    let scope = match remote {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => Some(v6.scope_id()),
        _ => None,
    };
    question.attributes.extend(device.or(scope).map(RouteAttribute::Oif));
    let answers = ask(RouteNetlinkMessage::GetRoute(question), 0)?;
    let interface = answers.iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewRoute(route) => route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        }),
        _ => None,
    });
    interface.ok_or_else(unanswered)
}

/// The name and the MTU of an interface.
pub(crate) fn link(index: u32) -> io::Result<(String, u32)> {
    let mut question = LinkMessage::default();
    question.header.index = index;
    let answers = ask(RouteNetlinkMessage::GetLink(question), 0)?;
    let link = answers.into_iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewLink(link) => Some(link),
        _ => None,
    });
    let (mut name, mut mtu) = (None, None);
    for attribute in link.ok_or_else(unanswered)?.attributes {
        match attribute {
            LinkAttribute::IfName(it) => name = Some(it),
            LinkAttribute::Mtu(it) => mtu = Some(it),
            _ => {}
        }
    }
    name.zip(mtu).ok_or_else(unanswered)
}

/// The queueing disciplines of an interface.
pub(crate) fn qdiscs(index: u32) -> io::Result<Vec<Qdisc>> {
    let index = i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
    let answers = ask(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::with_index(index)), NLM_F_DUMP)?;
    let qdisc = |message: TcMessage| {
        let kind = message.attributes.into_iter().find_map(|attribute| match attribute {
            TcAttribute::Kind(kind) => Some(kind),
            _ => None,
        });
        Some(Qdisc { kind: kind?, handle: message.header.handle, parent: message.header.parent })
    };
    let answers = answers.into_iter().filter_map(|answer| match answer {
        // The kernel answers with those of every interface (`tc_dump_qdisc` in net/sched/sch_api.c).
        RouteNetlinkMessage::NewQueueDiscipline(message) if message.header.index == index => qdisc(message),
        _ => None,
    });
    Ok(answers.collect())
}

/// Sends one query. The kernel answers before the sending call returns, and continues a long answer
/// while it is read, so no call waits for another process.
fn ask(question: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut question = NetlinkMessage::new(header, NetlinkPayload::from(question));
    question.finalize();
    let mut bytes = vec![0; question.buffer_len()];
    question.serialize(&mut bytes);

    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.set_non_blocking(true)?;
    socket.send_to(&bytes, &netlink_sys::SocketAddr::new(0, 0), 0)?;
    let mut answers = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let is_over = take(&datagram, &mut answers)?;
        if is_over || flags & NLM_F_DUMP != NLM_F_DUMP {
            return Ok(answers);
        }
    }
}

/// Takes the messages of a datagram, without those that this crate does not parse. Returns whether
/// it ends a dump.
fn take(mut datagram: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
    // netlink(7): a message begins with its length, and at a multiple of four bytes.
    while let Some(length) = datagram.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes) as usize) {
        let Some(message) = datagram.get(..length).filter(|_| length >= HEADER) else { break };
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(message).map(|message| message.payload) {
            Ok(NetlinkPayload::InnerMessage(answer)) => answers.push(answer),
            Ok(NetlinkPayload::Error(error)) if error.code.is_some() => return Err(error.to_io()),
            Ok(NetlinkPayload::Done(_)) => return Ok(true),
            Ok(_) | Err(_) => {}
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// `struct nlmsghdr`.
const HEADER: usize = 16;

fn unanswered() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer lacks an attribute")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_has_a_route_an_mtu_and_no_pacing() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let index = route(([127, 0, 0, 1], 9).into(), local, None).expect("every machine has a loopback interface");
        assert_eq!(index, nix::net::if_::if_nametoindex("lo").expect("it exists"));
        let (name, mtu) = link(index).expect("it exists");
        assert_eq!(name, "lo");
        assert!(mtu >= 1500, "{mtu}");
        let qdiscs = qdiscs(index).expect("they can be listed");
        assert!(qdiscs.iter().all(|qdisc| qdisc.kind != "fq" && qdisc.kind != "etf"), "{qdiscs:?}");
    }

    #[test]
    fn an_error_is_the_kernels() {
        let error = link(i32::MAX as u32).expect_err("no interface has this number");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    proptest! {
        #[test]
        fn no_datagram_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = take(&bytes, &mut Vec::new());
        }

        #[test]
        fn no_message_makes_it_panic(kind in 16_u16..120, body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(body);
            let _ = take(&bytes, &mut Vec::new());
        }
    }
}
