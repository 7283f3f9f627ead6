//! IP addresses, from `/proc/net/if_inet6`.
//!
//! No file states IPv4 addresses by interface: `/proc/net/fib_trie` lists the addresses without interfaces, and
//! `/proc/net/route` the networks of interfaces without their addresses.

use super::super::root::Root;
use crate::InterfaceAddress;
use std::{collections::BTreeMap, net::Ipv6Addr};

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

#[cfg(test)]
mod tests {
    use super::*;

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
