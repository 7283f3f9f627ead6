//! The connections that a listener keeps while their peers have not proved themselves, so that none
//! of them keeps the others out.
//!
//! At a limit a silent connection makes room for the next: one of the lowest [`Standing`] that has
//! more than its share of the places, of the [`Origin`] that has most of those, and of that the one
//! that has been silent longest. So a flood displaces itself: a flood from one origin displaces
//! that origin, mute peers displace no peer that speaks; peers that speak displace none that has
//! just come; and peers that prove themselves and go no further displace no other origin.

mod rate;

use crate::handshake::Limit;
pub use rate::HandshakeRate;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
};

/// The place in the network that a connection comes from, as a listener counts connections: an IPv4
/// address, or an IPv6 network of 64 bits (RFC 6177: a site has at least one). Link-local IPv6
/// addresses, which all hosts of a link take from one such network, count one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(IpAddr);

/// The evidence that the peer of a connection is no stranger. [`Proved`](Self::Proved) peers have
/// three quarters of a limit's places as their share, and each other kind a quarter; any kind uses
/// places that others leave free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The peer has sent nothing.
    Mute,
    /// The peer has sent nothing, and a peer of the same origin has an open stream at this
    /// listener.
    Familiar,
    /// The peer has begun to speak the protocol.
    Greeted,
    /// The peer has named an open stream, whose name only its ends know.
    Member,
    /// The peer has proved itself, and may already rely on the listener. Beyond their share, such
    /// peers make room for an origin that has fewer connections than their own has such peers.
    Proved,
}

/// The connections of a listener in their handshake, each with the caller's handle `T` to end it.
#[derive(Debug)]
pub struct Handshakes<T> {
    max: usize,
    max_per_origin: usize,
    pending: BTreeMap<HandshakeId, Pending<T>>,
    /// The number of events so far, by which connections are named and their silence compared.
    events: u64,
}

/// The identifier of a connection in its handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HandshakeId(u64);

/// The outcome of [`Handshakes::enter`].
#[derive(Debug, PartialEq, Eq)]
pub enum Entry<T> {
    /// The connection has a free place.
    Free(HandshakeId),
    /// Another connection has made room, and is forgotten: the caller ends that one.
    Evicting {
        /// The identifier of the newcomer.
        id: HandshakeId,
        /// The handle of the other one.
        evicted: T,
        /// The limit that was reached.
        limit: Limit,
    },
    /// No connection makes room: peers that have proved themselves have most places of this limit,
    /// and will soon be done, or the newcomer's origin has more places than others.
    Refused(Limit),
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Pending<T> {
    origin: Origin,
    standing: Standing,
    /// The latest event of this connection.
    heard: u64,
    handle: T,
}

impl Origin {
    /// The origin of a connection from this address.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(ip) if !ip.is_unicast_link_local() => Ipv6Addr::from_bits(ip.to_bits() & !0 << 64).into(),
            ip => ip,
        })
    }
}

impl<T> Handshakes<T> {
    /// Creates an empty set of at most `max` connections, of which at most `max_per_origin` are of
    /// one origin. Either limit is at least 1.
    pub fn new(max: usize, max_per_origin: usize) -> Self {
        let [max, max_per_origin] = [max, max_per_origin].map(|limit| limit.max(1));
        Self { max, max_per_origin, pending: BTreeMap::new(), events: 0 }
    }

    /// Adds a connection whose peer has sent nothing so far. At a limit this call looks at all
    /// others.
    pub fn enter(&mut self, peer: IpAddr, is_familiar: bool, handle: T) -> Entry<T> {
        let origin = Origin::of(peer);
        let standing = if is_familiar { Standing::Familiar } else { Standing::Mute };
        let (limit, victim) = if self.count(origin) >= self.max_per_origin {
            (Limit::PeerHandshakes, self.victim(origin, standing, self.max_per_origin, |other| other == origin))
        } else if self.pending.len() >= self.max {
            (Limit::Handshakes, self.victim(origin, standing, self.max, |_| true))
        } else {
            return Entry::Free(self.add(origin, standing, handle));
        };
        match victim.and_then(|id| self.leave(id)) {
            Some(evicted) => Entry::Evicting { id: self.add(origin, standing, handle), evicted, limit },
            None => Entry::Refused(limit),
        }
    }

