//! The local ends and addresses of planned lanes.

use super::{LocalEnd, PlannedRail, rail_request::MAX_RAILS};
use rails_topo::{InterfaceAddress, Nic, NicKind};
use std::net::{IpAddr, Ipv4Addr};

/// The address and the local end of the next rail on this NIC, beside those that are planned: the first rail is bound to
/// the interface, each further one to another address of it as well. A NIC without one more address has its first
/// address shared.
pub(super) fn next_end(planned: &[PlannedRail], nic: &Nic) -> (Option<IpAddr>, LocalEnd) {
    let device = nic.name.clone();
    let held = || nic.addresses.iter().map(|address| address.ip).filter(|ip| is_usable(*ip));
    let is_loopback = nic.kind == NicKind::Loopback;
    let first = held().next().or_else(|| is_loopback.then(|| loopback_address(0)));
    let is_free = |ip: &IpAddr| planned.iter().all(|rail| rail.address != Some(*ip));
    if planned.iter().any(|rail| rail.interface.as_ref() == Some(&device)) {
        let alike = held().filter(|ip| !is_loopback && first.is_some_and(|first| first.is_ipv4() == ip.is_ipv4()));
        let loopback = (0..MAX_RAILS).filter(|_| is_loopback).map(loopback_address);
        if let Some(address) = alike.chain(loopback).find(is_free) {
            return (Some(address), LocalEnd::DeviceAddress { device, address });
        }
    }
    (first, LocalEnd::Device(device))
}

/// Gives an address that one rail was planned for to no other rail, and notes the addresses that several rails share.
pub(super) fn divide(rails: &mut [PlannedRail], notes: &mut Vec<String>) {
    let planned: Vec<Option<IpAddr>> = rails.iter().map(|rail| rail.address).collect();
    for rail in rails {
        let own = rail.address;
        rail.addresses.retain(|held| Some(held.ip) == own || !planned.contains(&Some(held.ip)));
    }
    let mut known: Vec<IpAddr> = Vec::new();
    for address in planned.iter().flatten().filter(|address| !address.is_unspecified()) {
        let sharing = planned.iter().filter(|other| **other == Some(*address)).count();
        if sharing > 1 && !known.contains(address) {
            known.push(*address);
            notes.push(format!("{sharing} rails share the address {address}"));
        }
    }
}

/// Whether the interface has the address; the loopback interface has all of 127.0.0.0/8, though one of them is listed.
pub(super) fn has_address(nic: &Nic, address: IpAddr) -> bool {
    let is_held = nic.addresses.iter().any(|held| held.ip == address);
    is_held || (address.is_loopback() && nic.kind == NicKind::Loopback)
}

/// Whether the address is in the network of one of the interface's addresses.
pub(super) fn reaches(nic: &Nic, peer: IpAddr) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    };
    nic.addresses.iter().filter(|held| held.ip.is_ipv4() == peer.is_ipv4() && is_usable(held.ip)).any(|held| {
        let ((own, most), (peer, _)) = (bits(held.ip), bits(peer));
        let prefix = u32::from(held.prefix_len).min(most);
        (own ^ peer).leading_zeros() >= prefix
    })
}

/// Addresses of the loopback interface (RFC 1122, section 3.2.1.3).
pub(super) fn loopback_address(index: usize) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, index as u8 + 1).into()
}

/// Whether a peer on another machine can reach the address without naming an interface.
pub(super) fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_unspecified(),
        IpAddr::V6(address) => !address.is_unspecified() && !address.is_unicast_link_local(),
    }
}

/// The addresses that a lane with that local end may begin at: one address, or all addresses of its interface. Where
/// the routes decide, it is the address that they have it begin at now.
pub(super) fn usable_addresses(nic: Option<&Nic>, address: Option<IpAddr>, end: &LocalEnd) -> Vec<InterfaceAddress> {
    let held = nic.map(|nic| nic.addresses.as_slice()).unwrap_or_default();
    match (end, address) {
        (LocalEnd::Address(_) | LocalEnd::DeviceAddress { .. } | LocalEnd::Any, Some(ip)) => held
            .iter()
            // Of 127.0.0.0/8 one address is listed, and with its prefix it stands for all of them.
            .filter(|held| {
                held.ip == ip || (ip.is_loopback() && held.ip.is_loopback() && held.ip.is_ipv4() == ip.is_ipv4())
            })
            .take(1)
            .map(|held| InterfaceAddress { ip, prefix_len: held.prefix_len })
            .collect(),
        (LocalEnd::Device(_), _) => held.iter().filter(|held| !held.ip.is_unspecified()).cloned().collect(),
        (_, None) => Vec::new(),
    }
}
