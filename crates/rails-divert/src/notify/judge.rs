//! Decides from the address and the socket whether a connection could be diverted. Pure: the facts
//! are arguments.

use super::counters::Passed;
use socket2::{Domain, Protocol, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The loopback address to which a socket can be connected in place of its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// A socket of IPv4: 127.0.0.1.
    V4,
    /// A socket of IPv6 with a destination of IPv4: ::ffff:127.0.0.1.
    Mapped,
    /// A socket of IPv6: ::1.
    V6,
}

/// An address that names a host other than this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    /// The destination, of IPv4 if it was mapped into IPv6.
    pub(super) destination: SocketAddr,
    pub(super) side: Side,
}

/// A socket as the kernel describes it.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) domain: Domain,
    pub(super) kind: Type,
    pub(super) protocol: Option<Protocol>,
    pub(super) tcp: Option<TcpFacts>,
}

/// More about a socket of TCP.
#[derive(Debug, Clone)]
pub(super) struct TcpFacts {
    /// The state by its number in include/net/tcp_states.h.
    pub(super) state: u8,
    pub(super) local: IpAddr,
    pub(super) on_device: bool,
    pub(super) only_v6: bool,
    /// TCP-AO, `TCP_REPAIR` or `TCP_FASTOPEN_CONNECT`.
    pub(super) special: bool,
    pub(super) same_network: bool,
}

/// Reads the address that a program gave to `connect(2)`.
pub(super) fn target(address: &[u8]) -> Result<Target, Passed> {
    let family = address.first_chunk().map(|bytes| i32::from(u16::from_ne_bytes(*bytes)));
    let (destination, side) = match family.ok_or(Passed::BadAddress)? {
        libc::AF_INET => (v4(address).ok_or(Passed::BadAddress)?, Side::V4),
        libc::AF_INET6 => {
            let address = v6(address).ok_or(Passed::BadAddress)?;
            match address.ip().to_ipv4_mapped() {
                Some(ip) => (SocketAddr::from((ip, address.port())), Side::Mapped),
                None => (SocketAddr::V6(address), Side::V6),
            }
        }
        _ => return Err(Passed::Family),
    };
    let ip = destination.ip();
    if ip.is_loopback() {
        return Err(Passed::Loopback);
    }
    let broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    if ip.is_unspecified() || ip.is_multicast() || broadcast || destination.port() == 0 {
        return Err(Passed::NoHost);
    }
    Ok(Target { destination, side })
}

/// Decides whether a connection of this socket to an address of this side could be diverted.
pub(super) fn socket(facts: &Facts, side: Side) -> Result<(), Passed> {
    let tcp = match &facts.tcp {
        Some(tcp) if facts.kind == Type::STREAM && facts.protocol == Some(Protocol::TCP) => tcp,
        _ => return Err(Passed::NotTcp),
    };
    let fits = match side {
        Side::V4 => facts.domain == Domain::IPV4,
        Side::Mapped => facts.domain == Domain::IPV6 && !tcp.only_v6,
        Side::V6 => facts.domain == Domain::IPV6,
    };
    let refusals = [
        (!fits, Passed::OtherFamily),
        (tcp.state != CLOSED, Passed::InUse),
        // After a connection that failed without blocking, the kernel keeps the source that it had chosen,
        // and the error that the next connect(2) returns.
        (!tcp.local.to_canonical().is_unspecified(), Passed::Source),
        (tcp.on_device, Passed::Device),
        (tcp.special, Passed::Special),
        (!tcp.same_network, Passed::Network),
    ];
    refusals.into_iter().find(|(refused, _)| *refused).map_or(Ok(()), |(_, reason)| Err(reason))
}

/// The fields of `struct sockaddr_in`, the rest of which the kernel does not heed.
fn v4(address: &[u8]) -> Option<SocketAddr> {
    let [_, _, port @ .., a, b, c, d] = address.get(..16)?.first_chunk::<8>()?;
    Some(SocketAddr::from(([*a, *b, *c, *d], u16::from_be_bytes(*port))))
}

/// The fields of `struct sockaddr_in6`; the last may be missing, as it was in RFC 2133.
fn v6(address: &[u8]) -> Option<SocketAddrV6> {
    let field = |at: usize| address.get(at..at + 4)?.first_chunk::<4>().copied();
    let port = u16::from_be_bytes(*address.get(2..4)?.first_chunk()?);
    let ip = Ipv6Addr::from(*address.get(8..24)?.first_chunk::<16>()?);
    let scope = field(24).map_or(0, u32::from_ne_bytes);
    Some(SocketAddrV6::new(ip, port, u32::from_ne_bytes(field(4)?), scope))
}

