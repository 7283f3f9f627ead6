//! Accepting streams: every rail listens, and what its lanes bring is put together here.

use super::{
    MultiRailStream, ask,
    guests::{Handshakes, Place, Streams},
    join::{nonce, random, read_message, send_messages},
    lane::LaneDriver,
    shared::Shared,
    supervisor::supervise,
};
use crate::{
    AdmitError, BindListenerError, ListenerClosed, RailId, StreamOptions,
    error::{JoinError, with_causes},
    proto::handshake::{
        Credentials, HandshakeError, Hello, Message, Mode, Proved, Purpose, Refusal, Responder, ResponderStep, Secret,
    },
    rails::Rails,
};
use rails_net::{Lane, LaneListener, TcpLane};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// Listens on several addresses, and accepts streams whose lanes come in on any of them.
///
/// A lane that cannot join (a wrong or missing secret, another mode, protocol or version, a certificate that is not trusted) is
/// refused and logged with `tracing`; the streams that are open, and the listener, go on.
///
/// Against floods there are [`Limits`](crate::Limits), set by [`StreamOptions::limits`]: unless they are set otherwise, 256 handshakes
/// are under way at a time, 64 of one peer's address; 1,024 streams are open, 256 of one peer, with windows of 4 GiB
/// together; and a handshake, TLS and all, is over in [`StreamOptions::handshake_timeout`] (5 s). At most 64 streams wait to
/// be accepted.
#[derive(Debug)]
pub struct MultiRailListener {
    incoming: mpsc::Receiver<Result<MultiRailStream, ListenerClosed>>,
    addresses: Vec<SocketAddr>,
    entrance: LaneEntrance,
}

/// Where a listener takes in lanes that did not come by its addresses: those of another transport. Clones lead to the same listener.
#[derive(Debug, Clone)]
pub struct LaneEntrance(Weak<Registry>);

/// What the listening tasks share. It holds the rails, so they run as long as something listens.
struct Registry {
    rails: Rails,
    options: StreamOptions,
    /// What a lane that opens a stream is met with.
    credentials: Credentials,
    streams: Streams,
    incoming: mpsc::Sender<Result<MultiRailStream, ListenerClosed>>,
    handshakes: Arc<Handshakes>,
    /// The addresses that are listened on, and by which rail.
    bound: Mutex<Vec<(RailId, SocketAddr)>>,
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
        let credentials = options.security.responder().ok_or(BindListenerError::Security)?;
        let (sender, incoming) = mpsc::channel(BACKLOG);
        let registry = Arc::new(Registry {
            rails: rails.clone(),
            options: options.clone(),
            credentials,
            streams: Streams::new(options.limits, options.window),
            incoming: sender,
            handshakes: Handshakes::new(options.limits),
            bound: Mutex::default(),
            turn: AtomicUsize::new(0),
        });
        let entrance = LaneEntrance(Arc::downgrade(&registry));
        let mut bound = Vec::new();
        for (index, address) in addresses.iter().copied().enumerate() {
            let rail = registry.rail_of(address).unwrap_or(RailId(index % rails.len()));
            let registry = registry.clone();
            let home = rails[options.driver.home(rail)].runtime();
            let listening = home.spawn(move || async move {
                let listener = registry.options.lane.listen(address)?;
                let bound = listener.local_addr();
                registry.bound.lock().unwrap_or_else(PoisonError::into_inner).push((rail, bound));
                tokio::task::spawn_local(registry.listen(rail, listener));
                Ok::<_, BindListenerError>(bound)
            });
            bound.push(listening.await.map_err(|_| BindListenerError::RailStopped(rail))??);
        }
        Ok(Self { incoming, addresses: bound, entrance })
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

    /// Where lanes of another transport are handed in, while this accepts streams.
    pub fn entrance(&self) -> LaneEntrance {
        self.entrance.clone()
    }
}

