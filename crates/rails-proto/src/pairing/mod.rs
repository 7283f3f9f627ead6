//! The pairing of rails: a pure function from the offers of both ends to pairs of rails, with the
//! reasons.
//!
//! Two rails form a pair if their addresses are in one subnet, so that a lane leaves and arrives by
//! the intended NICs. If no pair of addresses is in one subnet, as with routed networks or behind
//! address translation, the rails are paired in order, and the pairing notes that the routes
//! decide.

mod contact;
mod matching;
mod relation;

use crate::{LaneAddress, parameters::MAX_LANES};
pub use contact::pair_with_contact;
pub use relation::Relation;
use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr};

/// A rail's number within its set, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct RailId(pub usize);

impl fmt::Display for RailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A possible end of a lane: one address of one rail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneCandidate {
    /// The rail, by its number at its own end.
    pub rail: RailId,
    /// The transport and address, with the port at an end that listens, else with port 0. At the
    /// calling end the address may be unspecified (0.0.0.0): the routes then choose it. The
    /// scope of a link-local address of IPv6 is the caller's interface; 0 is unknown.
    pub address: LaneAddress,
    /// Length of the address's network prefix in bits; `None` is unknown.
    pub prefix_len: Option<u8>,
    /// Speed of the rail's link; `None` is unknown.
    pub speed_bits_per_second: Option<u64>,
    /// The number of the rail's NUMA node; `None` is unknown.
    pub node: Option<u32>,
    /// The name of the rail's interface, for display only.
    pub interface: Option<String>,
}

/// The lanes to open, and the rails that are left over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pairing {
    /// The lanes, fastest rails of ours first.
    pub pairs: Vec<Pair>,
    /// Rails of ours without a lane.
    pub unpaired_ours: Vec<Unpaired>,
    /// Rails of theirs without a lane.
    pub unpaired_theirs: Vec<Unpaired>,
    /// Notes on the pairing as a whole.
    pub notes: Vec<String>,
}

/// A lane to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// This end of the lane.
    pub ours: LaneCandidate,
    /// The peer's end of the lane.
    pub theirs: LaneCandidate,
    /// The relation of the two addresses.
    pub relation: Relation,
    /// The reason for this pair.
    pub why: String,
    /// Whether `theirs` is a further address of the name that the pair before leads to. The lane
    /// begins after that of the pair before, as [`DialSchedule`](crate::opening::DialSchedule)
    /// decides.
    #[serde(default)]
    pub is_further: bool,
}

/// An offer without a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unpaired {
    /// The offer.
    pub offer: LaneCandidate,
    /// The reason why the offer has no lane.
    pub why: String,
}

/// The most lanes that an end offers, and that are paired.
pub const MAX_OFFERS: usize = MAX_LANES;

/// Pairs this end's offers with the peer's, into `wish` lanes. `None` makes as many lanes as it
/// takes to use every rail that can be paired.
///
/// Equal offers give equal pairings, in any order. The rules, in this order:
/// 1. Two rails form a pair if they have addresses of one transport in one subnet, as [`Relation`]
///    defines it. Only if no pair of rails has such addresses are rails paired across subnets, and
///    a note says so.
/// 2. No rail gets a second lane while another that could be paired with the same one has none, and
///    no rail is left over that could be paired.
/// 3. The fastest rails of ours come first, each with the rail that makes the fastest lane, and
///    among those with the one whose speed is nearest.
/// 4. Equally fast rails are paired by the order of their nodes, then of their rails, then of their
///    addresses.
///
/// No more than [`MAX_OFFERS`] lanes are paired.
pub fn pair(ours: &[LaneCandidate], theirs: &[LaneCandidate], wish: Option<usize>) -> Pairing {
    matching::pair(ours, theirs, wish)
}

/// Makes the pairs of a caller who names the peer's addresses: rail *i* of ours with address *i*;
/// the shorter list starts over. The peer's rails are unknown, so each address counts as one rail.
///
/// A rail without an address of the family leaves the address to the next rail that has one.
///
/// If an address of a rail is in the same subnet, the pair shows that address.
pub fn in_order(ours: &[LaneCandidate], remotes: &[LaneAddress]) -> Pairing {
    let mut rails: Vec<RailId> = ours.iter().map(|offer| offer.rail).collect();
    rails.sort_unstable();
    rails.dedup();
    let lanes = if rails.is_empty() || remotes.is_empty() { 0 } else { rails.len().max(remotes.len()) };
    let pair = |index: usize| {
        let remote = index % remotes.len();
        let address = remotes[remote];
        let in_turn = || (index..index + rails.len()).map(|turn| rails[turn % rails.len()]);
        let rail = in_turn().find(|rail| can_call(ours, Some(*rail), address)).or(in_turn().next())?;
        let theirs = LaneCandidate {
            rail: RailId(remote),
            address,
            prefix_len: None,
            speed_bits_per_second: None,
            node: None,
            interface: None,
        };
        let of_rail = || ours.iter().filter(|offer| offer.rail == rail);
        let direct = of_rail().find_map(|ours| Some((ours, Relation::direct(ours, &theirs)?)));
        let likely = of_rail().find(|ours| ours.ip().is_ipv4() == theirs.ip().is_ipv4()).or(of_rail().next());
        let (ours, relation) = direct.or(likely.map(|ours| (ours, Relation::Routed)))?;
        let ours = LaneCandidate { address: LaneAddress { scheme: address.scheme, ..ours.address }, ..ours.clone() };
        Some(Pair { ours, theirs, relation, why: format!("as named by the caller; {relation}"), is_further: false })
    };
    let pairs = (0..lanes).filter_map(pair).collect();
    Pairing { pairs, unpaired_ours: Vec::new(), unpaired_theirs: Vec::new(), notes: Vec::new() }
}

