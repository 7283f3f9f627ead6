//! The peers that greet a listener: which of them keep their places, and how many were turned away.

use super::OpenError;
use rails_proto::{
    admission::{Entry, HandshakeId, HandshakeRate, Handshakes, Standing},
    handshake::Limit,
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::oneshot;

/// The greetings under way. Each is told when it has to make room for another.
#[derive(Debug)]
pub(super) struct Places {
    greetings: Mutex<Handshakes<oneshot::Sender<()>>>,
    tls_rate: Mutex<HandshakeRate>,
}

/// The place of one greeting, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    id: HandshakeId,
}

/// The peers that a [`CeleritasListener`](super::CeleritasListener) has turned away so far, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnedAway {
    /// Peers that did not greet in time.
    pub silent: u64,
    /// Peers that made room for others: too many greeted at a time, or began a TLS handshake in a second.
    pub displaced: u64,
    /// Peers that ended the connection before they had greeted, as a scan of ports does.
    pub gone: u64,
    /// Peers that speak another protocol, or another version.
    pub foreign: u64,
    /// Peers that have another secret, another mode of security or none, or that TLS does not trust.
    pub untrusted: u64,
    /// This end failed: it has no descriptors for a socket, or the interface takes too small packets.
    pub failed: u64,
}

impl Places {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            greetings: Mutex::new(Handshakes::new(MOST_GREETINGS, MOST_GREETINGS_PER_ORIGIN)),
            tls_rate: Mutex::new(HandshakeRate::new(MAX_TLS_RATE, MAX_TLS_RATE_PER_ORIGIN)),
        })
    }

    /// Gives a place to a peer, and the message that it has to make room. At a limit another one does.
    ///
    /// # Errors
    /// The limit whose places are all taken by peers that have proved themselves.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<(Place, oneshot::Receiver<()>), Limit> {
        let (tell, told) = oneshot::channel();
        let entry = self.lock().enter(peer, false, tell);
        let id = match entry {
            Entry::Free(id) => id,
            Entry::Instead { id, evicted, .. } => {
                // The call fails where the greeting has just ended.
                let _ = evicted.send(());
                id
            }
            Entry::Refused(limit) => return Err(limit),
        };
        Ok((Place { places: self.clone(), id }, told))
    }

    fn lock(&self) -> MutexGuard<'_, Handshakes<oneshot::Sender<()>>> {
        self.greetings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The peer has sent a message, and has this standing unless it has a better one.
    pub(super) fn heard(&self, standing: Standing) {
        self.places.lock().heard(self.id, standing);
    }

    /// Whether a TLS handshake with this peer may begin.
    ///
    /// # Errors
    /// The rate that is used up.
    pub(super) fn begin_tls(&self, peer: IpAddr) -> Result<(), Limit> {
        let mut rate = self.places.tls_rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.begin(Instant::now(), peer, false)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The handle wakes a task when it is dropped, so it is dropped without the lock.
        let handle = self.places.lock().leave(self.id);
        drop(handle);
    }
}

/// Counts a peer that was turned away from a listener on this address: it made room for others, or gave this error. The
/// first of a kind that somebody may have to mend is a warning.
pub(super) fn turn_away(counts: &Mutex<TurnedAway>, address: SocketAddr, error: Option<&OpenError>) {
    let (count, is_to_mend) = {
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, is_to_mend) = match error {
            None | Some(OpenError::Busy { .. }) => (&mut counts.displaced, false),
            Some(OpenError::Silent { .. }) => (&mut counts.silent, false),
            Some(OpenError::Greeting { .. }) => (&mut counts.gone, false),
            Some(OpenError::Foreign { .. } | OpenError::Version { .. }) => (&mut counts.foreign, false),
            Some(OpenError::Secured { .. } | OpenError::Unsecured { .. } | OpenError::Handshake { .. }) => {
                (&mut counts.untrusted, true)
            }
            Some(_) => (&mut counts.failed, true),
        };
        *count += 1;
        (*count, is_to_mend)
    };
    let error = error.map(|error| error as &dyn std::error::Error);
    match is_to_mend && count == 1 {
        true => tracing::warn!(%address, error, "a peer was turned away; the level debug tells of further ones"),
        false => tracing::debug!(%address, error, count, "a peer was turned away"),
    }
}

/// The most peers that greet a listener at a time.
const MOST_GREETINGS: usize = 256;
/// The most of them from one origin: the most lanes of a stream.
const MOST_GREETINGS_PER_ORIGIN: usize = 64;
/// The most TLS handshakes in a second.
const MAX_TLS_RATE: u32 = 500;
/// The most of one origin.
const MAX_TLS_RATE_PER_ORIGIN: u32 = 125;
