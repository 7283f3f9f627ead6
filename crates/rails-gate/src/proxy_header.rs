//! The header of the PROXY protocol, version 2, which tells a service whose connection it gets.

use ::proxy_header::{ProxiedAddress, ProxyHeader};
use std::net::{IpAddr, SocketAddr};

/// The bytes that go in front of a connection which a program at `source` opened to `destination`.
/// Without a known source the header says that the connection is the proxy's own (LOCAL).
///
/// A header has addresses of one family. If only one of the two is an IPv4 address, it is written
/// as an IPv6 one (`::ffff:10.0.0.1`).
///
/// # References
/// <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2.2.
///
/// # Examples
/// ```
/// let header = rails_gate::proxy_header("10.0.0.1:4000".parse().ok(), "10.0.0.2:80".parse().unwrap());
/// assert!(header.starts_with(b"\r\n\r\n\0\r\nQUIT\n"));
/// ```
pub fn proxy_header(source: Option<SocketAddr>, destination: SocketAddr) -> Vec<u8> {
    let header = match source.map(|source| of_one_family(source, destination)) {
        Some((source, destination)) => ProxyHeader::with_address(ProxiedAddress::stream(source, destination)),
        None => ProxyHeader::with_local(),
    };
    let mut bytes = Vec::new();
    header.encode_v2(&mut bytes).expect("addresses of one family have a header, and memory takes it");
    bytes
}

fn of_one_family(source: SocketAddr, destination: SocketAddr) -> (SocketAddr, SocketAddr) {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let as_v6 = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    let (source, destination) = (canonical(source), canonical(destination));
    if source.is_ipv4() == destination.is_ipv4() { (source, destination) } else { (as_v6(source), as_v6(destination)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::proxy_header::ParseConfig;
    use proptest::prelude::*;

    #[test]
    fn a_header_byte_for_byte() {
        let header = super::proxy_header("10.0.0.1:258".parse().ok(), "[::ffff:10.0.0.2]:80".parse().unwrap());
        assert_eq!(header, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x01\x0a\0\0\x02\x01\x02\0\x50");
        let mixed = super::proxy_header("10.0.0.1:258".parse().ok(), "[fd00::1]:80".parse().unwrap());
        assert_eq!(mixed[12..16], *b"\x21\x21\0\x24");
        assert_eq!(mixed[16..32], *b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01");
    }

    proptest! {
        #[test]
        fn a_header_is_read_back(source in any::<SocketAddr>(), destination in any::<SocketAddr>()) {
            let bytes = super::proxy_header(Some(source), destination);
            let (header, length) = ProxyHeader::parse(&bytes, ParseConfig::default()).unwrap();
            prop_assert_eq!(length, bytes.len());
            let read = header.proxied_address().unwrap();
            for (read, written) in [(read.source, source), (read.destination, destination)] {
                prop_assert_eq!((read.ip().to_canonical(), read.port()), (written.ip().to_canonical(), written.port()));
            }
        }
    }
}
