//! The relation of two addresses.

use super::LaneCandidate;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// The relation of the two addresses of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Relation {
    /// Both addresses are in one subnet: the longer of the known prefixes holds for both, or the
    /// addresses are equal. A prefix of all bits, or of none, says nothing about an address's
    /// neighbours and counts as unknown.
    Subnet {
        /// The network's address.
        network: IpAddr,
        /// The network's prefix in bits.
        prefix_len: u8,
    },
    /// Both addresses are link-local ones of IPv6 with the same scope: the caller has reached the
    /// remote address from the interface of the local one.
    Link,
    /// Both addresses are loopback addresses of one family.
    Loopback,
    /// The addresses are in different or unknown subnets: the routes decide.
    Routed,
}

impl Relation {
    /// The relation that pairs two ends; `None` if there is no known one.
    pub(super) fn direct(ours: &LaneCandidate, theirs: &LaneCandidate) -> Option<Self> {
        let (near, far) = (ours.ip(), theirs.ip());
        if near.is_unspecified() || far.is_unspecified() || near.is_ipv4() != far.is_ipv4() {
            return None;
        }
        if near.is_loopback() || far.is_loopback() {
            return (near.is_loopback() && far.is_loopback()).then_some(Self::Loopback);
        }
        if is_link_local(near) || is_link_local(far) {
            let scope = scope(&ours.address.socket);
            let same =
                is_link_local(near) && is_link_local(far) && scope != 0 && scope == self::scope(&theirs.address.socket);
            return same.then_some(Self::Link);
        }
        let bits = bits_of(near);
        let known =
            [ours.prefix_len, theirs.prefix_len].into_iter().flatten().filter(|length| (1..bits).contains(length));
        match known.max() {
            Some(prefix_len) => {
                let network = network(near, prefix_len);
                (network == self::network(far, prefix_len)).then_some(Self::Subnet { network, prefix_len })
            }
            None => (near == far).then_some(Self::Subnet { network: near, prefix_len: bits }),
        }
    }

    /// [`Relation::Routed`], if packets could get from one to the other by routes.
    pub(super) fn routed(ours: &LaneCandidate, theirs: &LaneCandidate) -> Option<Self> {
        let (near, far) = (ours.ip(), theirs.ip());
        // Without a scope, the interface for the call is unknown.
        if far.is_unspecified() || (is_link_local(far) && scope(&theirs.address.socket) == 0) {
            return None;
        }
        let possible = near.is_unspecified()
            || (near.is_ipv4() == far.is_ipv4()
                && near.is_loopback() == far.is_loopback()
                && !is_link_local(near)
                && !is_link_local(far));
        possible.then_some(Self::Routed)
    }
}

/// Prints the first of a pair's reasons.
impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subnet { network, prefix_len } if *prefix_len == bits_of(*network) => write!(f, "the same address"),
            Self::Subnet { network, prefix_len } => write!(f, "both in {network}/{prefix_len}"),
            Self::Link => write!(f, "link-local addresses of one link"),
            Self::Loopback => write!(f, "both loopback addresses"),
            Self::Routed => write!(f, "in different subnets, or unknown ones: the routes decide"),
        }
    }
}

/// The offer's subnet, if its prefix counts.
pub(super) fn subnet(offer: &LaneCandidate) -> Option<String> {
    let ip = offer.ip();
    let length = offer.prefix_len.filter(|length| (1..bits_of(ip)).contains(length))?;
    Some(format!("{}/{length}", network(ip, length)))
}

/// Whether the address is an IPv6 address that is valid on one link only (RFC 4291, section 2.5.6).
pub(super) fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

fn scope(address: &SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

fn bits_of(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// The address with all but its first `prefix_len` bits cleared; `prefix_len` is at least 1.
fn network(ip: IpAddr, prefix_len: u8) -> IpAddr {
    let host = u32::from(bits_of(ip).saturating_sub(prefix_len));
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() & (u32::MAX << host)).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << host)).into(),
    }
}
