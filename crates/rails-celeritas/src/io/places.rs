//! The peers that greet a listener: their places, and the counts of those that were turned away.

use super::OpenConnectionError;
use rails_net::Repeated;
use rails_proto::{
    admission::{Entry, HandshakeId, HandshakeRate, Handshakes, Origin, Standing},
    handshake::Limit,
};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::oneshot;

/// The greetings under way. Each hears when it has to make room for another.
#[derive(Debug)]
pub(super) struct GreetingPlaces {
    greetings: Mutex<Handshakes<oneshot::Sender<()>>>,
    tls_rate: Mutex<HandshakeRate>,
    /// The connections that are open, by origin: a flood of strangers keeps no peer out that has
    /// one.
    open: Mutex<HashMap<Origin, usize>>,
}

/// The place of one greeting, held until dropped.
#[derive(Debug)]
pub(super) struct GreetingPlace {
    places: Arc<GreetingPlaces>,
    id: HandshakeId,
}

/// Counts as an open connection of a listener until dropped: its origin is no stranger.
#[derive(Debug)]
pub(super) struct KnownOrigin {
    places: Arc<GreetingPlaces>,
    origin: Origin,
}

/// Counts the peers that were turned away, and logs them.
#[derive(Debug, Default)]
pub(super) struct TurnedAwayLog {
    counts: Mutex<TurnedAway>,
    warnings: Repeated,
}

/// The peers that a [`CeleritasListener`](super::CeleritasListener) has turned away so far, by the
/// reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnedAway {
    /// Peers that did not greet in time.
    pub silent: u64,
    /// Peers that made room for others: too many greeted at a time, or began a TLS handshake in a
    /// second.
    pub displaced: u64,
    /// Peers that ended the connection before they had greeted, as a scan of ports does.
    pub gone: u64,
    /// Peers that speak another protocol, or another version.
    pub foreign: u64,
    /// Peers that have another secret, another mode of security or none, or that TLS does not
    /// trust.
    pub untrusted: u64,
    /// This end failed: it has no descriptors for a socket, or the interface takes too small
    /// packets.
    pub failed: u64,
}

impl GreetingPlaces {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            greetings: Mutex::new(Handshakes::new(MAX_GREETINGS, MAX_GREETINGS_PER_ORIGIN)),
            tls_rate: Mutex::new(HandshakeRate::new(MAX_TLS_RATE, MAX_TLS_RATE_PER_ORIGIN)),
            open: Mutex::default(),
        })
    }

    /// Gives a place to a peer, and the message that it has to make room. At a limit another one
    /// does.
    ///
    /// # Errors
    /// The limit whose places are all taken by peers that have proved themselves.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<(GreetingPlace, oneshot::Receiver<()>), Limit> {
        let (tell, told) = oneshot::channel();
        let is_familiar = self.is_familiar(peer);
        let entry = self.lock().enter(peer, is_familiar, tell);
        let id = match entry {
            Entry::Free(id) => id,
            Entry::Evicting { id, evicted, .. } => {
                // The call fails where the greeting has just ended.
                let _ = evicted.send(());
                id
            }
            Entry::Refused(limit) => return Err(limit),
        };
        Ok((GreetingPlace { places: self.clone(), id }, told))
    }

    /// Whether a connection of this origin is open.
    fn is_familiar(&self, peer: IpAddr) -> bool {
        self.open().contains_key(&Origin::of(peer))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Origin, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Handshakes<oneshot::Sender<()>>> {
        self.greetings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GreetingPlace {
    /// The peer has sent a message, and has this standing unless it has a better one.
    pub(super) fn heard(&self, standing: Standing) {
        self.places.lock().heard(self.id, standing);
    }

    /// Whether a TLS handshake with this peer may begin.
    ///
    /// # Errors
    /// The rate that is used up.
    pub(super) fn begin_tls(&self, peer: IpAddr) -> Result<(), Limit> {
        let is_familiar = self.places.is_familiar(peer);
        let mut rate = self.places.tls_rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.begin(Instant::now(), peer, is_familiar)
    }

    /// Opens a connection of the peer, for as long as the result lives.
    pub(super) fn open(&self, peer: IpAddr) -> KnownOrigin {
        let origin = Origin::of(peer);
        *self.places.open().entry(origin).or_default() += 1;
        KnownOrigin { places: self.places.clone(), origin }
    }
}

impl Drop for GreetingPlace {
    fn drop(&mut self) {
        // The handle wakes a task when it is dropped, so it is dropped without the lock.
        let handle = self.places.lock().leave(self.id);
        drop(handle);
    }
}

impl Drop for KnownOrigin {
    fn drop(&mut self) {
        let mut open = self.places.open();
        if let Some(count) = open.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.origin);
            }
        }
    }
}

impl TurnedAwayLog {
    /// The counts so far.
    pub(super) fn counts(&self) -> TurnedAway {
        *self.lock()
    }

    /// Counts a peer that was turned away from a listener on this address: it made room for others,
    /// or gave this error. One of a kind that an operator may have to mend is a warning, once a
    /// minute.
    pub(super) fn turn_away(&self, address: SocketAddr, error: Option<&OpenConnectionError>) {
        let (count, to_mend) = {
            let mut counts = self.lock();
            let (count, to_mend) = match error {
                None => (&mut counts.displaced, None),
                Some(OpenConnectionError::Busy { .. }) => (&mut counts.displaced, Some("busy")),
                Some(OpenConnectionError::Silent { .. }) => (&mut counts.silent, None),
                Some(OpenConnectionError::Greeting { .. }) => (&mut counts.gone, None),
                Some(OpenConnectionError::Foreign { .. } | OpenConnectionError::Version { .. }) => {
                    (&mut counts.foreign, None)
                }
                Some(
                    OpenConnectionError::Secured { .. }
                    | OpenConnectionError::Unsecured { .. }
                    | OpenConnectionError::Handshake { .. },
                ) => (&mut counts.untrusted, Some("untrusted")),
                Some(_) => (&mut counts.failed, Some("failed")),
            };
            *count += 1;
            (*count, to_mend)
        };
        let error = error.map(|error| error as &dyn std::error::Error);
        match to_mend.and_then(|cause| self.warnings.due(Instant::now(), cause)) {
            Some(left_out) => tracing::warn!(%address, error, count, left_out, "a peer was turned away"),
            None => tracing::debug!(%address, error, count, "a peer was turned away"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TurnedAway> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most peers that greet a listener at a time.
const MAX_GREETINGS: usize = 256;
/// The most of them from one origin: the most lanes of a stream.
const MAX_GREETINGS_PER_ORIGIN: usize = 64;
/// The most TLS handshakes in a second.
const MAX_TLS_RATE: u32 = 500;
/// The most of them with one origin.
const MAX_TLS_RATE_PER_ORIGIN: u32 = 125;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_keep_no_peer_with_a_connection_out() {
        let places = GreetingPlaces::new();
        let peer = |number: u32| IpAddr::from((0x0a00_0000 + number).to_be_bytes());
        let (place, _told) = places.enter(peer(0)).unwrap();
        let mut strangers = (1..).map(peer);
        let mut exhaust = || assert!(strangers.by_ref().take(100_000).any(|peer| place.begin_tls(peer).is_err()));
        let connections = [place.open(peer(0)), place.open(peer(0))];
        for connection in connections {
            exhaust();
            assert_eq!(place.begin_tls(peer(0)), Ok(()));
            drop(connection);
        }
        assert!(!places.is_familiar(peer(0)) && places.open().is_empty());
    }
}
