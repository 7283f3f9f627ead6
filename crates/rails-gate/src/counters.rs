//! Counts of connections and bytes.

use crate::{
    door::{DoorKind, Plain},
    policy::PeerName,
    status::{ConnectionCounts, PlainCount},
    traffic::Traffic,
};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The counts of a gate.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    connections: Mutex<BTreeMap<Key, Arc<Traffic>>>,
    plain: Mutex<BTreeMap<WentPlain, u64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    door: Option<DoorKind>,
    peer: PeerName,
    /// `None` for destinations that are not counted apart.
    destination: Option<SocketAddr>,
}

/// The door, the peer if the policy names one, and the reason of connections that went plain.
type WentPlain = (DoorKind, Option<PeerName>, Plain);

impl Counters {
    /// The counts of these connections: a peer, or a program, may choose the destinations, so only
    /// so many of them are counted apart, and of one door and peer only a part of these.
    pub(crate) fn of(&self, door: Option<DoorKind>, peer: &PeerName, destination: SocketAddr) -> Arc<Traffic> {
        let mut connections = lock(&self.connections);
        let others = Key { door, peer: peer.clone(), destination: None };
        let key = Key { destination: Some(destination), ..others.clone() };
        if let Some(traffic) = connections.get(&key) {
            return traffic.clone();
        }
        let alike = connections.range(&others..).take_while(|(key, _)| key.door == door && key.peer == *peer);
        let has_room = connections.len() < MAX_APART && alike.count() < MAX_APART_EACH;
        connections.entry(if has_room { key } else { others }).or_default().clone()
    }

    /// The counts of all connections of a peer whose destinations are not counted apart.
    pub(crate) fn of_others(&self, peer: &PeerName) -> Arc<Traffic> {
        let key = Key { door: None, peer: peer.clone(), destination: None };
        lock(&self.connections).entry(key).or_default().clone()
    }

    pub(crate) fn went_plain(&self, door: DoorKind, peer: Option<&PeerName>, why: Plain) {
        *lock(&self.plain).entry((door, peer.cloned(), why)).or_default() += 1;
    }

    pub(crate) fn connections(&self) -> Vec<ConnectionCounts> {
        let connections = lock(&self.connections);
        let counts = |(key, traffic): (&Key, &Arc<Traffic>)| {
            let destination = key.destination.map_or_else(|| "other".to_owned(), |destination| destination.to_string());
            traffic.counts(key.door, key.peer.to_string(), destination)
        };
        connections.iter().map(counts).collect()
    }

    pub(crate) fn plain(&self) -> Vec<PlainCount> {
        let plain = lock(&self.plain);
        let count = |((door, peer, why), count): (&WentPlain, &u64)| PlainCount {
            door: *door,
            peer: peer.as_ref().map(ToString::to_string),
            why: *why,
            count: *count,
        };
        plain.iter().map(count).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The doors, peers and destinations that are counted apart at most.
const MAX_APART: usize = 4096;
/// The destinations of one door and peer that are counted apart at most.
const MAX_APART_EACH: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_takes_no_other_peer_s_place() {
        let counters = Counters::default();
        let destinations = |count: u16| (1..=count).map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let greedy: PeerName = "greedy".parse().unwrap();
        destinations(5000).for_each(|destination| counters.of(None, &greedy, destination).refused());
        let modest: PeerName = "modest".parse().unwrap();
        destinations(2).for_each(|destination| counters.of(None, &modest, destination).opened());
        let counts = counters.connections();
        let of = |peer: &str| counts.iter().filter(|counts| counts.peer == peer).collect::<Vec<_>>();
        assert_eq!(of("greedy").len(), MAX_APART_EACH + 1);
        assert_eq!(of("greedy").iter().map(|counts| counts.refused).sum::<u64>(), 5000);
        assert_eq!(of("modest").len(), 2);
        assert!(of("modest").iter().all(|counts| counts.destination != "other"));
    }
}
