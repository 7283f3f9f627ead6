//! Accepting streams: every rail listens, and what its lanes bring is put together here.

use super::{
    MultiRailStream,
    join::{nonce, read_message, send_message},
    lane::Lane,
    shared::Shared,
};
use crate::{
    BindListenerError, ListenerClosed, RailId, StreamOptions,
    error::JoinError,
    proto::{
        connection::Connection,
        handshake::{HandshakeError, Hello, Message, Purpose, Refusal, Responder, StreamId},
    },
    rails::Rails,
};
use rails_net::{LaneListener, TcpLane};
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{Semaphore, mpsc},
    time::{sleep, timeout},
};

/// Listens on several addresses, and accepts streams whose lanes come in on any of them.
///
/// A lane that cannot join (a wrong or missing secret, another protocol, another version) is refused and logged with
/// `tracing`; the streams that are open, and the listener, go on. At most 256 handshakes are under way at a time, and at
/// most 1,024 streams are open.
#[derive(Debug)]
pub struct MultiRailListener {
    incoming: mpsc::Receiver<Result<MultiRailStream, ListenerClosed>>,
    addresses: Vec<SocketAddr>,
}

/// What the listening tasks share. It holds the rails, so they run as long as something listens.
struct Registry {
    rails: Rails,
    options: StreamOptions,
    streams: Mutex<HashMap<StreamId, Weak<Shared>>>,
    incoming: mpsc::Sender<Result<MultiRailStream, ListenerClosed>>,
    handshakes: Arc<Semaphore>,
    /// Whose turn it is to take a lane that belongs to no rail by its address.
    turn: AtomicUsize,
}

impl MultiRailListener {
    /// Listens on each address, on the rail that has it (the first on the first where none has).
    ///
    /// # Errors
    /// [`BindListenerError`], and then nothing listens.
    pub async fn bind(
        rails: &Rails,
        addresses: &[SocketAddr],
        options: &StreamOptions,
    ) -> Result<Self, BindListenerError> {
        if rails.is_empty() || addresses.is_empty() {
            let missing = if rails.is_empty() { "no rails to listen on" } else { "no addresses to listen on" };
            return Err(BindListenerError::NoLanes(missing));
        }
        let (sender, incoming) = mpsc::channel(BACKLOG);
        let registry = Arc::new(Registry {
            rails: rails.clone(),
            options: options.clone(),
            streams: Mutex::default(),
            incoming: sender,
            handshakes: Arc::new(Semaphore::new(MOST_HANDSHAKES)),
            turn: AtomicUsize::new(0),
        });
        let mut bound = Vec::new();
        for (index, address) in addresses.iter().copied().enumerate() {
            let rail = registry.rail_of(address).unwrap_or(RailId(index % rails.len()));
            let registry = registry.clone();
            let home = rails[options.driver.home(rail)].runtime();
            let listening = home.spawn(move || async move {
                let listener = registry.options.lane.listen(address)?;
                let bound = listener.local_addr();
                tokio::task::spawn_local(registry.listen(rail, listener));
                Ok::<_, BindListenerError>(bound)
            });
            bound.push(listening.await.map_err(|_| BindListenerError::RailStopped(rail))??);
        }
        Ok(Self { incoming, addresses: bound })
    }

    /// The next stream. Its first lane is up; the others join while it is used ([`MultiRailStream::lanes_up`]).
    ///
    /// Cancel safe: no stream is lost when this is dropped.
    ///
    /// # Errors
    /// [`ListenerClosed`] when nothing listens any more.
    pub async fn accept(&mut self) -> Result<MultiRailStream, ListenerClosed> {
        self.incoming.recv().await.unwrap_or(Err(ListenerClosed::RailsStopped))
    }

    /// The addresses that it listens on, in the order they were given; a port 0 is replaced by the one that was found.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Registry {
    /// The rail whose lane has this local address.
    fn rail_of(&self, address: SocketAddr) -> Option<RailId> {
        self.rails.iter().find(|rail| rail.plan().address == Some(address.ip())).map(|rail| rail.id())
    }

