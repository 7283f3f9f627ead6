//! Admission at a listener: the handshakes and streams of each peer, and their limits.

use super::shared::StreamShared;
use crate::Limits;
use rails_proto::{
    admission::{self, Entry, HandshakeId, Origin, Standing},
    handshake::{Credentials, Limit, Refusal, StreamId},
    parameters::MAX_LANES,
};
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::oneshot;

/// The handshakes under way.
#[derive(Debug)]
pub(super) struct Handshakes(Mutex<Table>);

type Table = admission::Handshakes<oneshot::Sender<Limit>>;

/// The place of one handshake, held until dropped.
#[derive(Debug)]
pub(super) struct HandshakePlace {
    handshakes: Arc<Handshakes>,
    id: HandshakeId,
}

/// Resolves when a handshake has to make room for another, with the limit that was reached.
pub(super) type Eviction = oneshot::Receiver<Limit>;

/// The open streams, those among them that their initiators have not confirmed yet, and the latest
/// that have ended.
#[derive(Debug)]
pub(super) struct Streams {
    limits: Limits,
    /// The bytes that each stream may make the listener keep.
    memory: u64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    open: HashMap<StreamId, OpenStream>,
    /// The names of streams that have ended, the latest last, at most [`MAX_ENDED`].
    ended: VecDeque<StreamId>,
    /// The origins of the lanes of open streams, each with the number of streams.
    familiar: HashMap<Origin, usize>,
}

#[derive(Debug)]
struct OpenStream {
    shared: Weak<StreamShared>,
    /// The peer whose lane opened the stream.
    peer: IpAddr,
    /// The origins of the stream's lanes, at most [`MAX_LANES`].
    origins: BTreeSet<Origin>,
    /// Whether the initiator has the stream for certain.
    is_confirmed: bool,
}

