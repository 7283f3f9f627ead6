//! IP addresses, from `/proc/net/if_inet6`.
//!
//! No file states IPv4 addresses by interface: `/proc/net/fib_trie` lists the addresses without
//! interfaces, and `/proc/net/route` the networks of interfaces without their addresses. Together
//! they tell where an address is in the network of one interface alone.

use super::super::root::Root;
use crate::InterfaceAddress;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, Ipv6Addr},
};

/// The addresses of version 6, by interface.
pub(super) fn of_version_6(root: &Root) -> BTreeMap<String, Vec<InterfaceAddress>> {
    parse(&root.text("proc/net/if_inet6").unwrap_or_default())
}

/// Each line is address, index, length of the prefix, scope, flags (all in hexadecimal) and name.
fn parse(if_inet6: &str) -> BTreeMap<String, Vec<InterfaceAddress>> {
    let mut addresses: BTreeMap<String, Vec<InterfaceAddress>> = BTreeMap::new();
    for line in if_inet6.lines() {
        if let Some((name, address)) = address(line) {
            addresses.entry(name.to_owned()).or_default().push(address);
        }
    }
    addresses
}

fn address(line: &str) -> Option<(&str, InterfaceAddress)> {
    let mut fields = line.split_whitespace();
    let ip = Ipv6Addr::from_bits(u128::from_str_radix(fields.next()?, 16).ok()?);
    let prefix_len = u8::from_str_radix(fields.nth(1)?, 16).ok().filter(|length| *length <= 128)?;
    let name = fields.nth(2)?;
    fields.next().is_none().then_some((name, InterfaceAddress { ip: ip.into(), prefix_len }))
}

/// The addresses of version 4 and of the interfaces whose networks they are in.
pub(super) fn of_version_4(root: &Root) -> Vec<(String, InterfaceAddress)> {
    let file = |name: &str| root.text(&format!("proc/net/{name}")).unwrap_or_default();
    attributed(&local(&file("fib_trie")), &networks(&file("route")))
}

/// A line `|-- 192.0.2.1` is a local address where the next one is `/32 host LOCAL`
/// (net/ipv4/fib_trie.c). Both tables of routes can list it.
fn local(fib_trie: &str) -> BTreeSet<Ipv4Addr> {
    let pairs = fib_trie.lines().zip(fib_trie.lines().skip(1));
    let local = pairs.filter(|(_, kind)| kind.trim() == "/32 host LOCAL");
    local.filter_map(|(address, _)| address.trim().strip_prefix("|-- ")?.parse().ok()).collect()
}

/// A network without a gateway: its interface, address and mask.
type Network<'a> = (&'a str, u32, u32);

/// The networks right at an interface. A line has interface, destination, gateway, four numbers,
/// and mask, with addresses in hexadecimal and in the order of the machine's bytes
/// (net/ipv4/fib_trie.c).
fn networks(route: &str) -> Vec<Network<'_>> {
    let network = |line| {
        let fields: Vec<&str> = str::split_whitespace(line).collect();
        let bits = |index: usize| Some(u32::from_be(u32::from_str_radix(fields.get(index)?, 16).ok()?));
        let (destination, gateway, mask) = (bits(1)?, bits(2)?, bits(7)?);
        (gateway == 0 && mask != 0).then_some((*fields.first()?, destination, mask))
    };
    route.lines().filter_map(network).collect()
}

/// Each address with the interface of its smallest network, where that is one.
fn attributed(local: &BTreeSet<Ipv4Addr>, networks: &[Network<'_>]) -> Vec<(String, InterfaceAddress)> {
    let interface = |ip: Ipv4Addr| {
        if ip.is_loopback() {
            return Some(("lo".to_owned(), InterfaceAddress { ip: ip.into(), prefix_len: 8 }));
        }
        let around = networks.iter().filter(|(_, network, mask)| ip.to_bits() & mask == *network);
        let (name, _, mask) = around.clone().max_by_key(|(_, _, mask)| *mask)?;
        let is_other = |other: &Network<'_>| other.2 == *mask && other.0 != *name;
        let is_its = !around.clone().any(is_other);
        is_its.then(|| (name.to_string(), InterfaceAddress { ip: ip.into(), prefix_len: mask.leading_ones() as u8 }))
    };
    local.iter().copied().filter_map(interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_of_version_4_are_those_of_one_network() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 192.0.2.0\n        /24 link UNICAST\n\
                    Local:\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 192.0.2.2\n        /32 host LOCAL\n\
                    |-- 192.0.2.255\n /32 link BROADCAST\n |-- 10.0.0.1\n /32 host LOCAL\n |-- 10.1.0.1\n /32 host LOCAL\n\
                    |-- nonsense\n /32 host LOCAL\n |-- 203.0.113.1\n /32 host LOCAL";
        let route = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                     eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
                     eth2\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
                     eth3\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\nnonsense";
        let of = |name: &str, ip: &str, prefix_len| {
            (name.to_owned(), InterfaceAddress { ip: ip.parse().unwrap(), prefix_len })
        };
        let expected = [of("eth1", "10.0.0.1", 8), of("lo", "127.0.0.1", 8), of("eth0", "192.0.2.2", 24)];
        assert_eq!(attributed(&local(trie), &networks(route)), expected, "10.1.0.1 is in the network of two");
    }

    #[test]
    fn addresses_of_version_6_are_read_by_interface() {
        let text = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fe80000000000000000000fffe000001 02 40 20 80     eth0\nnonsense\n\
                    fe80000000000000000000fffe000002 02 81 20 80     eth0\n\
                    fe80000000000000000000fffe000003 02 40 20 80";
        let addresses = parse(text);
        let of = |name: &str, ip: &str, prefix_len| {
            (name.to_owned(), vec![InterfaceAddress { ip: ip.parse().unwrap(), prefix_len }])
        };
        assert_eq!(addresses, BTreeMap::from([of("eth0", "fe80::ff:fe00:1", 64), of("lo", "::1", 128)]));
    }
}
