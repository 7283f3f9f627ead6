//! Which lane of ours leads to which of theirs: a pure function from what both ends offer to pairs, with the reasons.
//!
//! Two rails are paired where their addresses are in one subnet, so that a lane leaves and arrives by the NICs that were meant. Where
//! not one pair of addresses is, as with routed networks or behind address translation, they are paired in order, and the
//! pairing says that the routes decide.

mod contact;
mod matching;
mod relation;

pub use contact::pair_with_contact;
pub use relation::Relation;

use crate::{LaneAddress, parameters::MOST_LANES};
use rails_topo::{Bandwidth, NodeId};
use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr};

/// A rail's number within its set, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RailId(pub usize);

impl fmt::Display for RailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A lane's end that could be paired: one address of one rail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaneCandidate {
    /// The rail, by its number at its own end.
    pub rail: RailId,
    /// Its transport and address; where it is listened on, with the port, else with port 0. Unspecified (0.0.0.0) at the end that calls: as the
    /// routes lead. Of a link-local address of IPv6 the scope is the caller's interface, and 0 is unknown.
    pub address: LaneAddress,
    /// Length of the address's network prefix in bits; `None` is unknown.
    pub prefix_len: Option<u8>,
    /// Speed of its link; `None` is unknown.
    #[serde(rename = "speed_bits_per_second")]
    pub speed: Option<Bandwidth>,
    /// The NUMA node that its rail lies on; `None` is unknown.
    pub node: Option<NodeId>,
    /// Its interface. It explains, and decides nothing.
    pub interface: Option<String>,
}

/// Which lanes are to be brought up, and what is left over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairing {
    /// The lanes, fastest rails of ours first.
    pub pairs: Vec<Pair>,
    /// Rails of ours without a lane.
    pub unpaired_ours: Vec<Unpaired>,
    /// Rails of theirs without a lane.
    pub unpaired_theirs: Vec<Unpaired>,
    /// What is to be known of the pairing as a whole.
    pub notes: Vec<String>,
}

/// One lane to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Its end here.
    pub ours: LaneCandidate,
    /// Its end there.
    pub theirs: LaneCandidate,
    /// How the two addresses lie to each other.
    pub relation: Relation,
    /// Why these two.
    pub why: String,
}

/// An end that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpaired {
    /// The end.
    pub offer: LaneCandidate,
    /// Why not.
    pub why: String,
}

/// The most lanes that an end offers, and that are paired.
pub const MOST_OFFERS: usize = MOST_LANES;

/// Pairs what this end offers with what the other does, into `wish` lanes or, for `None`, as many as use every rail that can be.
///
/// The same offers give the same pairing, in whatever order they come. In this order:
/// 1. Two rails are paired where they have addresses of one transport in one subnet; [`Relation`] says what counts as one. Only where that is so for not
///    one pair of rails are they paired across subnets, and a note says so.
/// 2. No rail has a second lane while another that could be paired with the same one has none, and no rail is left over that could
///    be paired.
/// 3. The fastest rails of ours come first, each with the rail that makes the fastest lane, and among those with the one
///    whose speed is nearest.
/// 4. Equally fast ones are paired by the order of their nodes, then of their rails, then of their addresses.
///
/// No more than [`MOST_OFFERS`] lanes are paired.
pub fn pair(ours: &[LaneCandidate], theirs: &[LaneCandidate], wish: Option<usize>) -> Pairing {
    matching::pair(ours, theirs, wish)
}

/// The pairs of a caller who names the peer's addresses: rail *i* of ours with address *i*, the shorter list starting over. Which rails
/// of theirs these are is not known, so each address counts as one.
///
/// Of the addresses of a rail the pair shows the one that is in the same subnet, if any is.
pub fn in_order(ours: &[LaneCandidate], remotes: &[LaneAddress]) -> Pairing {
    let mut rails: Vec<RailId> = ours.iter().map(|offer| offer.rail).collect();
    rails.sort_unstable();
    rails.dedup();
    let lanes = if rails.is_empty() || remotes.is_empty() { 0 } else { rails.len().max(remotes.len()) };
    let pair = |index: usize| {
        let (rail, remote) = (rails[index % rails.len()], index % remotes.len());
        let address = remotes[remote];
        let (prefix_len, speed, node, interface) = (None, None, None, None);
        let theirs = LaneCandidate { rail: RailId(remote), address, prefix_len, speed, node, interface };
        let of_rail = || ours.iter().filter(|offer| offer.rail == rail);
        let direct = of_rail().find_map(|ours| Some((ours, Relation::direct(ours, &theirs)?)));
        let likely = of_rail().find(|ours| ours.ip().is_ipv4() == theirs.ip().is_ipv4()).or(of_rail().next());
        let (ours, relation) = direct.or(likely.map(|ours| (ours, Relation::Routed)))?;
        let ours = LaneCandidate { address: LaneAddress { scheme: address.scheme, ..ours.address }, ..ours.clone() };
        Some(Pair { ours, theirs, relation, why: format!("as named by the caller; {relation}") })
    };
    let pairs = (0..lanes).filter_map(pair).collect();
    Pairing { pairs, unpaired_ours: Vec::new(), unpaired_theirs: Vec::new(), notes: Vec::new() }
}

impl LaneCandidate {
    /// The address, out of its IPv4-mapped form if it was in it.
    pub fn ip(&self) -> IpAddr {
        self.address.socket.ip().to_canonical()
    }

    /// Whether the address means something on one link only (RFC 4291, section 2.5.6): without a scope, which only a caller knows, nobody can call it.
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

/// A line for each lane and each end that is left over, with the reason below it.
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
