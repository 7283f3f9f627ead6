//! Admission at a listener: the handshakes and streams of each peer, and their limits.

use super::{MultiRailStream, shared::Shared};
use crate::Limits;
use rails_proto::handshake::{Credentials, Limit, Refusal, StreamId};
use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// The handshakes under way, by peer.
#[derive(Debug)]
pub(super) struct Handshakes {
    per_peer: usize,
    /// One permit for each handshake that may be under way, over all peers.
    all: Arc<Semaphore>,
    by_peer: Mutex<HashMap<IpAddr, usize>>,
}

/// One handshake, which counts until this is dropped.
#[derive(Debug)]
pub(super) struct HandshakePermit {
    _of_peer: PeerPermit,
    _of_all: OwnedSemaphorePermit,
}

/// The handshake's part in the count of its peer.
#[derive(Debug)]
struct PeerPermit {
    handshakes: Arc<Handshakes>,
    peer: IpAddr,
}

/// The open streams, those among them that their initiators have not confirmed yet, and the latest that have ended.
#[derive(Debug)]
pub(super) struct Streams {
    limits: Limits,
    /// The bytes that each stream may make the listener keep.
    memory: u64,
    known: Mutex<Known>,
}

/// A stream that waits to be accepted. Dropping it without accepting it aborts the stream, and so tells the peer.
#[derive(Debug)]
pub(super) struct Unaccepted(Option<MultiRailStream>);

#[derive(Debug, Default)]
struct Known {
    open: HashMap<StreamId, Entry>,
    /// The names of streams that have ended, the latest last, at most [`MOST_ENDED`].
    ended: VecDeque<StreamId>,
}

#[derive(Debug)]
struct Entry {
    shared: Weak<Shared>,
    /// The peer whose lane opened the stream.
    peer: IpAddr,
    /// The place in the accept queue, until the initiator has confirmed the stream.
    announcement: Option<Announcement>,
}

/// A place in the queue of streams that wait to be accepted.
pub(super) type Announcement = mpsc::OwnedPermit<Unaccepted>;

/// A stream that is being opened. Dropping this before the stream is confirmed forgets the stream: the initiator does
/// not have it.
#[derive(Debug)]
pub(super) struct Opening<'a> {
    streams: &'a Streams,
    pub(super) shared: Arc<Shared>,
}

/// Why a stream is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// A stream of that name is open.
    Exists,
    /// The confirmed streams have reached this limit.
    Open(Limit),
    /// The confirmed streams and those that are being opened have together reached this limit.
    Opening(Limit),
}

impl Handshakes {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let all = Arc::new(Semaphore::new(limits.handshakes.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self { per_peer: limits.handshakes_per_peer, all, by_peer: Mutex::default() })
    }

    /// Waits for a place for one more handshake.
    ///
    /// # Errors
    /// The peer has reached its limit.
    pub(super) async fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<HandshakePermit, Limit> {
        let of_peer = self.enter_of_peer(peer)?;
        // The semaphore is never closed.
        let of_all = self.all.clone().acquire_owned().await.map_err(|_| Limit::Handshakes)?;
        Ok(HandshakePermit { _of_peer: of_peer, _of_all: of_all })
    }

    fn enter_of_peer(self: &Arc<Self>, peer: IpAddr) -> Result<PeerPermit, Limit> {
        let peer = peer.to_canonical();
        let mut by_peer = self.lock();
        let of_peer = by_peer.get(&peer).copied().unwrap_or_default();
        if of_peer >= self.per_peer {
            return Err(Limit::PeerHandshakes);
        }
        by_peer.insert(peer, of_peer + 1);
        Ok(PeerPermit { handshakes: self.clone(), peer })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.by_peer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        let mut by_peer = self.handshakes.lock();
        // A peer without handshakes is forgotten, so that the table is no longer than the number of handshakes.
        if let Some(count) = by_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                by_peer.remove(&self.peer);
            }
        }
    }
}

impl Streams {
    /// No stream yet. Each may make the listener keep `memory` bytes.
    pub(super) fn new(limits: Limits, memory: u64) -> Self {
        Self { limits, memory, known: Mutex::default() }
    }