/// Makes the pairs of a caller who names the peer by names, each of which has one or more
/// addresses: all of them [in order](in_order). An address that no rail can call is left out if its
/// name has one that a rail can call.
pub fn in_order_by_name(ours: &[LaneCandidate], names: &[Vec<LaneAddress>]) -> Pairing {
    let mut remotes = Vec::new();
    for addresses in names {
        let of_use = |address: &&LaneAddress| can_call(ours, None, **address);
        let before = remotes.len();
        remotes.extend(addresses.iter().filter(of_use).map(|address| (*address, true)));
        if remotes.len() == before {
            remotes.extend(addresses.iter().map(|address| (*address, true)));
        }
        if let Some((_, is_further)) = remotes.get_mut(before) {
            *is_further = false;
        }
    }
    let addresses: Vec<LaneAddress> = remotes.iter().map(|(address, _)| *address).collect();
    let mut pairing = in_order(ours, &addresses);
    for (pair, (_, is_further)) in pairing.pairs.iter_mut().zip(remotes.iter().cycle()) {
        pair.is_further = *is_further;
    }
    pairing
}

/// Leaves out the last addresses of names until all names together have at most `max`, the names
/// with the most addresses first. Each name keeps its first address. Gives the number of addresses
/// left out.
pub fn limit_names(names: &mut [Vec<LaneAddress>], max: usize) -> usize {
    let count = |names: &[Vec<LaneAddress>]| names.iter().map(Vec::len).sum::<usize>();
    let before = count(names);
    // All names have the same limit; the first that are longer have one address more, as long as there
    // is room.
    let limit = (1..=max).rev().find(|limit| names.iter().map(|name| name.len().min(*limit)).sum::<usize>() <= max);
    let limit = limit.unwrap_or(1);
    let mut spare = max.saturating_sub(names.iter().map(|name| name.len().min(limit)).sum());
    for name in &mut *names {
        let further = usize::from(name.len() > limit).min(spare);
        spare -= further;
        name.truncate(limit + further);
    }
    before - count(names)
}

/// Whether that rail of ours, or any, has an address of the same family, or leaves its address to
/// the routes.
fn can_call(ours: &[LaneCandidate], rail: Option<RailId>, address: LaneAddress) -> bool {
    let is_v4 = address.socket.ip().to_canonical().is_ipv4();
    let fits = |offer: &LaneCandidate| offer.ip().is_unspecified() || offer.ip().is_ipv4() == is_v4;
    ours.iter().any(|offer| rail.is_none_or(|rail| offer.rail == rail) && fits(offer))
}

impl LaneCandidate {
    /// The address, converted from the IPv4-mapped form if necessary.
    pub fn ip(&self) -> IpAddr {
        self.address.socket.ip().to_canonical()
    }

    /// Whether the address is valid on one link only (RFC 4291, section 2.5.6). An end can call it
    /// only with a scope, which only the caller knows.
    pub fn is_link_local(&self) -> bool {
        relation::is_link_local(self.ip())
    }
}

impl Pairing {
    /// For each lane the rail of ours and the address of theirs.
    pub fn lanes(&self) -> impl ExactSizeIterator<Item = (RailId, LaneAddress)> {
        self.pairs.iter().map(|pair| (pair.ours.rail, pair.theirs.address))
    }
}

/// The rail, its interface and its address.
impl fmt::Display for LaneCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interface = self.interface.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        match (self.ip().is_unspecified(), self.address.port()) {
            (true, _) => f.pad(&format!("rail {}{interface} as the routes lead", self.rail)),
            (false, 0) => f.pad(&format!("rail {}{interface} {}", self.rail, self.ip())),
            (false, _) => f.pad(&format!("rail {}{interface} {}", self.rail, self.address)),
        }
    }
}

/// Prints a line for each lane and each offer without a lane, with the reason below it.
impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.pairs.iter().map(|pair| pair.ours.to_string().len()).max().unwrap_or_default();
        for (index, Pair { ours, theirs, why, .. }) in self.pairs.iter().enumerate() {
            writeln!(f, "lane {index:<3} {ours:<width$}  ->  {theirs}\n          {why}")?;
        }
        for (whose, unpaired) in [("ours", &self.unpaired_ours), ("theirs", &self.unpaired_theirs)] {
            for Unpaired { offer, why } in unpaired {
                writeln!(f, "no lane  {offer} ({whose})\n          {why}")?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

#[cfg(test)]
mod tests;