    /// Notes that the peer of a connection has sent something. The peer has this standing from now
    /// on, unless it has a better one. `false` if the connection has made room for another.
    pub fn heard(&mut self, id: HandshakeId, standing: Standing) -> bool {
        let heard = self.event();
        let Some(pending) = self.pending.get_mut(&id) else { return false };
        pending.standing = pending.standing.max(standing);
        pending.heard = heard;
        true
    }

    /// Forgets a connection whose handshake is over, and gives its handle; `None` if it has made
    /// room for another.
    pub fn leave(&mut self, id: HandshakeId) -> Option<T> {
        Some(self.pending.remove(&id)?.handle)
    }

    /// The number of connections in their handshake.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether no connection is in its handshake.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    fn add(&mut self, origin: Origin, standing: Standing, handle: T) -> HandshakeId {
        let heard = self.event();
        let id = HandshakeId(heard);
        self.pending.insert(id, Pending { origin, standing, heard, handle });
        id
    }

    /// The connection that makes room for one of this origin and standing, among those that share
    /// the limit `max`.
    fn victim(
        &self,
        origin: Origin,
        standing: Standing,
        max: usize,
        shares_limit: impl Fn(Origin) -> bool,
    ) -> Option<HandshakeId> {
        let mut by_standing: BTreeMap<Standing, Vec<(HandshakeId, &Pending<T>)>> = BTreeMap::new();
        for (id, pending) in self.pending.iter().filter(|(_, pending)| shares_limit(pending.origin)) {
            by_standing.entry(pending.standing).or_default().push((*id, pending));
        }
        let proved = by_standing.remove(&Standing::Proved).unwrap_or_default();
        let with_newcomer = |loser: Standing| usize::from(loser == standing);
        let takes_too_many =
            |(loser, connections): &(&Standing, &Vec<_>)| connections.len() + with_newcomer(**loser) > max / SHARES;
        if let Some((loser, connections)) = by_standing.iter().find(takes_too_many) {
            return Some(silent_of_largest(connections, origin, with_newcomer(*loser))?.1);
        }
        let of_newcomer = self.count(origin);
        if proved.len() > max - max.div_ceil(SHARES)
            && let Some((count, id)) = silent_of_largest(&proved, origin, 0)
            && count > of_newcomer + 1
        {
            return Some(id);
        }
        let (loser, connections) = by_standing.first_key_value()?;
        let (_, id) = silent_of_largest(connections, origin, with_newcomer(*loser))?;
        (self.count(self.pending[&id].origin) >= of_newcomer).then_some(id)
    }

    /// The number of connections of this origin.
    fn count(&self, origin: Origin) -> usize {
        self.pending.values().filter(|pending| pending.origin == origin).count()
    }

    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }
}

/// The connection that has been silent longest, of the origin that has most of these, and their
/// number. The origin of a newcomer has `with_newcomer` more.
fn silent_of_largest<T>(
    connections: &[(HandshakeId, &Pending<T>)],
    newcomer: Origin,
    with_newcomer: usize,
) -> Option<(usize, HandshakeId)> {
    let mut by_origin = HashMap::from([(newcomer, with_newcomer)]);
    connections.iter().for_each(|(_, pending)| *by_origin.entry(pending.origin).or_default() += 1);
    let rank = |(_, pending): &&(HandshakeId, &Pending<T>)| (by_origin[&pending.origin], Reverse(pending.heard));
    connections.iter().max_by_key(rank).map(|(id, pending)| (by_origin[&pending.origin], *id))
}

/// The number of standings with a share of the places.
const SHARES: usize = 4;

#[cfg(test)]
mod tests;
