//! Lanes: their local ends, and the addresses that they may begin at.

use super::{LocalEnd, PlannedRail, rail_request::MAX_RAILS};
use rails_topo::{InterfaceAddress, Nic, NicKind};
use std::net::{IpAddr, Ipv4Addr};

/// A lane: its NIC, and its local address and end.
#[derive(Clone)]
pub(super) struct Lane<'a> {
    /// `None` leaves the interface to the routes.
    pub(super) nic: Option<&'a Nic>,
    /// `None` leaves the address to the kernel.
    pub(super) address: Option<IpAddr>,
    pub(super) end: LocalEnd,
}

/// The interface and the address of an earlier rail's lane.
#[derive(Clone, Copy)]
pub(super) struct UsedLane<'a> {
    interface: Option<&'a str>,
    address: Option<IpAddr>,
}

impl<'a> UsedLane<'a> {
    pub(super) fn interface(self) -> Option<&'a str> {
        self.interface
    }

    pub(super) fn address(self) -> Option<IpAddr> {
        self.address
    }

    pub(super) fn is_on(&self, nic: &Nic) -> bool {
        self.interface == Some(&nic.name)
    }
}

/// The lane of a resolved rail, which may have none.
impl<'a> From<Option<&Lane<'a>>> for UsedLane<'a> {
    fn from(lane: Option<&Lane<'a>>) -> Self {
        let interface = lane.and_then(|lane| lane.nic).map(|nic| nic.name.as_str());
        Self { interface, address: lane.and_then(|lane| lane.address) }
    }
}

impl<'a> From<&'a PlannedRail> for UsedLane<'a> {
    fn from(rail: &'a PlannedRail) -> Self {
        Self { interface: rail.interface.as_deref(), address: rail.address }
    }
}

/// The lane of the next rail on this NIC, beside those of earlier rails: the first one is bound to
/// the interface, each further one to another address of it as well. A NIC without one more address
/// has its first address shared.
pub(super) fn next_lane<'a>(earlier: &[UsedLane<'_>], nic: &'a Nic) -> Lane<'a> {
    let device = nic.name.clone();
    let held = || nic.addresses.iter().map(|address| address.ip).filter(|ip| is_usable(*ip));
    let is_loopback = nic.kind == NicKind::Loopback;
    let first = held().next().or_else(|| is_loopback.then(|| loopback_address(0)));
    let is_free = |ip: &IpAddr| earlier.iter().all(|lane| lane.address != Some(*ip));
    if earlier.iter().any(|lane| lane.is_on(nic)) {
        let alike = held().filter(|ip| !is_loopback && first.is_some_and(|first| first.is_ipv4() == ip.is_ipv4()));
        let loopback = (0..MAX_RAILS).filter(|_| is_loopback).map(loopback_address);
        if let Some(address) = alike.chain(loopback).find(is_free) {
            let end = LocalEnd::DeviceAddress { device, address };
            return Lane { nic: Some(nic), address: Some(address), end };
        }
    }
    Lane { nic: Some(nic), address: first, end: LocalEnd::Device(device) }
}

/// The addresses that a lane may begin at, beside lanes that are planned for the addresses
/// `planned`. An address that one rail is planned for is no other rail's.
pub(super) fn own_addresses(lane: Option<&Lane<'_>>, planned: &[IpAddr]) -> Vec<InterfaceAddress> {
    let Some(lane) = lane else { return Vec::new() };
    let mut addresses = usable_addresses(lane);
    retain_own(&mut addresses, lane.address, planned);
    addresses
}

/// Removes the addresses that other lanes are planned for than the one that is planned for `own`.
pub(super) fn retain_own(addresses: &mut Vec<InterfaceAddress>, own: Option<IpAddr>, planned: &[IpAddr]) {
    addresses.retain(|held| Some(held.ip) == own || !planned.contains(&held.ip));
}

/// Whether the interface has the address; the loopback interface has all of 127.0.0.0/8, though one
/// of them is listed.
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
        let ((own, max_prefix), (peer, _)) = (bits(held.ip), bits(peer));
        let prefix = u32::from(held.prefix_len).min(max_prefix);
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

/// The addresses that a lane may begin at: one address, or all addresses of its interface. Where
/// the routes decide, the one at which they have it begin.
fn usable_addresses(lane: &Lane<'_>) -> Vec<InterfaceAddress> {
    let held = lane.nic.map(|nic| nic.addresses.as_slice()).unwrap_or_default();
    match (&lane.end, lane.address) {
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