    /// Adds the stream that `make` returns, if the limits allow it. It is announced once it is
    /// [confirmed](Self::confirm).
    pub(super) fn open(
        &self,
        stream: StreamId,
        peer: IpAddr,
        announcement: Announcement,
        make: impl FnOnce() -> Arc<Shared>,
    ) -> Result<Opening<'_>, Full> {
        let peer = peer.to_canonical();
        let mut known = self.lock();
        known.forget_ended();
        let open = &mut known.open;
        if open.contains_key(&stream) {
            return Err(Full::Exists);
        }
        let of_peer = |confirmed: bool| {
            let counts = |entry: &&Entry| entry.peer == peer && (!confirmed || entry.announcement.is_none());
            open.values().filter(counts).count()
        };
        let confirmed = open.values().filter(|entry| entry.announcement.is_none()).count();
        let bytes = |streams: usize| (streams as u64 + 1).saturating_mul(self.memory);
        let Limits { streams, streams_per_peer, memory, memory_per_peer, .. } = self.limits;
        for (is_full, limit) in [
            ([confirmed >= streams, open.len() >= streams], Limit::Streams),
            ([bytes(confirmed) > memory, bytes(open.len()) > memory], Limit::Memory),
            ([true, false].map(|confirmed| of_peer(confirmed) >= streams_per_peer), Limit::PeerStreams),
            ([true, false].map(|confirmed| bytes(of_peer(confirmed)) > memory_per_peer), Limit::PeerMemory),
        ] {
            match is_full {
                [true, _] => return Err(Full::Open(limit)),
                [false, true] => return Err(Full::Opening(limit)),
                [false, false] => {}
            }
        }
        let shared = make();
        open.insert(stream, Entry { shared: Arc::downgrade(&shared), peer, announcement: Some(announcement) });
        Ok(Opening { streams: self, shared })
    }

    /// Notes that the initiator has the stream, and gives its place in the accept queue the first time.
    pub(super) fn confirm(&self, stream: StreamId) -> Option<Announcement> {
        self.lock().open.get_mut(&stream)?.announcement.take()
    }

    /// A lane joins, so the initiator has the stream, which is not forgotten from now on. Gives the stream, and its
    /// place in the accept queue the first time.
    pub(super) fn join(&self, stream: StreamId) -> Option<(Arc<Shared>, Option<Announcement>)> {
        let mut known = self.lock();
        let entry = known.open.get_mut(&stream)?;
        Some((entry.shared.upgrade()?, entry.announcement.take()))
    }

    fn find(&self, stream: StreamId) -> Option<Arc<Shared>> {
        self.lock().open.get(&stream)?.shared.upgrade()
    }

    /// The credentials with which lanes join this stream.
    pub(super) fn joining(&self, stream: StreamId) -> Option<Credentials> {
        Some(self.find(stream)?.opened_by.joining.clone())
    }

    /// Whether the stream has ended not long ago.
    pub(super) fn has_ended(&self, stream: StreamId) -> bool {
        let mut known = self.lock();
        known.forget_ended();
        known.ended.contains(&stream)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unaccepted {
    pub(super) fn new(stream: MultiRailStream) -> Self {
        Self(Some(stream))
    }

    /// Hands the stream to the application; `None` if it has been taken.
    pub(super) fn accept(mut self) -> Option<MultiRailStream> {
        self.0.take()
    }
}

impl Drop for Unaccepted {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(MultiRailStream::abort);
    }
}

impl Known {
    /// Replaces each stream that has ended by its name.
    fn forget_ended(&mut self) {
        let ended = &mut self.ended;
        self.open.retain(|stream, entry| {
            let is_there = entry.shared.strong_count() > 0;
            if !is_there {
                ended.push_back(*stream);
            }
            is_there
        });
        let surplus = ended.len().saturating_sub(MOST_ENDED);
        ended.drain(..surplus);
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut known = self.streams.lock();
        if known.open.get(&self.shared.id).is_some_and(|entry| entry.announcement.is_some()) {
            known.open.remove(&self.shared.id);
        }
    }
}

impl Full {
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Self::Exists => Refusal::StreamExists,
            Self::Open(limit) => Refusal::Full(limit),
            Self::Opening(limit) => Refusal::Busy(limit),
        }
    }
}