    /// Takes connections until the listener is dropped or its socket fails for good.
    async fn listen(self: Arc<Self>, rail: RailId, listener: LaneListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.incoming.closed() => return,
            };
            match accepted {
                Ok(lane) => self.clone().take_in(rail, lane),
                Err(error) if error.is_transient() => {
                    tracing::warn!(address = %listener.local_addr(), %error, "a connection was not accepted");
                    // Where file descriptors have run out, trying again at once would only spin.
                    sleep(PAUSE).await;
                }
                Err(error) => {
                    let error = ListenerClosed::Accept(Arc::new(error));
                    let _ = self.incoming.send(Err(error)).await;
                    return;
                }
            }
        }
    }

    /// Hands a connection to the runtime that drives the lanes of the rail that it belongs to.
    fn take_in(self: Arc<Self>, listening: RailId, socket: TcpLane) {
        let peer = socket.peer_addr();
        let Ok(permit) = self.handshakes.clone().try_acquire_owned() else {
            tracing::warn!(%peer, "too many handshakes are under way; the connection is dropped");
            return;
        };
        let rail = self.rail_of(socket.local_addr()).unwrap_or_else(|| {
            // An address that is no rail's own: the lanes that come in on it are spread over all of them.
            RailId(self.turn.fetch_add(1, Relaxed) % self.rails.len())
        });
        let serve = move |registry: Arc<Self>, socket| async move {
            let lane = registry.join(rail, socket).await;
            drop((permit, registry));
            match lane {
                Ok(lane) => lane.run().await,
                Err(error) => tracing::warn!(%peer, %error, "a lane was refused"),
            }
        };
        let (home, here) = (self.options.driver.home(rail), self.options.driver.home(listening));
        if home == here {
            tokio::task::spawn_local(serve(self, socket));
            return;
        }
        // A socket belongs to the runtime that it was made on, so it is taken apart here and put together there.
        match socket.detach() {
            Ok(socket) => {
                let registry = self.clone();
                drop(self.rails[home].runtime().spawn(move || async move {
                    match socket.attach() {
                        Ok(socket) => serve(registry, socket).await,
                        Err(error) => tracing::warn!(%peer, %error, "a connection was lost between two rails"),
                    }
                }));
            }
            Err(error) => tracing::warn!(%peer, %error, "a connection was lost between two rails"),
        }
    }

    /// The responder's side of the handshake, and what becomes of the lane.
    async fn join(&self, rail: RailId, socket: TcpLane) -> Result<Lane, JoinError> {
        let deadline = self.options.handshake_timeout;
        let hello = timeout(deadline, self.authenticate(&socket)).await.map_err(|_| JoinError::Timeout)?;
        let (hello, accept) = match hello {
            Ok(authenticated) => authenticated,
            Err(error) => {
                if let JoinError::Handshake(handshake) = &error
                    && let Some(refusal) = handshake.refusal()
                {
                    self.refuse(&socket, refusal).await;
                }
                return Err(error);
            }
        };
        let admitted = match hello.purpose {
            Purpose::Open => self.open(&hello),
            Purpose::Join => self.find(hello.stream).map(|shared| (shared, None)),
        };
        let (shared, announcement) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => {
                self.refuse(&socket, refusal).await;
                return Err(HandshakeError::Refused(refusal).into());
            }
        };
        // The lane is up before the other end is told so, or what it then sends could come before there is a lane to take it.
        let stream = announcement.is_some().then(|| MultiRailStream::new(shared.clone()));
        let lane = Lane::up(shared, hello.lane, rail, socket, &self.options).ok_or(JoinError::StreamOver)?;
        let accepted = timeout(deadline, send_message(lane.socket.get_ref(), &accept));
        accepted.await.map_err(|_| JoinError::Timeout)??;
        if let (Some(place), Some(stream)) = (announcement, stream) {
            place.send(Ok(stream));
        }
        Ok(lane)
    }

    async fn authenticate(&self, socket: &TcpLane) -> Result<(Hello, Message), JoinError> {
        let first = read_message(socket.get_ref()).await?;
        let secret = self.options.secret.clone();
        let (responder, challenge) = Responder::start(secret, first, self.options.terms(), nonce()?)?;
        send_message(socket.get_ref(), &challenge).await?;
        let hello = *responder.handle(read_message(socket.get_ref()).await?)?;
        Ok((hello, responder.accept()))
    }

    /// Opens a new stream, with a place in the queue of those that wait to be accepted.
    #[allow(clippy::type_complexity)]
    fn open(
        &self,
        hello: &Hello,
    ) -> Result<(Arc<Shared>, Option<mpsc::OwnedPermit<Result<MultiRailStream, ListenerClosed>>>), Refusal> {
        let place = self.incoming.clone().try_reserve_owned().map_err(|_| Refusal::Full)?;
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|_, stream| stream.strong_count() > 0);
        if streams.contains_key(&hello.stream) {
            return Err(Refusal::StreamExists);
        }
        if streams.len() >= MOST_STREAMS {
            return Err(Refusal::Full);
        }
        let connection = Connection::new(self.options.config(), hello.terms);
        let shared = Shared::new(hello.stream, connection, self.rails.clone());
        streams.insert(hello.stream, Arc::downgrade(&shared));
        Ok((shared, Some(place)))
    }

    fn find(&self, stream: StreamId) -> Result<Arc<Shared>, Refusal> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.get(&stream).and_then(Weak::upgrade).ok_or(Refusal::UnknownStream)
    }

    /// Tells the other end, as a courtesy, that the lane may not join; the socket is closed either way.
    async fn refuse(&self, socket: &TcpLane, refusal: Refusal) {
        let message = Message::Refused(refusal);
        let _ = timeout(self.options.handshake_timeout, send_message(socket.get_ref(), &message)).await;
    }
}

/// How many streams may wait to be accepted.
const BACKLOG: usize = 64;
/// How many connections may be in their handshake: each costs a socket and less than a kilobyte.
const MOST_HANDSHAKES: usize = 256;
/// How many streams may be open: each may hold a window of memory.
const MOST_STREAMS: usize = 1024;
/// How long a listening socket rests after it could not accept.
const PAUSE: Duration = Duration::from_millis(50);
