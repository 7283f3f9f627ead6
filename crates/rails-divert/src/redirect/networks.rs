//! From the networks that are asked for to the table of prefixes that the kernel searches.

use super::{
    error::NetworkError,
    limits::{MAX_NETWORKS, MAX_PORT_RANGES},
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

/// One prefix of the table.
///
/// IPv4 prefixes are those of IPv4-mapped IPv6 addresses (RFC 4291, section 2.5.5.2), so that one
/// table has both families.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// `struct bpf_lpm_trie_key`: the length in bits, and the address.
    pub(super) key: [u8; KEY_BYTES],
    /// The ranges of ports, each as first and last, in the machine's order of bytes.
    pub(super) ports: [u8; PORTS_BYTES],
}

impl Entry {
    fn new(network: IpNet, ports: &[RangeInclusive<u16>]) -> Self {
        let (address, mapped_bits) = match network.network() {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), MAPPED_BITS),
            IpAddr::V6(address) => (address, 0),
        };
        let bits = u32::from(network.prefix_len()) + mapped_bits;
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(&bits.to_ne_bytes());
        key[4..].copy_from_slice(&address.octets());

        let mut entry = Self { key, ports: [0; PORTS_BYTES] };
        let unused = std::iter::repeat(NO_PORT);
        let ranges = ports.iter().cloned().chain(unused);
        for (range, place) in ranges.zip(entry.ports.as_chunks_mut::<4>().0) {
            place[..2].copy_from_slice(&range.start().to_ne_bytes());
            place[2..].copy_from_slice(&range.end().to_ne_bytes());
        }
        entry
    }
}

/// The table of some networks, of which a connection must be in at least one.
///
/// The kernel finds the longest prefix alone. So each prefix has the ports of the wider ones too,
/// and addresses that are never diverted have prefixes of their own, without ports.
pub(super) fn entries(networks: &[(IpNet, RangeInclusive<u16>)]) -> Result<Vec<Entry>, NetworkError> {
    if networks.len() > MAX_NETWORKS {
        return Err(NetworkError::TooMany { networks: networks.len() });
    }
    let mut asked: BTreeMap<IpNet, Vec<RangeInclusive<u16>>> = BTreeMap::new();
    // It keeps IPv6 networks as wide as ::/0 from having IPv4's addresses, which are mapped into it.
    asked.insert(Ipv4Net::default().into(), Vec::new());
    for (network, ports) in networks {
        let network = unmapped(*network);
        if ports.is_empty() {
            return Err(NetworkError::NoPort { network, ports: ports.clone() });
        }
        if never_diverted().any(|never| never.contains(&network)) {
            return Err(NetworkError::NeverDiverted { network });
        }
        asked.entry(network).or_default().push(ports.clone());
    }

    let mut entries = Vec::new();
    // The networks that the present one is part of, from the widest on: they come before it.
    let mut wider: Vec<(IpNet, Vec<RangeInclusive<u16>>)> = Vec::new();
    for (network, mut ports) in asked {
        while wider.last().is_some_and(|(last, _)| !last.contains(&network)) {
            wider.pop();
        }
        ports.extend(wider.last().into_iter().flat_map(|(_, ports)| ports.iter().cloned()));
        let ports = joined(ports);
        if ports.len() > MAX_PORT_RANGES {
            return Err(NetworkError::TooManyPortRanges { network, ranges: ports.len() });
        }
        entries.push(Entry::new(network, &ports));
        wider.push((network, ports));
    }
    entries.extend(never_diverted().map(|never| Entry::new(never, &[])));
    Ok(entries)
}

/// Whether one of the networks is of IPv6.
pub(super) fn has_ipv6(networks: &[(IpNet, RangeInclusive<u16>)]) -> bool {
    networks.iter().any(|(network, _)| matches!(unmapped(*network), IpNet::V6(_)))
}

/// The network without bits behind its prefix, and of IPv4 if its addresses are mapped ones.
fn unmapped(network: IpNet) -> IpNet {
    let network = network.trunc();
    match network {
        IpNet::V6(mapped) => match mapped.network().to_ipv4_mapped() {
            Some(address) if u32::from(mapped.prefix_len()) >= MAPPED_BITS => {
                let bits = mapped.prefix_len() - MAPPED_BITS as u8;
                Ipv4Net::new(address, bits).expect("at most 128 bits are at most 32 behind the first 96").into()
            }
            _ => network,
        },
        IpNet::V4(_) => network,
    }
}