/// The most names of ended streams that are kept, of 16 bytes each. A lane that was joining when its stream ended
/// arrives within a handshake's time.
const MOST_ENDED: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::shared::OpeningLane;
    use crate::{RailRequest, Rails, Security, StreamOptions, plan_rails};
    use rails_topo::Topology;
    use std::net::Ipv4Addr;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[tokio::test]
    async fn handshakes_are_limited_until_they_end() {
        let handshakes = Handshakes::new(Limits::default().handshakes(3).handshakes_per_peer(2));
        let first = handshakes.enter(peer(1)).await.unwrap();
        let _second = handshakes.enter(peer(1)).await.unwrap();
        assert_eq!(handshakes.enter(peer(1)).await.unwrap_err(), Limit::PeerHandshakes);
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(handshakes.enter(mapped).await.unwrap_err(), Limit::PeerHandshakes, "the same, written as IPv6");
        let other = handshakes.enter(peer(2)).await.unwrap();
        let (waits, ()) = tokio::join!(handshakes.enter(peer(3)), async {
            assert_eq!(handshakes.all.available_permits(), 0);
            drop(first);
        });
        drop(waits.unwrap());
        let _third = handshakes.enter(peer(1)).await.unwrap();
        drop(other);
        assert_eq!(handshakes.lock().len(), 1, "a peer without handshakes is forgotten");
    }

    /// A maker of streams with an accept queue.
    struct House {
        rails: Rails,
        queue: mpsc::Sender<Unaccepted>,
        _waiting: mpsc::Receiver<Unaccepted>,
    }

    impl House {
        fn new() -> Self {
            let topology = Topology::detect().unwrap();
            let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(1)).unwrap()).unwrap();
            let (queue, _waiting) = mpsc::channel(20);
            Self { rails, queue, _waiting }
        }

        fn open<'a>(&self, streams: &'a Streams, number: u8, from: u8) -> Result<Opening<'a>, Full> {
            let options = StreamOptions::new(Security::insecure());
            let place = self.queue.clone().try_reserve_owned().unwrap();
            streams.open(StreamId([number; 16]), peer(from), place, || {
                let connection = options.connection(options.parameters(), false);
                let any = (Ipv4Addr::UNSPECIFIED, 0).into();
                let (joining, peer_certificates) = (Credentials::Insecure, Vec::new());
                let opened_by = OpeningLane { joining, peer_certificates, local: any, peer: any };
                Shared::new(StreamId([number; 16]), connection, self.rails.clone(), opened_by)
            })
        }

        /// Opens a stream that its initiator confirms.
        fn opened(&self, streams: &Streams, number: u8, from: u8) -> Result<Arc<Shared>, Full> {
            let opening = self.open(streams, number, from)?;
            assert!(streams.confirm(StreamId([number; 16])).is_some());
            assert!(streams.confirm(StreamId([number; 16])).is_none(), "it is announced once");
            Ok(opening.shared.clone())
        }
    }

    #[test]
    fn streams_and_memory_are_limited_until_streams_end() {
        let house = House::new();
        let streams = Streams::new(Limits::default().streams(5).streams_per_peer(3).memory_per_peer(100), 40);
        let full = |number| house.opened(&streams, number, 1).err();
        let first = house.opened(&streams, 1, 1).unwrap();
        assert_eq!(full(1), Some(Full::Exists));
        let _second = house.opened(&streams, 2, 1).unwrap();
        let memory = Some(Full::Open(Limit::PeerMemory));
        assert_eq!(full(3), memory, "three streams of 40 bytes are more than 100");
        drop(first);
        let _third = house.opened(&streams, 3, 1).unwrap();

        let streams = Streams::new(Limits::default().memory(100), 40);
        let _kept = [(1, 1), (2, 2)].map(|(number, from)| house.opened(&streams, number, from).unwrap());
        assert_eq!(house.opened(&streams, 3, 3).err(), Some(Full::Open(Limit::Memory)), "of all peers together");

        let streams = Streams::new(Limits::default().streams(4).streams_per_peer(2), 40);
        let _kept = [(1, 1), (2, 1), (3, 2)].map(|(number, from)| house.opened(&streams, number, from).unwrap());
        assert_eq!(house.opened(&streams, 4, 1).err(), Some(Full::Open(Limit::PeerStreams)));
        let _last = house.opened(&streams, 4, 2).unwrap();
        assert_eq!(house.opened(&streams, 5, 3).err(), Some(Full::Open(Limit::Streams)));
    }

    #[test]
    fn a_stream_that_nobody_confirms_is_forgotten() {
        let house = House::new();
        let streams = Streams::new(Limits::default().streams_per_peer(1), 40);
        let opening = house.open(&streams, 1, 1).unwrap();
        let busy = Full::Opening(Limit::PeerStreams);
        assert_eq!(house.open(&streams, 2, 1).err(), Some(busy), "the opening stream may never be confirmed");
        drop(opening);
        assert_eq!(house.queue.capacity(), 20, "its place in the queue is free again");
        assert!(!streams.has_ended(StreamId([1; 16])), "no initiator had it");
        let opened = house.opened(&streams, 2, 1).unwrap();
        assert!(streams.find(StreamId([2; 16])).is_some());
        drop(opened);
        assert!(streams.has_ended(StreamId([2; 16])));
        for number in 0..=u8::MAX {
            drop(house.opened(&streams, number, 1).unwrap());
        }
        assert!(streams.lock().ended.len() <= MOST_ENDED);
    }

    #[test]
    fn a_stream_that_a_lane_joins_is_not_forgotten() {
        let house = House::new();
        let streams = Streams::new(Limits::default(), 40);
        let opening = house.open(&streams, 1, 1).unwrap();
        let (_shared, announcement) = streams.join(StreamId([1; 16])).unwrap();
        assert!(announcement.is_some(), "the lane that joined announces it");
        drop(opening);
        let (_, announcement) = streams.join(StreamId([1; 16])).expect("the stream outlives the lane that opened it");
        assert!(announcement.is_none(), "it is announced once");
    }
}