/// A stream that is being opened. Dropping this before the stream is confirmed forgets the stream:
/// the initiator does not have it.
#[derive(Debug)]
pub(super) struct Opening<'a> {
    streams: &'a Streams,
    pub(super) shared: Arc<StreamShared>,
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
        Arc::new(Self(Mutex::new(Table::new(limits.handshakes, limits.handshakes_per_peer))))
    }

    /// Gives a place to a connection from this address. At a limit another handshake makes room for
    /// it.
    ///
    /// # Errors
    /// The limit whose places are all taken by peers that have proved themselves.
    pub(super) fn enter(
        self: &Arc<Self>,
        peer: IpAddr,
        is_familiar: bool,
    ) -> Result<(HandshakePlace, Eviction), Limit> {
        let (tell, eviction) = oneshot::channel();
        let entry = self.lock().enter(peer, is_familiar, tell);
        let id = match entry {
            Entry::Free(id) => id,
            Entry::Evicting { id, evicted, limit } => {
                // The call fails where the handshake has just ended.
                let _ = evicted.send(limit);
                id
            }
            Entry::Refused(limit) => return Err(limit),
        };
        Ok((HandshakePlace { handshakes: self.clone(), id }, eviction))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HandshakePlace {
    /// The peer has sent a message of the handshake, and has this standing unless it has a better
    /// one. `false` if the place is another's.
    pub(super) fn heard(&self, standing: Standing) -> bool {
        self.handshakes.lock().heard(self.id, standing)
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        // The handle wakes a task when it is dropped, so it is dropped without the lock.
        let handle = self.handshakes.lock().leave(self.id);
        drop(handle);
    }
}

impl Streams {
    /// No stream yet. Each may make the listener keep `memory` bytes.
    pub(super) fn new(limits: Limits, memory: u64) -> Self {
        Self { limits, memory, known: Mutex::default() }
    }

    /// Adds the stream that `make` returns, if the limits allow it. It waits to be
    /// [confirmed](Self::confirm).
    pub(super) fn open(
        &self,
        stream: StreamId,
        peer: IpAddr,
        make: impl FnOnce() -> Arc<StreamShared>,
    ) -> Result<Opening<'_>, Full> {
        let peer = peer.to_canonical();
        self.room(&mut self.lock(), stream, peer)?;
        // The application's policy is made here, so the lock is free. Others may take the room meanwhile.
        let shared = make();
        let mut known = self.lock();
        if let Err(full) = self.room(&mut known, stream, peer) {
            drop(known);
            drop(shared);
            return Err(full);
        }
        let entry = OpenStream { shared: Arc::downgrade(&shared), peer, origins: BTreeSet::new(), is_confirmed: false };
        known.open.insert(stream, entry);
        Ok(Opening { streams: self, shared })
    }

    /// Whether the limits allow one stream more, of this name and from this peer.
    fn room(&self, known: &mut Known, stream: StreamId, peer: IpAddr) -> Result<(), Full> {
        known.forget_ended();
        let open = &known.open;
        if open.contains_key(&stream) {
            return Err(Full::Exists);
        }
        let of_peer = |confirmed: bool| {
            let counts = |entry: &&OpenStream| entry.peer == peer && (!confirmed || entry.is_confirmed);
            open.values().filter(counts).count()
        };
        let confirmed = open.values().filter(|entry| entry.is_confirmed).count();
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
        Ok(())
    }

    /// Notes that the initiator has the stream, by a lane from this address. Says whether that is
    /// news.
    pub(super) fn confirm(&self, stream: StreamId, from: IpAddr) -> bool {
        self.lock().confirm(stream, from)
    }

    /// A lane from this address joins, so the initiator has the stream, which is not forgotten from
    /// now on. Gives the stream, and whether that is news.
    ///
    /// `None` if no such stream is open, or if the lane has proved itself by other credentials than
    /// the stream's: since the lane was asked for its proof, another peer may have opened a stream
    /// of that name.
    pub(super) fn join(
        &self,
        stream: StreamId,
        proved: &Credentials,
        from: IpAddr,
    ) -> Option<(Arc<StreamShared>, bool)> {
        let mut known = self.lock();
        let shared = known.open.get(&stream)?.shared.upgrade()?;
        if !proved.are_those_of(&shared.opened_by.joining) {
            // If this was the last hold on the stream, wakers are called as it is dropped.
            drop(known);
            return None;
        }
        let is_news = known.confirm(stream, from);
        Some((shared, is_news))
    }

    /// Whether a lane of an open stream has come from the origin of this address.
    pub(super) fn is_familiar(&self, peer: IpAddr) -> bool {
        let mut known = self.lock();
        known.forget_ended();
        known.familiar.contains_key(&Origin::of(peer))
    }

    /// Whether a stream of that name is open.
    pub(super) fn is_open(&self, stream: StreamId) -> bool {
        self.find(stream).is_some()
    }

    fn find(&self, stream: StreamId) -> Option<Arc<StreamShared>> {
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

impl Known {
    /// Notes that the initiator has a stream, and where one of the stream's lanes has come from.
    /// Says whether the former is news.
    fn confirm(&mut self, stream: StreamId, from: IpAddr) -> bool {
        let Some(entry) = self.open.get_mut(&stream) else { return false };
        let origin = Origin::of(from);
        if entry.origins.len() < MAX_LANES && entry.origins.insert(origin) {
            *self.familiar.entry(origin).or_default() += 1;
        }
        !std::mem::replace(&mut entry.is_confirmed, true)
    }

    /// Replaces each stream that has ended by its name.
    fn forget_ended(&mut self) {
        for (stream, entry) in self.open.extract_if(|_, entry| entry.shared.strong_count() == 0) {
            self.ended.push_back(stream);
            for origin in entry.origins {
                if let Some(streams) = self.familiar.get_mut(&origin) {
                    *streams -= 1;
                    if *streams == 0 {
                        self.familiar.remove(&origin);
                    }
                }
            }
        }
        let surplus = self.ended.len().saturating_sub(MAX_ENDED);
        self.ended.drain(..surplus);
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut known = self.streams.lock();
        if known.open.get(&self.shared.id).is_some_and(|entry| !entry.is_confirmed) {
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

/// The most names of ended streams that are kept, of 16 bytes each. A lane that was joining when
/// its stream ended arrives within a handshake's time.
const MAX_ENDED: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        RailRequest, Rails, Security, StreamOptions, plan_rails,
        stream::shared::{OpeningLane, Role},
    };
    use rails_proto::handshake::Purpose;
    use rails_topo::Topology;
    use std::net::Ipv4Addr;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[tokio::test]
    async fn a_handshake_makes_room_for_another() {
        let handshakes = Handshakes::new(Limits::default().handshakes(3).handshakes_per_peer(2));
        let enter = |peer| handshakes.enter(peer, false).unwrap();
        let (first, evicted) = enter(peer(1));
        let (second, _stays) = enter(peer(1));
        let (third, mut stays) = enter("::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(evicted.await, Ok(Limit::PeerHandshakes));
        drop((first, second));
        assert_eq!(handshakes.lock().len(), 1, "a place is free when its handshake ends");
        third.heard(Standing::Greeted);
        let _others = [peer(2), peer(3), peer(4)].map(enter);
        assert!(stays.try_recv().is_err(), "mute peers make room for each other");
    }

    /// Makes streams.
    struct House {
        rails: Rails,
    }

    impl House {
        fn new() -> Self {
            let topology = Topology::detect().unwrap();
            let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(1)).unwrap()).unwrap();
            Self { rails }
        }

        fn open<'a>(&self, streams: &'a Streams, number: u8, from: u8) -> Result<Opening<'a>, Full> {
            streams.open(StreamId([number; 16]), peer(from), || self.make(number))
        }

        fn make(&self, number: u8) -> Arc<StreamShared> {
            let options = StreamOptions::new(Security::insecure());
            let (purpose, side) = (Purpose::Open, rails_proto::stream_number::Side::Responder);
            let session = options.session(purpose, options.parameters(purpose), side);
            let any = (Ipv4Addr::UNSPECIFIED, 0).into();
            let opened_by = OpeningLane {
                role: Role::Accepted,
                joining: Credentials::Insecure,
                peer_certificates: Vec::new(),
                peer_name: None,
                local: any,
                peer: any,
            };
            StreamShared::new(StreamId([number; 16]), session, self.rails.clone(), opened_by, &options)
        }

        /// Opens a stream that its initiator confirms.
        fn opened(&self, streams: &Streams, number: u8, from: u8) -> Result<Arc<StreamShared>, Full> {
            let opening = self.open(streams, number, from)?;
            assert!(streams.confirm(StreamId([number; 16]), peer(from)));
            assert!(!streams.confirm(StreamId([number; 16]), peer(from)), "it is announced once");
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

    /// The application's policy is made with a stream.
    #[test]
    fn a_stream_is_made_without_the_lock() {
        let house = House::new();
        let streams = Streams::new(Limits::default(), 40);
        let mut first = None;
        let made = streams.open(StreamId([1; 16]), peer(1), || {
            first = Some(house.opened(&streams, 1, 2).unwrap());
            house.make(1)
        });
        assert_eq!(made.err(), Some(Full::Exists), "another thread was first");
    }

    #[test]
    fn peers_are_familiar_while_their_streams_are_open() {
        let house = House::new();
        let streams = Streams::new(Limits::default(), 40);
        let [first, second] = [1, 2].map(|number| house.opened(&streams, number, 1).unwrap());
        let has_joined = streams.join(StreamId([1; 16]), &Credentials::Insecure, peer(2)).is_some();
        assert!(has_joined, "a lane of another rail");
        let is_familiar = |last| streams.is_familiar(peer(last));
        assert_eq!([1, 2, 3].map(is_familiar), [true, true, false]);
        drop(first);
        assert_eq!([1, 2, 3].map(is_familiar), [true, false, false], "the other stream is open");
        drop(second);
        assert_eq!([1, 2, 3].map(is_familiar), [false; 3]);
    }

    #[test]
    fn a_stream_that_never_opens_has_no_end_in_the_log() {
        let house = House::new();
        let (log, writer) = std::io::pipe().unwrap();
        let subscriber = tracing_subscriber::fmt().with_writer(Mutex::new(writer)).finish();
        tracing::subscriber::with_default(subscriber, || {
            let streams = Streams::new(Limits::default(), 40);
            drop(house.open(&streams, 1, 1).unwrap());
            let opened = house.opened(&streams, 2, 1).unwrap();
            opened.log_opened(1);
        });
        let text = std::io::read_to_string(log).unwrap();
        let ends: Vec<_> = text.lines().filter(|line| line.contains("a stream has ended")).collect();
        assert_eq!(ends.len(), 1, "{text}");
        assert!(ends[0].contains(&StreamId([2; 16]).to_string()), "{text}");
    }

    #[test]
    fn an_unconfirmed_stream_is_forgotten() {
        let house = House::new();
        let streams = Streams::new(Limits::default().streams_per_peer(1), 40);
        let opening = house.open(&streams, 1, 1).unwrap();
        let busy = Full::Opening(Limit::PeerStreams);
        assert_eq!(house.open(&streams, 2, 1).err(), Some(busy), "the opening stream may never be confirmed");
        drop(opening);
        assert!(!streams.has_ended(StreamId([1; 16])), "no initiator had it");
        let opened = house.opened(&streams, 2, 1).unwrap();
        assert!(streams.find(StreamId([2; 16])).is_some());
        drop(opened);
        assert!(streams.has_ended(StreamId([2; 16])));
        for number in 0..=u8::MAX {
            drop(house.opened(&streams, number, 1).unwrap());
        }
        assert!(streams.lock().ended.len() <= MAX_ENDED);
    }

    #[test]
    fn a_stream_that_a_lane_joins_is_not_forgotten() {
        let house = House::new();
        let streams = Streams::new(Limits::default(), 40);
        let opening = house.open(&streams, 1, 1).unwrap();
        let join = || streams.join(StreamId([1; 16]), &Credentials::Insecure, peer(1));
        let (_shared, is_news) = join().unwrap();
        assert!(is_news, "the lane that joined announces it");
        drop(opening);
        let (_, is_news) = join().expect("the stream outlives the lane that opened it");
        assert!(!is_news, "it is announced once");
    }
}