/// `TCP_CLOSE`: the state of a socket that neither is connected nor listens.
const CLOSED: u8 = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use socket2::SockAddr;

    fn bytes(address: &str) -> Vec<u8> {
        let address = SockAddr::from(address.parse::<SocketAddr>().expect("an address"));
        // The storage is longer than the address, as in many programs.
        let mut bytes = (address.family()).to_ne_bytes().to_vec();
        match address.as_socket().expect("of IP") {
            SocketAddr::V4(v4) => {
                bytes.extend(v4.port().to_be_bytes());
                bytes.extend(v4.ip().octets());
                bytes.resize(16, 0);
            }
            SocketAddr::V6(v6) => {
                bytes.extend(v6.port().to_be_bytes());
                bytes.extend(v6.flowinfo().to_ne_bytes());
                bytes.extend(v6.ip().octets());
                bytes.extend(v6.scope_id().to_ne_bytes());
            }
        }
        bytes
    }

    fn facts(domain: Domain) -> Facts {
        let tcp = TcpFacts {
            state: CLOSED,
            local: if domain == Domain::IPV4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() },
            on_device: false,
            only_v6: false,
            special: false,
            same_network: true,
        };
        Facts { domain, kind: Type::STREAM, protocol: Some(Protocol::TCP), tcp: Some(tcp) }
    }

    #[test]
    fn addresses_of_hosts_are_targets() {
        for (text, destination, side) in [
            ("10.99.0.2:80", "10.99.0.2:80", Side::V4),
            ("[fd00::2]:80", "[fd00::2]:80", Side::V6),
            ("[fe80::2%3]:80", "[fe80::2%3]:80", Side::V6),
            ("[::ffff:10.99.0.2]:80", "10.99.0.2:80", Side::Mapped),
        ] {
            let expected = Target { destination: destination.parse().expect("an address"), side };
            assert_eq!(target(&bytes(text)), Ok(expected), "{text}");
            let mut longer = bytes(text);
            longer.resize(128, 0);
            assert_eq!(target(&longer), Ok(expected), "{text} in a sockaddr_storage");
        }
        // Without its last field, the address has no scope.
        let short = target(&bytes("[fe80::2%3]:80")[..24]).expect("it is long enough");
        assert_eq!(short.destination, "[fe80::2]:80".parse().expect("an address"));
    }

    #[test]
    fn other_addresses_pass() {
        for (text, reason) in [
            ("127.0.0.1:80", Passed::Loopback),
            ("127.255.0.3:80", Passed::Loopback),
            ("[::1]:80", Passed::Loopback),
            ("[::ffff:127.0.0.1]:80", Passed::Loopback),
            ("0.0.0.0:80", Passed::NoHost),
            ("[::]:80", Passed::NoHost),
            ("[::ffff:0.0.0.0]:80", Passed::NoHost),
            ("224.0.0.1:80", Passed::NoHost),
            ("255.255.255.255:80", Passed::NoHost),
            ("[ff02::1]:80", Passed::NoHost),
            ("10.99.0.2:0", Passed::NoHost),
        ] {
            assert_eq!(target(&bytes(text)), Err(reason), "{text}");
        }
        assert_eq!(target(&[]), Err(Passed::BadAddress));
        assert_eq!(target(&[2]), Err(Passed::BadAddress));
        assert_eq!(target(&bytes("10.99.0.2:80")[..15]), Err(Passed::BadAddress));
        assert_eq!(target(&bytes("[fd00::2]:80")[..23]), Err(Passed::BadAddress));
        assert_eq!(target(&[0, 0]), Err(Passed::Family), "no address: the connection is cut");
        assert_eq!(target(b"\x01\x00/run/nscd/socket\0"), Err(Passed::Family));
    }

    #[test]
    fn a_fresh_socket_of_tcp_may_be_diverted() {
        assert_eq!(socket(&facts(Domain::IPV4), Side::V4), Ok(()));
        assert_eq!(socket(&facts(Domain::IPV6), Side::V6), Ok(()));
        assert_eq!(socket(&facts(Domain::IPV6), Side::Mapped), Ok(()));
    }

    #[test]
    fn another_socket_passes() {
        let change = |change: &dyn Fn(&mut Facts)| {
            let mut facts = facts(Domain::IPV6);
            change(&mut facts);
            socket(&facts, Side::Mapped).expect_err("it passes")
        };
        let tcp = |change_tcp: &dyn Fn(&mut TcpFacts)| change(&|facts| change_tcp(facts.tcp.as_mut().expect("of TCP")));
        assert_eq!(change(&|facts| facts.kind = Type::DGRAM), Passed::NotTcp);
        assert_eq!(change(&|facts| facts.protocol = Some(Protocol::MPTCP)), Passed::NotTcp);
        assert_eq!(change(&|facts| facts.tcp = None), Passed::NotTcp);
        assert_eq!(change(&|facts| facts.domain = Domain::IPV4), Passed::OtherFamily);
        assert_eq!(tcp(&|tcp| tcp.only_v6 = true), Passed::OtherFamily);
        assert_eq!(tcp(&|tcp| tcp.state = 1), Passed::InUse);
        assert_eq!(tcp(&|tcp| tcp.local = "::ffff:10.0.0.1".parse().expect("an address")), Passed::Source);
        assert_eq!(tcp(&|tcp| tcp.on_device = true), Passed::Device);
        assert_eq!(tcp(&|tcp| tcp.special = true), Passed::Special);
        assert_eq!(tcp(&|tcp| tcp.same_network = false), Passed::Network);
        assert_eq!(socket(&facts(Domain::IPV6), Side::V4), Err(Passed::OtherFamily));
        assert_eq!(socket(&facts(Domain::IPV4), Side::V6), Err(Passed::OtherFamily));
    }

    #[test]
    fn a_mapped_wildcard_is_no_source() {
        let mut facts = facts(Domain::IPV6);
        facts.tcp.as_mut().expect("of TCP").local = "::ffff:0.0.0.0".parse().expect("an address");
        assert_eq!(socket(&facts, Side::Mapped), Ok(()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..=128)) {
            if let Ok(target) = target(&bytes) {
                prop_assert!(!target.destination.ip().to_canonical().is_loopback());
                prop_assert!(target.destination.port() != 0);
            }
        }
    }
}