/// Addresses of this host, and those that mean nothing without an interface.
fn never_diverted() -> impl Iterator<Item = IpNet> {
    let ipv4 = [(Ipv4Addr::LOCALHOST, 8), (Ipv4Addr::UNSPECIFIED, 32)];
    let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
    let ipv6 = [(Ipv6Addr::LOCALHOST, 128), (Ipv6Addr::UNSPECIFIED, 128), (link_local, 10)];
    let ipv4 = ipv4.map(|(address, bits)| Ipv4Net::new_assert(address, bits).trunc().into());
    ipv4.into_iter().chain(ipv6.map(|(address, bits)| Ipv6Net::new_assert(address, bits).into()))
}

/// The same ports in as few ranges as possible, in ascending order.
fn joined(mut ports: Vec<RangeInclusive<u16>>) -> Vec<RangeInclusive<u16>> {
    ports.sort_by_key(|range| *range.start());
    let mut joined: Vec<RangeInclusive<u16>> = Vec::new();
    for range in ports {
        match joined.last_mut() {
            Some(last) if u32::from(*range.start()) <= u32::from(*last.end()) + 1 => {
                *last = *last.start()..=*last.end().max(range.end());
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// Entries of the table beside those that are asked for.
pub(super) const OWN_ENTRIES: usize = 6;
pub(super) const KEY_BYTES: usize = 20;
pub(super) const PORTS_BYTES: usize = 4 * MAX_PORT_RANGES;

/// The bits before an IPv4 address that is mapped into IPv6.
const MAPPED_BITS: u32 = 96;
/// A range that holds no port.
#[expect(clippy::reversed_empty_ranges, reason = "an empty range is meant")]
const NO_PORT: RangeInclusive<u16> = 1..=0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    const ALL: RangeInclusive<u16> = 0..=u16::MAX;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    /// What the kernel's programs do with the table.
    fn diverts(entries: &[Entry], destination: SocketAddr) -> bool {
        let address = match destination.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let covering = entries.iter().filter_map(|entry| {
            let bits = u32::from_ne_bytes(entry.key[..4].try_into().unwrap());
            let prefix = Ipv6Addr::from(<[u8; 16]>::try_from(&entry.key[4..]).unwrap());
            Ipv6Net::new_assert(prefix, bits as u8).contains(&address).then_some((bits, entry))
        });
        let (_, longest) = covering.max_by_key(|(bits, _)| *bits).unzip();
        longest.is_some_and(|entry| {
            entry.ports.as_chunks::<4>().0.iter().any(|range| {
                let [first, last] = [[range[0], range[1]], [range[2], range[3]]].map(u16::from_ne_bytes);
                (first..=last).contains(&destination.port())
            })
        })
    }

    #[test]
    fn destination_of_any_network_is_diverted() {
        let table =
            entries(&[(net("10.99.0.0/16"), 80..=80), (net("10.99.0.5/32"), 443..=443), (net("fd00::/64"), ALL)])
                .unwrap();
        for (destination, expected) in [
            ("10.99.0.4:80", true),
            ("10.99.0.4:443", false),
            ("10.99.0.5:443", true),
            // The wider network has it.
            ("10.99.0.5:80", true),
            ("10.98.0.5:80", false),
            ("[fd00::7]:22", true),
            ("[fd00:0:0:1::7]:22", false),
            ("[::ffff:10.99.0.4]:80", true),
        ] {
            assert_eq!(diverts(&table, destination.parse().unwrap()), expected, "{destination}");
        }
    }

    #[test]
    fn whole_families_without_this_host_or_each_other() {
        let ipv6 = entries(&[(net("::/0"), ALL)]).unwrap();
        let ipv4 = entries(&[(net("0.0.0.0/0"), ALL)]).unwrap();
        for (destination, by_ipv6, by_ipv4) in [
            ("[2001:db8::1]:1", true, false),
            ("192.0.2.1:1", false, true),
            ("[::ffff:192.0.2.1]:1", false, true),
            ("127.0.0.1:1", false, false),
            ("127.9.9.9:1", false, false),
            ("0.0.0.0:1", false, false),
            ("[::1]:1", false, false),
            ("[::]:1", false, false),
            ("[fe80::1]:1", false, false),
            ("[::ffff:127.0.0.1]:1", false, false),
        ] {
            let destination = destination.parse().unwrap();
            assert_eq!(diverts(&ipv6, destination), by_ipv6, "{destination}");
            assert_eq!(diverts(&ipv4, destination), by_ipv4, "{destination}");
        }
    }

    #[test]
    fn mapped_networks_are_of_ipv4() {
        let mapped = [(net("::ffff:10.0.0.0/104"), ALL)];
        assert!(!has_ipv6(&mapped));
        assert_eq!(entries(&mapped), entries(&[(net("10.0.0.0/8"), ALL)]));
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "an empty range is refused")]
    fn networks_that_cannot_be_are_refused() {
        for never in ["127.0.0.0/8", "127.0.0.7/32", "::1/128", "fe80::/64", "0.0.0.0/32"] {
            let refused = entries(&[(net(never), ALL)]);
            assert_eq!(refused, Err(NetworkError::NeverDiverted { network: net(never) }));
        }
        let refused = entries(&[(net("10.0.0.0/8"), 2..=1)]);
        assert_eq!(refused, Err(NetworkError::NoPort { network: net("10.0.0.0/8"), ports: 2..=1 }));
    }

    #[test]
    fn ranges_of_ports_are_bounded_after_they_are_joined() {
        let apart = |count: u16| (0..count).map(|i| (net("10.0.0.0/8"), 3 * i..=3 * i)).collect::<Vec<_>>();
        let touching = (0..100).map(|i| (net("10.0.0.0/8"), i..=i)).collect::<Vec<_>>();
        assert!(entries(&apart(16)).is_ok());
        assert_eq!(
            entries(&apart(17)),
            Err(NetworkError::TooManyPortRanges { network: net("10.0.0.0/8"), ranges: 17 })
        );
        assert!(entries(&touching).is_ok());
    }

    #[test]
    fn networks_are_bounded() {
        let many = |count: u32| (0..count).map(|i| (IpNet::from(IpAddr::from(Ipv4Addr::from(i << 8 | 1))), ALL));
        let at_most = many(MAX_NETWORKS as u32).collect::<Vec<_>>();
        assert_eq!(entries(&at_most).map(|entries| entries.len()), Ok(MAX_NETWORKS + OWN_ENTRIES));
        let more = many(MAX_NETWORKS as u32 + 1).collect::<Vec<_>>();
        assert_eq!(entries(&more), Err(NetworkError::TooMany { networks: MAX_NETWORKS + 1 }));
    }

    fn some_network() -> impl Strategy<Value = (IpNet, RangeInclusive<u16>)> {
        // Few addresses, so that networks lie in each other and destinations in them.
        let network = prop_oneof![
            (0_u32..16, 24_u8..=32)
                .prop_map(|(low, bits)| { IpNet::from(Ipv4Net::new_assert(Ipv4Addr::from(0x0a00_0000 | low), bits)) }),
            (0_u128..16, 120_u8..=128)
                .prop_map(|(low, bits)| IpNet::from(Ipv6Net::new_assert(Ipv6Addr::from(0xfd << 120 | low), bits))),
        ];
        (network, 0_u16..8, 0_u16..3).prop_map(|(network, first, more)| (network, first..=first + more))
    }

    proptest! {
        #[test]
        fn table_says_the_same_as_the_networks(
            networks in prop::collection::vec(some_network(), 0..12),
            low in 0_u8..20,
            is_ipv6: bool,
            port in 0_u16..12,
        ) {
            let address = if is_ipv6 {
                IpAddr::from(Ipv6Addr::from(0xfd << 120 | u128::from(low)))
            } else {
                IpAddr::from([10, 0, 0, low])
            };
            let expected = networks.iter().any(|(network, ports)| network.contains(&address) && ports.contains(&port));
            prop_assert_eq!(diverts(&entries(&networks).unwrap(), SocketAddr::new(address, port)), expected);
        }
    }
}
