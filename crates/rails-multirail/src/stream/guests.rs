//! Who is in a listener's house, and how much of it each has.

use super::shared::Shared;
use crate::{
    Limits,
    proto::handshake::{Credentials, Refusal, StreamId},
};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// The handshakes that are under way, by peer.
#[derive(Debug)]
pub(super) struct Handshakes {
    limits: Limits,
    now: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// One handshake, counted until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    handshakes: Arc<Handshakes>,
    peer: IpAddr,
}

/// The streams that are open.
#[derive(Debug)]
pub(super) struct Streams {
    limits: Limits,
    /// What each stream may have the listener keep: its window, in bytes.
    window: u64,
    open: Mutex<HashMap<StreamId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    shared: Weak<Shared>,
    /// Whose lane opened it.
    peer: IpAddr,
}

/// Why a stream is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// One of that name is open.
    Exists,
    /// There are as many as there may be.
    All,
    /// The peer has as many streams as it may have.
    Streams,
    /// The peer has been promised as much memory as it may have.
    Memory,
}

impl Handshakes {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, now: Mutex::default() })
    }

    /// A place for one more; the error says whose there are too many of.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<Place, &'static str> {
        let peer = peer.to_canonical();
        let mut now = self.lock();
        if now.all >= self.limits.handshakes {
            return Err("of all peers together");
        }
        let of_peer = now.by_peer.entry(peer).or_default();
        if *of_peer >= self.limits.handshakes_per_peer {
            return Err("of this peer");
        }
        *of_peer += 1;
        now.all += 1;
        Ok(Place { handshakes: self.clone(), peer })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut now = self.handshakes.lock();
        now.all -= 1;
        // A peer that has none is forgotten, so that the table is no longer than there are handshakes.
        if let Some(count) = now.by_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                now.by_peer.remove(&self.peer);
            }
        }
    }
}

impl Streams {
    pub(super) fn new(limits: Limits, window: u64) -> Self {
        Self { limits, window, open: Mutex::default() }
    }

    /// Adds the stream that `make` makes, where there is room for it.
    pub(super) fn open(
        &self,
        stream: StreamId,
        peer: IpAddr,
        make: impl FnOnce() -> Arc<Shared>,
    ) -> Result<Arc<Shared>, Full> {
        let peer = peer.to_canonical();
        let mut open = self.lock();
        open.retain(|_, entry| entry.shared.strong_count() > 0);
        if open.contains_key(&stream) {
            return Err(Full::Exists);
        }
        if open.len() >= self.limits.streams {
            return Err(Full::All);
        }
        let of_peer = open.values().filter(|entry| entry.peer == peer).count();
        if of_peer >= self.limits.streams_per_peer {
            return Err(Full::Streams);
        }
        if (of_peer as u64 + 1).saturating_mul(self.window) > self.limits.memory_per_peer {
            return Err(Full::Memory);
        }
        let shared = make();
        open.insert(stream, Entry { shared: Arc::downgrade(&shared), peer });
        Ok(shared)
    }

    pub(super) fn find(&self, stream: StreamId) -> Option<Arc<Shared>> {
        self.lock().get(&stream)?.shared.upgrade()
    }

    /// What lanes join this stream with.
    pub(super) fn joining(&self, stream: StreamId) -> Option<Credentials> {
        Some(self.find(stream)?.joining.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, Entry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Full {
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Self::Exists => Refusal::StreamExists,
            Self::All | Self::Streams | Self::Memory => Refusal::Full,
        }
    }

    /// What the peer has as much of as it may have, where it is the peer's own doing.
    pub(super) fn of_peer(self) -> Option<&'static str> {
        match self {
            Self::Exists | Self::All => None,
            Self::Streams => Some("as many streams"),
            Self::Memory => Some("as much memory promised to its streams"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RailRequest, Rails, Security, StreamOptions, plan};
    use rails_topo::Topology;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn handshakes_are_limited_for_each_peer_and_for_all_until_they_end() {
        let handshakes = Handshakes::new(Limits::default().handshakes(3).handshakes_per_peer(2));
        let first = handshakes.enter(peer(1)).unwrap();
        let _second = handshakes.enter(peer(1)).unwrap();
        assert_eq!(handshakes.enter(peer(1)).unwrap_err(), "of this peer");
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(handshakes.enter(mapped).unwrap_err(), "of this peer", "the same address, written as IPv6");
        let other = handshakes.enter(peer(2)).unwrap();
        assert_eq!(handshakes.enter(peer(3)).unwrap_err(), "of all peers together");
        drop(first);
        let _third = handshakes.enter(peer(1)).unwrap();
        drop(other);
        assert_eq!(handshakes.lock().by_peer.len(), 1, "who has none is forgotten");
    }

    #[test]
    fn streams_and_memory_are_limited_for_each_peer_and_come_back_with_the_stream() {
        let topology = Topology::detect().unwrap();
        let rails = Rails::build(&plan::plan(&topology, &RailRequest::Loopback(Some(1))).unwrap()).unwrap();
        let options = StreamOptions::new(Security::insecure());
        let make = |number| {
            let connection = options.connection(options.terms());
            Shared::new(StreamId([number; 16]), connection, rails.clone(), Credentials::Insecure)
        };
        let streams = Streams::new(Limits::default().streams(5).streams_per_peer(3).memory_per_peer(100), 40);
        let open =
            |number, from| streams.open(StreamId([number; 16]), peer(from), || make(number)).map_err(Full::refusal);
        let of_peer = |number, from| streams.open(StreamId([number; 16]), peer(from), || make(number)).err();
        let first = open(1, 1).unwrap();
        assert_eq!(of_peer(1, 1), Some(Full::Exists));
        let _second = open(2, 1).unwrap();
        assert_eq!(of_peer(3, 1), Some(Full::Memory), "three windows of 40 bytes are more than 100");
        drop(first);
        let _third = open(3, 1).unwrap();

        let streams = Streams::new(Limits::default().streams(4).streams_per_peer(2), 40);
        let open = |number, from| streams.open(StreamId([number; 16]), peer(from), || make(number));
        let _kept: Vec<_> = [(1, 1), (2, 1), (3, 2)].map(|(number, from)| open(number, from).unwrap()).into();
        assert_eq!(open(4, 1).err(), Some(Full::Streams));
        let _last = open(4, 2).unwrap();
        assert_eq!(open(5, 3).err(), Some(Full::All));
    }
}