impl LaneEntrance {
    /// Takes in a lane that the other end has opened ([`StreamOptions::connector`]): it shakes hands and joins its stream, or opens one, as if it had come
    /// in on an address of `rail`. The listener's limits hold for it, by the address of its peer. What becomes of it is logged.
    ///
    /// # Errors
    /// [`AdmitError`], and then the lane is dropped.
    pub fn admit(&self, rail: RailId, lane: Arc<dyn Lane>) -> Result<(), AdmitError> {
        let registry = self.0.upgrade().ok_or(AdmitError::Closed)?;
        if rail.0 >= registry.rails.len() {
            return Err(AdmitError::NoSuchRail(rail));
        }
        registry.take_in_foreign(rail, lane);
        Ok(())
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
        let Some(place) = self.enter(peer) else { return };
        let rail = self.rail_of(socket.local_addr()).unwrap_or_else(|| {
            // An address that is no rail's own: the lanes that come in on it are spread over all of them.
            RailId(self.turn.fetch_add(1, Relaxed) % self.rails.len())
        });
        let (home, here) = (self.options.driver.home(rail), self.options.driver.home(listening));
        if home == here {
            tokio::task::spawn_local(self.serve(place, rail, Arc::new(socket)));
            return;
        }
        // A socket belongs to the runtime that it was made on, so it is taken apart here and put together there.
        match socket.detach() {
            Ok(socket) => {
                let registry = self.clone();
                drop(self.rails[home].runtime().spawn(move || async move {
                    match socket.attach() {
                        Ok(socket) => registry.serve(place, rail, Arc::new(socket)).await,
                        Err(error) => tracing::warn!(%peer, %error, "a connection was lost between two rails"),
                    }
                }));
            }
            Err(error) => tracing::warn!(%peer, %error, "a connection was lost between two rails"),
        }
    }

    /// The same for a lane of another transport, which belongs to no runtime.
    fn take_in_foreign(self: Arc<Self>, rail: RailId, lane: Arc<dyn Lane>) {
        let Some(place) = self.enter(lane.peer_addr()) else { return };
        let (home, registry) = (self.options.driver.home(rail), self.clone());
        drop(self.rails[home].runtime().spawn(move || registry.serve(place, rail, lane)));
    }

    /// A place among those that shake hands; `None` where there is none left.
    fn enter(&self, peer: SocketAddr) -> Option<Place> {
        let place = self.handshakes.enter(peer.ip());
        place
            .inspect_err(|whose| {
                tracing::warn!(%peer, "too many handshakes {whose} are under way; the connection is dropped");
            })
            .ok()
    }

    /// Lets a connection join, and drives it to its end.
    async fn serve(self: Arc<Self>, place: Place, rail: RailId, connection: Arc<dyn Lane>) {
        let peer = connection.peer_addr();
        let lane = self.join(rail, connection).await;
        drop((place, self));
        match lane {
            Ok(Some(lane)) => drop(lane.run().await),
            Ok(None) => tracing::debug!(%peer, "was told of the lanes here"),
            Err(error) => tracing::warn!(%peer, error = with_causes(&error), "a lane was refused"),
        }
    }

    /// The responder's side of the handshake, all of it within the time there is, and what becomes of the lane: nothing where the
    /// other end only asked.
    async fn join(&self, rail: RailId, lane: Arc<dyn Lane>) -> Result<Option<LaneDriver>, JoinError> {
        let joining = timeout(self.options.handshake_timeout, self.shake_hands(rail, lane));
        joining.await.map_err(|_| JoinError::Timeout)?
    }

