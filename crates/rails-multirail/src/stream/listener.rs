//! Accepting streams: every rail listens, and what its lanes bring is put together here.

use super::{
    MultiRailStream,
    admission::{Announcement, HandshakePermit, Handshakes, Opening, Streams, Unaccepted},
    discovery,
    join::{nonce, random, read_message, send_messages},
    lane::LaneDriver,
    shared::{OpeningLane, Shared},
    supervisor::supervise,
};
use crate::{
    BindListenerError, ListenerClosed, RailId, StreamOptions, ToLaneAddresses, addresses,
    error::{JoinError, with_causes},
    rails::Rails,
};
use futures_util::{Stream, stream};
use rails_net::{Acceptor, IncomingLane, Lane};
use rails_proto::{
    LaneAddress, Scheme,
    handshake::{
        Credentials, HandshakeError, Hello, LONGEST_PLAIN, Limit, Message, Mode, PREFIX_LEN, Proved, Purpose, Refusal,
        Responder, ResponderStep, StreamId,
    },
    secret::Secret,
};
use std::{
    future::poll_fn,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, mpsc, mpsc::error::TryRecvError, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

/// Listens on several addresses, and accepts streams whose lanes come in on any of them.
///
/// A lane that cannot join (a wrong or missing secret, another mode, protocol or version, a certificate that is not trusted) is
/// refused and logged with `tracing`; the streams that are open, and the listener, go on. A stream is handed out once its initiator has it: the lanes of an
/// initiator race to open it, and what comes of the attempts that lose is forgotten.
///
/// Against floods there are [`Limits`](crate::Limits), set by [`StreamOptions::limits`]: unless they are set otherwise, 256 handshakes
/// are under way at a time, 64 of one peer's address; 1,024 streams are open, 256 of one peer, with windows of 4 GiB
/// together; and a handshake, TLS and all, is over in [`StreamOptions::handshake_timeout`] (5 s). At most 64 streams wait to
/// be accepted.
#[derive(Debug)]
pub struct MultiRailListener {
    incoming: Mutex<mpsc::Receiver<Unaccepted>>,
    /// Told of whatever comes into `incoming`, and of its end.
    arrived: Arc<Notify>,
    addresses: Vec<LaneAddress>,
    /// Why it listens no more, once it does not.
    ended: Arc<watch::Sender<Option<ListenerClosed>>>,
    /// What takes lanes in at each address.
    listening: AsyncMutex<Vec<JoinHandle<()>>>,
}

/// A lane that a peer has opened, before its handshake.
struct Joining {
    lane: Arc<dyn Lane>,
    /// The rail that drives it.
    rail: RailId,
    scheme: Scheme,
}

/// What the listening tasks share. It holds the rails, so they run as long as something listens.
struct Registry {
    rails: Rails,
    options: StreamOptions,
    /// What a lane that opens a stream is met with.
    credentials: Credentials,
    streams: Streams,
    incoming: mpsc::Sender<Unaccepted>,
    /// Dropped after `incoming`, whose end it tells.
    arrived: Arrived,
    /// Why the listener listens no more, once it does not.
    ended: Arc<watch::Sender<Option<ListenerClosed>>>,
    handshakes: Arc<Handshakes>,
    /// The addresses that are listened on, and by which rail.
    bound: Mutex<Vec<(RailId, LaneAddress)>>,
    /// Whose turn it is to take a lane that belongs to no rail by its address.
    turn: AtomicUsize,
    /// How many addresses are listened on still.
    acceptors: AtomicUsize,
}

/// Tells every task that accepts that there is something to look at, and at last that nothing more comes.
struct Arrived(Arc<Notify>);

impl Drop for Arrived {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

impl MultiRailListener {
    /// Listens on each address, on the rail that has it (the first on the first where none has).
    ///
    /// # Errors
    /// [`BindListenerError`], and then nothing listens.
    pub async fn bind(
        rails: &Rails,
        addresses: impl ToLaneAddresses,
        options: &StreamOptions,
    ) -> Result<Self, BindListenerError> {
        options.validate()?;
        let addresses = addresses::resolve(addresses.named()).await?;
        if rails.is_empty() {
            return Err(BindListenerError::NoRails);
        }
        if addresses.is_empty() {
            return Err(BindListenerError::NoAddresses);
        }
        let credentials = options.security.responder().ok_or(BindListenerError::Security)?;
        let (sender, incoming) = mpsc::channel(BACKLOG);
        let ended = Arc::new(watch::Sender::default());
        let arrived = Arc::new(Notify::new());
        let registry = Arc::new(Registry {
            rails: rails.clone(),
            options: options.clone(),
            credentials,
            streams: Streams::new(options.limits, options.window),
            incoming: sender,
            arrived: Arrived(arrived.clone()),
            ended: ended.clone(),
            handshakes: Handshakes::new(options.limits),
            bound: Mutex::default(),
            turn: AtomicUsize::new(0),
            acceptors: AtomicUsize::new(addresses.len()),
        });
        let mut listener = Self {
            incoming: Mutex::new(incoming),
            arrived,
            addresses: Vec::new(),
            ended,
            listening: AsyncMutex::default(),
        };
        for (index, address) in addresses.into_iter().enumerate() {
            let rail = registry.rail_of(address.socket).unwrap_or(RailId(index % rails.len()));
            let registry = registry.clone();
            let home = rails[options.driver.home(rail)].runtime();
            let listening = home.spawn(move || async move {
                let acceptor = registry.options.transport_of(address.scheme)?.listen(address.socket)?;
                let bound = LaneAddress { socket: acceptor.local_addr(), ..address };
                registry.bound.lock().unwrap_or_else(PoisonError::into_inner).push((rail, bound));
                let listening = tokio::task::spawn_local(registry.listen(address.scheme, acceptor));
                Ok::<_, BindListenerError>((bound, listening))
            });
            let listening = listening.await.map_err(|_| BindListenerError::RailStopped(rail));
            let (bound, task) = match listening.and_then(|listening| listening) {
                Ok(listening) => listening,
                Err(error) => {
                    listener.close().await;
                    return Err(error);
                }
            };
            listener.addresses.push(bound);
            listener.listening.get_mut().push(task);
        }
        Ok(listener)
    }

    /// The next stream. Its first lane is up; the others join while it is used ([`MultiRailStream::lanes_up`]).
    ///
    /// Cancel safe: no stream is lost when this is dropped. Several tasks may wait, and each stream is one's.
    ///
    /// # Errors
    /// [`ListenerClosed`] when nothing listens any more, from then on every time.
    pub async fn accept(&self) -> Result<MultiRailStream, ListenerClosed> {
        // A task that waits holds nothing, so one that is not polled keeps nobody from a stream.
        loop {
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            let ended = self.ended.borrow().clone();
            if let Some(closed @ ListenerClosed::Closed) = ended {
                return Err(closed);
            }
            let next = self.incoming.lock().unwrap_or_else(PoisonError::into_inner).try_recv();
            match (next, ended) {
                (Ok(stream), _) => return stream.accept().ok_or(ListenerClosed::RailsStopped),
                (Err(_), Some(ended)) => return Err(ended),
                (Err(TryRecvError::Disconnected), None) => return Err(ListenerClosed::RailsStopped),
                (Err(TryRecvError::Empty), None) => arrived.await,
            }
        }
    }

    /// The streams that it accepts, as a stream of them, which ends with the error when nothing listens any more. Dropping it closes the listener.
    pub fn into_incoming(self) -> impl Stream<Item = Result<MultiRailStream, ListenerClosed>> + Send {
        stream::unfold(Some(self), async |listener| {
            let listener = listener?;
            match listener.accept().await {
                Ok(stream) => Some((Ok(stream), Some(listener))),
                Err(ListenerClosed::Closed) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Listens no more: when this returns, the addresses are free again. Streams that wait to be accepted are given up, and every [`accept`](Self::accept) ends.
    /// Handshakes that are under way go on to their end, or for [`StreamOptions::handshake_timeout`]: they bring lanes of streams that were accepted.
    ///
    /// Streams that were accepted go on, but a lane that they lose cannot come back. Dropping the listener does the same, in the background.
    pub async fn close(&self) {
        self.ended.send_replace(Some(ListenerClosed::Closed));
        self.arrived.notify_waiters();
        {
            let mut incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
            incoming.close();
            while incoming.try_recv().is_ok() {}
        }
        let mut listening = self.listening.lock().await;
        while let Some(task) = listening.last_mut() {
            // One that has ended, with its rail or by a panic, listens no more either.
            let _ = task.await;
            listening.pop();
        }
    }

    /// The addresses that it listens on, in the order they were given; a port 0 is replaced by the one that was found.
    pub fn local_addrs(&self) -> &[LaneAddress] {
        &self.addresses
    }
}

impl Drop for MultiRailListener {
    fn drop(&mut self) {
        self.ended.send_replace(Some(ListenerClosed::Closed));
    }
}

impl Registry {
    /// The rail whose lane has this local address.
    fn rail_of(&self, address: SocketAddr) -> Option<RailId> {
        self.rails.iter().find(|rail| rail.planned().address == Some(address.ip().to_canonical())).map(|rail| rail.id())
    }

    /// Takes lanes in until the listener is dropped or the acceptor fails for good.
    async fn listen(self: Arc<Self>, scheme: Scheme, mut acceptor: Box<dyn Acceptor>) {
        let mut ended = self.ended.subscribe();
        loop {
            let accepted = tokio::select! {
                accepted = poll_fn(|context| acceptor.poll_accept(context)) => accepted,
                _ = ended.wait_for(is_closed) => return,
            };
            match accepted {
                Ok(lane) => tokio::select! {
                    // While all places are taken the next lanes wait in the acceptor's backlog.
                    permit = self.handshakes.enter(lane.peer_addr().ip()) => match permit {
                        Ok(permit) => self.clone().take_in(permit, scheme, lane),
                        Err(limit) => send_away(lane, limit).await,
                    },
                    _ = ended.wait_for(is_closed) => return,
                },
                Err(error) if error.is_transient() => {
                    tracing::warn!(address = %acceptor.local_addr(), %error, "a connection was not accepted");
                    // Where file descriptors have run out, trying again at once would only spin.
                    sleep(PAUSE).await;
                }
                Err(error) => {
                    let address = LaneAddress { scheme, socket: acceptor.local_addr() };
                    tracing::error!(%address, error = with_causes(&error), "an address is listened on no more");
                    // A peer that asks is not told of it.
                    self.bound.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, bound)| *bound != address);
                    if self.acceptors.fetch_sub(1, Relaxed) > 1 {
                        return;
                    }
                    // A listener that was closed meanwhile stays so.
                    self.ended.send_if_modified(|ended| match ended {
                        Some(_) => false,
                        None => {
                            *ended = Some(ListenerClosed::Accept(Arc::new(error)));
                            true
                        }
                    });
                    self.arrived.0.notify_waiters();
                    return;
                }
            }
        }
    }

    /// Opens a lane on the runtime that drives the lanes of the rail that it belongs to.
    fn take_in(self: Arc<Self>, permit: HandshakePermit, scheme: Scheme, lane: IncomingLane) {
        let rail = self.rail_of(lane.local_addr()).unwrap_or_else(|| {
            // An address that is no rail's own: the lanes that come in on it are spread over all of them.
            RailId(self.turn.fetch_add(1, Relaxed) % self.rails.len())
        });
        let (home, registry) = (self.options.driver.home(rail), self.clone());
        drop(self.rails[home].runtime().spawn(move || async move {
            let peer = lane.peer_addr();
            match lane.open() {
                Ok(lane) => registry.serve(permit, Joining { lane, rail, scheme }).await,
                Err(error) => {
                    tracing::warn!(%peer, error = with_causes(&error), "a connection was lost between two rails")
                }
            }
        }));
    }

    /// Lets a connection join, and drives it to its end.
    async fn serve(self: Arc<Self>, permit: HandshakePermit, joining: Joining) {
        let peer = joining.lane.peer_addr();
        let lane = self.join(joining).await;
        drop((permit, self));
        match lane {
            Ok(Some(lane)) => drop(lane.run().await),
            Ok(None) => tracing::debug!(%peer, "was told of the lanes here"),
            // An initiator goes away where another of its lanes was first, and a lane that was joining when its stream ended comes too late.
            Err(error @ (JoinError::Io(_) | JoinError::StreamOver)) => {
                tracing::debug!(%peer, error = with_causes(&error), "a lane came to nothing");
            }
            Err(error @ JoinError::Refusing(Refusal::Busy(_))) => {
                tracing::debug!(%peer, error = with_causes(&error), "a lane is to be tried again");
            }
            Err(error) => tracing::warn!(%peer, error = with_causes(&error), "a lane was refused"),
        }
    }

    /// The responder's side of the handshake, all of it within the time there is, and what becomes of the lane: nothing where the
    /// other end only asked.
    async fn join(&self, joining: Joining) -> Result<Option<LaneDriver>, JoinError> {
        let joined = timeout(self.options.handshake_timeout, self.shake_hands(joining));
        joined.await.map_err(|_| JoinError::Timeout)?
    }

    async fn shake_hands(&self, joining: Joining) -> Result<Option<LaneDriver>, JoinError> {
        let Joining { lane, rail, scheme } = joining;
        let proved = self.authenticate(&*lane).await?;
        let Hello { purpose, stream, lane: index, .. } = proved.hello;
        match purpose {
            Purpose::Discover => {
                let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner).clone();
                discovery::answer(&*lane, proved, &self.rails, rail, &bound, scheme).await?;
                Ok(None)
            }
            Purpose::Open => {
                let opening = self.open(&proved, &*lane).await?;
                send_messages(&*lane, std::slice::from_ref(&proved.accept)).await?;
                // The initiator may have opened the stream by another lane in the meantime, or given up.
                proved.confirm(&read_message(&*lane, LONGEST_PLAIN).await?)?;
                let shared = opening.shared.clone();
                let up = LaneDriver::up(shared.clone(), index, rail, lane, proved.seals, &self.options).await;
                self.announce(&shared, self.streams.confirm(stream));
                Ok(Some(up.ok_or(JoinError::StreamOver)?))
            }
            Purpose::Join => {
                // Whoever joins a stream has it, though the confirmation was lost with the lane that opened it.
                let Some((shared, announcement)) = self.streams.join(stream) else {
                    self.tell(&*lane, &[Message::Refused(Refusal::UnknownStream)]).await;
                    return Err(self.no_such(stream));
                };
                // The lane is up before the peer is told so, or what it then sends could come before there is a lane to take it.
                let up = LaneDriver::up(shared.clone(), index, rail, lane.clone(), proved.seals, &self.options).await;
                self.announce(&shared, announcement);
                let up = up.ok_or(JoinError::StreamOver)?;
                send_messages(&*lane, &[proved.accept]).await?;
                Ok(Some(up))
            }
        }
    }

    /// Announces a stream that its initiator has, the first time.
    fn announce(&self, shared: &Arc<Shared>, announcement: Option<Announcement>) {
        if let Some(place) = announcement {
            tokio::spawn(supervise(shared.clone()));
            let stream = Unaccepted::new(MultiRailStream::new(shared.clone()));
            // Closing waits for this: nobody would find the stream in the queue of a listener that is closed.
            let ended = self.ended.borrow();
            if !is_closed(&ended) {
                place.send(stream);
                self.arrived.0.notify_waiters();
            }
        }
    }

    /// Why a lane does not join a stream that is not there.
    fn no_such(&self, stream: StreamId) -> JoinError {
        if self.streams.has_ended(stream) { JoinError::StreamOver } else { HandshakeError::NoSuchStream.into() }
    }

    async fn authenticate(&self, lane: &dyn Lane) -> Result<Proved, JoinError> {
        let (mut responder, challenge, stream) = match self.greet(lane).await {
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
            let message = read_message(lane, responder.longest_next()).await?;
            match responder.handle(message) {
                Ok(ResponderStep::Send(next)) => messages = next,
                Ok(ResponderStep::Proved(proved)) => return Ok(*proved),
                Err(error) => {
                    self.tell(lane, &responder.farewell(&error)).await;
                    return Err(match error {
                        HandshakeError::NoSuchStream => self.no_such(stream),
                        error => error.into(),
                    });
                }
            }
        }
    }

    async fn greet(&self, lane: &dyn Lane) -> Result<(Responder, Message, StreamId), JoinError> {
        let Message::Hello(hello) = read_message(lane, LONGEST_PLAIN).await? else {
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
        let (responder, challenge) = Responder::start(credentials, hello, self.options.parameters(), nonce()?)?;
        Ok((responder, challenge, hello.stream))
    }

    /// A new stream, with a place in the queue of those that wait to be accepted.
    async fn open(&self, proved: &Proved, lane: &dyn Lane) -> Result<Opening<'_>, JoinError> {
        let Hello { stream, parameters, .. } = proved.hello;
        let refusal = match self.incoming.clone().try_reserve_owned() {
            Ok(place) => {
                let make = || {
                    let connection = self.options.connection(parameters, false);
                    let opened_by = OpeningLane {
                        joining: proved.joining.clone(),
                        peer_certificates: proved.peer_certificates.clone(),
                        local: lane.local_addr(),
                        peer: lane.peer_addr(),
                    };
                    Shared::new(stream, connection, self.rails.clone(), opened_by)
                };
                match self.streams.open(stream, lane.peer_addr().ip(), place, make) {
                    Ok(opening) => return Ok(opening),
                    Err(full) => full.refusal(),
                }
            }
            Err(_) => Refusal::Busy(Limit::Waiting),
        };
        self.tell(lane, &[Message::Refused(refusal)]).await;
        Err(JoinError::Refusing(refusal))
    }

    /// Tells the peer, as a courtesy, why the lane may not join; the lane is closed either way.
    async fn tell(&self, lane: &dyn Lane, messages: &[Message]) {
        let _ = send_messages(lane, messages).await;
    }
}

fn is_closed(ended: &Option<ListenerClosed>) -> bool {
    matches!(ended, Some(ListenerClosed::Closed))
}

/// Tells an initiator that it is one too many just now, without waiting for it; the lane is closed with this.
async fn send_away(lane: IncomingLane, limit: Limit) {
    tracing::debug!(peer = %lane.peer_addr(), "a connection is to be tried again: there are {limit}");
    let Ok(lane) = lane.open() else { return };
    // A lane that has just come to its runtime is ready for nothing before the runtime has looked at it.
    let _ = timeout(PAUSE, poll_fn(|context| lane.poll_submit_ready(context))).await;
    // A connection that is closed with bytes that nobody has read is reset, and the refusal on it may be lost.
    let _ = lane.try_receive(&mut [std::io::IoSliceMut::new(&mut [0; PREFIX_LEN + LONGEST_PLAIN])]);
    let _ = lane.try_submit(&Message::Refused(Refusal::Busy(limit)).encode(), &[]);
}

/// How many streams may wait to be accepted.
const BACKLOG: usize = 64;
/// How long a listening socket rests after it could not accept.
const PAUSE: Duration = Duration::from_millis(50);