    async fn shake_hands(&self, rail: RailId, lane: Arc<dyn Lane>) -> Result<Option<LaneDriver>, JoinError> {
        let proved = self.authenticate(&*lane).await?;
        let admitted = match proved.hello.purpose {
            Purpose::Ask => {
                let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner).clone();
                ask::answer(&*lane, proved, &self.rails, rail, &bound).await?;
                return Ok(None);
            }
            Purpose::Open => self.open(&proved.hello, proved.joining, &*lane).await?,
            Purpose::Join => match self.streams.find(proved.hello.stream) {
                Some(shared) => (shared, None),
                None => {
                    self.tell(&*lane, &[Message::Refused(Refusal::UnknownStream)]).await;
                    return Err(HandshakeError::NoSuchStream.into());
                }
            },
        };
        let Proved { hello, accept, seals, .. } = proved;
        let (shared, announcement) = admitted;
        // The lane is up before the other end is told so, or what it then sends could come before there is a lane to take it.
        let stream = announcement.is_some().then(|| MultiRailStream::new(shared.clone()));
        let up = LaneDriver::up(shared, hello.lane, rail, lane.clone(), seals, &self.options)
            .ok_or(JoinError::StreamOver)?;
        send_messages(&*lane, &[accept]).await?;
        if let (Some(place), Some(stream)) = (announcement, stream) {
            place.send(Ok(stream));
        }
        Ok(Some(up))
    }

    async fn authenticate(&self, lane: &dyn Lane) -> Result<Proved, JoinError> {
        let (mut responder, challenge) = match self.greet(lane).await {
            Ok(greeted) => greeted,
            Err(error) => {
                if let JoinError::Handshake(error) = &error
                    && let Some(refusal) = error.refusal()
                {
                    self.tell(lane, &[Message::Refused(refusal)]).await;
                }
                return Err(error);
            }
        };
        let mut messages = vec![challenge];
        loop {
            send_messages(lane, &messages).await?;
            let message = read_message(lane).await?;
            match responder.handle(message) {
                Ok(ResponderStep::Send(next)) => messages = next,
                Ok(ResponderStep::Proved(proved)) => return Ok(*proved),
                Err(error) => {
                    self.tell(lane, &responder.farewell(&error)).await;
                    return Err(error.into());
                }
            }
        }
    }

    async fn greet(&self, lane: &dyn Lane) -> Result<(Responder, Message), JoinError> {
        let Message::Hello(hello) = read_message(lane).await? else {
            return Err(HandshakeError::Disorder.into());
        };
        let credentials = match (&self.credentials, hello.purpose) {
            (Credentials::TlsServer(_), Purpose::Join) => match self.streams.joining(hello.stream) {
                Some(joining) => joining,
                // What nobody knows: so a stranger is told the same whether the stream is there or not.
                None => Credentials::Secret {
                    mode: Mode::Tls,
                    secret: Secret::of_session(&random().map_err(JoinError::Random)?),
                },
            },
            (credentials, _) => credentials.clone(),
        };
        Ok(Responder::start(credentials, hello, self.options.terms(), nonce()?)?)
    }

    /// Opens a new stream, with a place in the queue of those that wait to be accepted.
    #[allow(clippy::type_complexity)]
    async fn open(
        &self,
        hello: &Hello,
        joining: Credentials,
        lane: &dyn Lane,
    ) -> Result<(Arc<Shared>, Option<mpsc::OwnedPermit<Result<MultiRailStream, ListenerClosed>>>), JoinError> {
        let peer = lane.peer_addr().ip();
        let refusal = match self.incoming.clone().try_reserve_owned() {
            Ok(place) => {
                let opened = self.streams.open(hello.stream, peer, || {
                    let connection = self.options.connection(hello.terms);
                    Shared::new(hello.stream, connection, self.rails.clone(), joining)
                });
                match opened {
                    Ok(shared) => {
                        tokio::spawn(supervise(shared.clone(), self.options.linger));
                        return Ok((shared, Some(place)));
                    }
                    Err(full) => match full.of_peer() {
                        Some(what) => {
                            self.tell(lane, &[Message::Refused(full.refusal())]).await;
                            return Err(JoinError::PeerLimit { peer, what });
                        }
                        None => full.refusal(),
                    },
                }
            }
            Err(_) => Refusal::Full,
        };
        self.tell(lane, &[Message::Refused(refusal)]).await;
        Err(JoinError::Refusing(refusal))
    }

    /// Tells the other end, as a courtesy, why the lane may not join; the lane is closed either way.
    async fn tell(&self, lane: &dyn Lane, messages: &[Message]) {
        let _ = send_messages(lane, messages).await;
    }
}

/// How many streams may wait to be accepted.
const BACKLOG: usize = 64;
/// How long a listening socket rests after it could not accept.
const PAUSE: Duration = Duration::from_millis(50);
