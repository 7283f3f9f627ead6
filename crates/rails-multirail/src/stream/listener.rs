//! Accepting streams: every rail listens, and the listener joins the lanes of each stream.

use super::{
    MultiRailStream,
    accept_queue::{AcceptQueue, Kind},
    admission::{Eviction, HandshakePlace, Handshakes, Opening, Streams},
    discovery,
    io::receive,
    join::{nonce, read_message, send_messages},
    lane::LaneDriver,
    listener_security::{ListenerSecurity, of_unknown_stream},
    shared::{OpeningLane, Role, StreamShared},
    supervisor::supervise,
    unread::Unread,
};
use crate::{
    BindListenerError, EndpointError, ListenerClosed, MultiRailSession, RailId, Security, StreamOptions,
    ToLaneAddresses, addresses,
    error::{JoinError, SetSecurityError, with_causes},
    rails::Rails,
};
use futures_util::{Stream, stream};
use rails_net::{Acceptor, IncomingLane, Lane, Repeated};
use rails_proto::{
    LaneAddress, Scheme,
    admission::{HandshakeRate, Standing},
    handshake::{
        Credentials, HandshakeError, HandshakeMessage, Hello, LONGEST_PLAIN, Limit, PREFIX_LEN, Proved, Purpose,
        Refusal, Responder, ResponderStep, StreamId,
    },
    stream_number::Side,
};
use std::{
    future::poll_fn,
    io::IoSliceMut,
    net::SocketAddr,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::Mutex as AsyncMutex,
    task::{JoinHandle, coop},
    time::{sleep, timeout},
};

/// Listens on several addresses, and accepts streams and sessions whose lanes come in on any of
/// them. The peer decides which it opens; [`accept`](Self::accept) gives the streams, and
/// [`accept_session`](Self::accept_session) the sessions. The rules below hold for sessions as for
/// streams, and both count in the same [`Limits`](crate::Limits).
///
/// A lane that cannot join (a wrong or missing secret, another mode, protocol or version, an
/// untrusted certificate) is refused and logged with `tracing`; the open streams and the listener
/// go on. The listener hands out a stream after its initiator has confirmed it: the lanes of an
/// initiator race to open the stream, and the listener forgets the attempts that lose.
///
/// A listener may know several peers, each by a secret of its own ([`Security::psk_of`],
/// `encrypted_of`): [`MultiRailStream::peer_name`] says whose stream it has accepted.
/// [`set_security`](Self::set_security) changes the secrets or the certificate, and open streams go
/// on.
///
/// [`Limits`](crate::Limits) protect it against floods ([`StreamOptions::limits`]). By default at
/// most 256 handshakes are under way, 64 of them from one address, and at a limit a silent peer
/// makes room for the next; at most 1,024 streams are open, 256 of them of one peer, which can make
/// this end keep at most 104 GiB, and 26 GiB for one peer. A handshake, including that of TLS, may
/// take [`StreamOptions::handshake_timeout`] (5 s). While 64 streams wait to be accepted, the
/// listener asks peers that open another one to try again, and the same holds for sessions.
#[derive(Debug)]
pub struct MultiRailListener {
    incoming: Arc<AcceptQueue>,
    security: Arc<ListenerSecurity>,
    addresses: Vec<LaneAddress>,
    /// The tasks that accept lanes, one for each address.
    listening: AsyncMutex<Vec<JoinHandle<()>>>,
}

/// A lane that a peer has opened, before its handshake.
struct Joining {
    lane: Arc<dyn Lane>,
    /// The rail that drives it.
    rail: RailId,
    scheme: Scheme,
}

/// The state that the listening tasks share. It holds the rails, so they run as long as one task
/// listens.
struct ListenerShared {
    rails: Rails,
    options: StreamOptions,
    security: Arc<ListenerSecurity>,
    streams: Streams,
    incoming: Arc<AcceptQueue>,
    handshakes: Arc<Handshakes>,
    /// The rate at which peers begin TLS handshakes.
    tls_rate: Mutex<HandshakeRate>,
    /// The addresses that the listener has bound, each with its rail.
    bound: Mutex<Vec<(RailId, LaneAddress)>>,
    /// Counts the lanes on addresses of no rail, which go to the rails in turn.
    turn: AtomicUsize,
    /// The number of addresses that still accept connections.
    acceptors: AtomicUsize,
    /// The warnings that every connection of a stranger could repeat.
    warnings: Repeated,
}

impl Drop for ListenerShared {
    fn drop(&mut self) {
        self.incoming.end(ListenerClosed::RailsStopped);
    }
}

impl MultiRailListener {
    /// Listens on each address, on the rail that has it. If no rail has it, the first address goes
    /// to the first rail, and so on in turn.
    ///
    /// # Errors
    /// [`BindListenerError`]. In this case no address is bound.
    pub async fn bind(
        rails: &Rails,
        addresses: impl ToLaneAddresses,
        options: &StreamOptions,
    ) -> Result<Self, BindListenerError> {
        options.validate().map_err(EndpointError::from)?;
        let addresses = addresses::resolve_to_listen(addresses).await.map_err(EndpointError::from)?;
        if rails.is_empty() {
            return Err(EndpointError::NoRails.into());
        }
        if addresses.is_empty() {
            return Err(EndpointError::NoAddresses.into());
        }
        let security = Arc::new(ListenerSecurity::new(&options.security)?);
        let incoming = Arc::new(AcceptQueue::new());
        let registry = Arc::new(ListenerShared {
            rails: rails.clone(),
            options: options.clone(),
            security: security.clone(),
            streams: Streams::new(options.limits, options.memory_of_stream()),
            incoming: incoming.clone(),
            handshakes: Handshakes::new(options.limits),
            tls_rate: Mutex::new(HandshakeRate::new(options.limits.tls_rate, options.limits.tls_rate_per_peer)),
            bound: Mutex::default(),
            turn: AtomicUsize::new(0),
            acceptors: AtomicUsize::new(addresses.len()),
            warnings: Repeated::new(),
        });
        let mut listener = Self { incoming, security, addresses: Vec::new(), listening: AsyncMutex::default() };
        for (index, address) in addresses.into_iter().enumerate() {
            let rail = registry.rail_of(address.socket).unwrap_or(RailId(index % rails.len()));
            let registry = registry.clone();
            let home = options.driver.home(rails, rail).runtime();
            let listening = home.spawn(async move {
                let transport = registry.options.transport_of(address.scheme).map_err(EndpointError::from)?;
                let acceptor = transport.listen(address.socket)?;
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
        let addresses: Vec<String> = listener.addresses.iter().map(LaneAddress::to_string).collect();
        tracing::info!(addresses = addresses.join(","), rails = rails.len(), "a listener accepts streams");
        Ok(listener)
    }

    /// Waits for the next stream. Its first lane is up; the others join while it is in use
    /// ([`MultiRailStream::lanes_up`]).
    ///
    /// Cancel safe: no stream is lost when the future is dropped. Several tasks may wait, and each
    /// stream goes to one of them.
    ///
    /// # Errors
    /// [`ListenerClosed`] after the listener has stopped, on every call from then on.
    pub async fn accept(&self) -> Result<MultiRailStream, ListenerClosed> {
        // A listener at which a stream always waits must not starve the other tasks of the caller's thread.
        coop::consume_budget().await;
        self.incoming.next(Kind::Stream).await
    }

    /// As [`accept`](Self::accept), for the next session.
    ///
    /// # Errors
    /// As there.
    pub async fn accept_session(&self) -> Result<MultiRailSession, ListenerClosed> {
        coop::consume_budget().await;
        Ok(MultiRailSession::of(self.incoming.next(Kind::Session).await?))
    }

    /// The accepted streams as a [`Stream`]. It ends after [`close`](Self::close), or with the
    /// error when the listener has stopped otherwise. Dropping it closes the listener.
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

    /// Closes the listener: when this returns, the addresses are free again. Streams that wait to
    /// be accepted are aborted, and every [`accept`](Self::accept) ends. Handshakes under way
    /// go on to their end, or to [`StreamOptions::handshake_timeout`]: they may bring lanes of
    /// accepted streams.
    ///
    /// Accepted streams go on, but a lane that they lose cannot come back. Dropping the listener
    /// does the same, in the background.
    pub async fn close(&self) {
        self.incoming.close();
        let mut listening = self.listening.lock().await;
        while let Some(task) = listening.last_mut() {
            // A task that has ended with its rail or by a panic does not listen either.
            let _ = task.await;
            listening.pop();
        }
    }

    /// Changes the security of the listener, which stays in its mode: other secrets or names of
    /// peers, another certificate. Handshakes that begin from now on to open a stream, or to ask
    /// for the listener's lanes, go by the new security. Those under way end as they began,
    /// within [`StreamOptions::handshake_timeout`].
    ///
    /// Open streams go on, also those of peers that the new security does not let in: a lane that
    /// they lose comes back by the secret that opened the stream. To end the streams of such a peer
    /// is the application's affair ([`MultiRailStream::peer_name`]).
    ///
    /// # Errors
    /// [`SetSecurityError`]; the listener keeps its security then.
    pub fn set_security(&self, security: impl Into<Security>) -> Result<(), SetSecurityError> {
        self.security.set(&security.into())?;
        tracing::info!("a listener has other security for new streams");
        Ok(())
    }

    /// The bound addresses, in the order of the call to [`bind`](Self::bind). In place of a port 0
    /// they have the port that the kernel chose.
    pub fn local_addrs(&self) -> &[LaneAddress] {
        &self.addresses
    }
}

impl Drop for MultiRailListener {
    fn drop(&mut self) {
        self.incoming.close();
    }
}

impl ListenerShared {
    /// The rail whose lane has this local address; else the one that listens on it, whose lane has
    /// moved.
    fn rail_of(&self, address: SocketAddr) -> Option<RailId> {
        let ip = address.ip().to_canonical();
        let rail = self.rails.iter().find(|rail| rail.planned().address == Some(ip)).map(|rail| rail.id());
        rail.or_else(|| {
            let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
            bound.iter().find(|(_, address)| address.socket.ip().to_canonical() == ip).map(|(rail, _)| *rail)
        })
    }

    /// The rails whose lanes may come in on this bound address.
    fn rails_of(&self, bound: SocketAddr) -> Range<usize> {
        match self.rail_of(bound) {
            Some(RailId(rail)) if !bound.ip().to_canonical().is_unspecified() => rail..rail + 1,
            _ => 0..self.rails.len(),
        }
    }

    /// Accepts lanes until the listener is closed or the acceptor fails with a permanent error.
    async fn listen(self: Arc<Self>, scheme: Scheme, mut acceptor: Box<dyn Acceptor>) {
        let unread = Unread::new(self.rails.len());
        let called = self.rails_of(acceptor.local_addr());
        loop {
            let next = async {
                unread.room(called.clone()).await;
                poll_fn(|context| acceptor.poll_accept(context)).await
            };
            let accepted = tokio::select! {
                next = next => next,
                () = self.incoming.closed() => return,
            };
            match accepted {
                Ok(lane) => self.take_in(lane, scheme, &unread).await,
                Err(error) if error.is_transient() => {
                    let error = with_causes(&error);
                    if let Some(left_out) = self.warnings.due(Instant::now(), &error) {
                        let address = acceptor.local_addr();
                        tracing::warn!(%address, error, left_out, "a connection was not accepted");
                    }
                    // If the process has run out of file descriptors, trying again at once would spin.
                    sleep(PAUSE).await;
                }
                Err(error) => {
                    let address = LaneAddress { scheme, socket: acceptor.local_addr() };
                    tracing::error!(%address, error = with_causes(&error), "the listener gives up an address");
                    // Discovery does not offer this address any more.
                    self.bound.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, bound)| *bound != address);
                    if self.acceptors.fetch_sub(1, Relaxed) > 1 {
                        return;
                    }
                    return self.incoming.end(ListenerClosed::Accept(Arc::new(error)));
                }
            }
        }
    }

    /// Hands a connection to the runtime that drives the lanes of its rail. A rail that does not
    /// come to read its connections takes no more, and the listener asks the peer to try again.
    async fn take_in(self: &Arc<Self>, lane: IncomingLane, scheme: Scheme, unread: &Arc<Unread>) {
        let place = match self.rail_of(lane.local_addr()) {
            Some(rail) => unread.take(rail),
            // No rail has the address: lanes on it are spread over the rails that have room.
            None => (0..self.rails.len())
                .find_map(|_| unread.take(RailId(self.turn.fetch_add(1, Relaxed) % self.rails.len()))),
        };
        let Some(place) = place else {
            if let Some(lane) = first_look(lane).await {
                let (peer, error) = (lane.peer_addr(), send_away(&*lane, Limit::Handshakes));
                tracing::debug!(%peer, error = with_causes(&error), "the rail of a lane is busy");
            }
            return;
        };
        let rail = place.rail;
        let (home, registry) = (self.options.driver.home(&self.rails, rail), self.clone());
        drop(home.runtime().spawn(async move {
            if let Some(lane) = first_look(lane).await {
                drop(place);
                registry.serve(Joining { lane, rail, scheme }).await
            }
        }));
    }

    /// Performs the handshake on a connection, and drives its lane to the end.
    async fn serve(self: Arc<Self>, joining: Joining) {
        let peer = joining.lane.peer_addr();
        // A connection has a place once its rail has come to read it: a listener that is faster than its
        // rails would evict connections whose peers have spoken and are not heard.
        let lane = match self.handshakes.enter(peer.ip(), self.streams.is_familiar(peer.ip())) {
            Ok((place, eviction)) => self.join(joining, place, eviction).await,
            Err(limit) => Err(send_away(&*joining.lane, limit)),
        };
        match lane {
            Ok(Some(lane)) => {
                // The lane does not keep the listener's state.
                drop(self);
                lane.run().await;
            }
            Ok(None) => tracing::debug!(%peer, "a peer has asked for the lanes of this listener"),
            // An initiator closes the connection if another of its lanes was first, and a lane that was joining when
            // its stream ended is too late.
            Err(error @ (JoinError::Io(_) | JoinError::StreamOver)) => {
                tracing::debug!(%peer, error = with_causes(&error), "a lane did not join");
            }
            Err(error @ JoinError::Refusing(Refusal::Busy(_))) => {
                tracing::debug!(%peer, error = with_causes(&error), "a peer was asked to try a lane again");
            }
            // Strangers say nothing or anything, and this end cannot mend that.
            Err(error) if is_of_stranger(&error) => {
                tracing::debug!(%peer, error = with_causes(&error), "a stranger did not join");
            }
            Err(error) => {
                let error = with_causes(&error);
                match self.warnings.due(Instant::now(), &error) {
                    Some(left_out) => tracing::warn!(%peer, error, left_out, "a lane was refused"),
                    None => tracing::debug!(%peer, error, "a lane was refused"),
                }
            }
        }
    }

    /// Performs the responder's side of the handshake within its timeout. Gives the lane, or `None`
    /// if the peer only asked for the lanes.
    async fn join(
        &self,
        joining: Joining,
        place: HandshakePlace,
        eviction: Eviction,
    ) -> Result<Option<LaneDriver>, JoinError> {
        let joined = timeout(self.options.handshake_timeout, self.shake_hands(joining, place, eviction));
        joined.await.map_err(|_| JoinError::Timeout)?
    }

    async fn shake_hands(
        &self,
        joining: Joining,
        mut place: HandshakePlace,
        mut eviction: Eviction,
    ) -> Result<Option<LaneDriver>, JoinError> {
        let Joining { lane, rail, scheme } = joining;
        let proved = tokio::select! {
            // A peer whose proof has arrived is not sent away.
            biased;
            proved = self.authenticate(&*lane, &place) => proved?,
            Ok(limit) = &mut eviction => return Err(send_away(&*lane, limit)),
        };
        let Hello { purpose, stream, lane: index, .. } = proved.hello;
        let peer = lane.peer_addr().ip();
        if !place.heard(Standing::Proved) {
            // The peer's proof arrived as it made room for another.
            let entered = self.handshakes.enter(peer, self.streams.is_familiar(peer));
            (place, eviction) = entered.map_err(|limit| send_away(&*lane, limit))?;
            place.heard(Standing::Proved);
        }
        match purpose {
            Purpose::Discover => {
                let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner).clone();
                discovery::answer(&*lane, proved, &self.rails, rail, &bound, scheme).await?;
                Ok(None)
            }
            Purpose::Open | Purpose::OpenSession => {
                let opening = self.open(&proved, &*lane).await?;
                send_messages(&*lane, std::slice::from_ref(&proved.accept)).await?;
                // The initiator may have opened the stream by another lane meanwhile, or given up.
                let confirmation = tokio::select! {
                    biased;
                    confirmation = read_message(&*lane, LONGEST_PLAIN) => confirmation?,
                    // An initiator that was let in expects frames, so the end of the lane tells it.
                    Ok(limit) = &mut eviction => return Err(JoinError::Refusing(Refusal::Busy(limit))),
                };
                proved.confirm(&confirmation)?;
                let shared = opening.shared.clone();
                let up = LaneDriver::up(shared.clone(), index, rail, lane, proved.seals, &self.options).await;
                self.announce(&shared, self.streams.confirm(stream, peer));
                Ok(Some(up.ok_or(JoinError::StreamOver)?))
            }
            Purpose::Join => {
                // An initiator that joins a stream has it, even if the confirmation was lost with the lane that
                // opened it.
                let Some((shared, is_news)) = self.streams.join(stream, &proved.joining, peer) else {
                    self.tell(&*lane, &[HandshakeMessage::Refused(Refusal::UnknownStream)]).await;
                    return Err(self.no_such(stream));
                };
                // The lane is up before the peer hears of it. Otherwise frames of the peer could arrive before the
                // lane.
                let up = LaneDriver::up(shared.clone(), index, rail, lane.clone(), proved.seals, &self.options).await;
                self.announce(&shared, is_news);
                let up = up.ok_or(JoinError::StreamOver)?;
                send_messages(&*lane, &[proved.accept]).await?;
                Ok(Some(up))
            }
        }
    }

    /// Puts a stream that its initiator has into the accept queue, if that is news.
    fn announce(&self, shared: &Arc<StreamShared>, is_news: bool) {
        if is_news {
            supervise(shared.clone());
            shared.log_opened(*shared.lanes_up.borrow());
            self.rails.warn_of_unbound();
            let kind = if shared.has_many() { Kind::Session } else { Kind::Stream };
            self.incoming.push(kind, MultiRailStream::new(shared.clone()));
        }
    }

    /// The error of a lane that joins an unknown stream.
    fn no_such(&self, stream: StreamId) -> JoinError {
        if self.streams.has_ended(stream) { JoinError::StreamOver } else { HandshakeError::NoSuchStream.into() }
    }

    async fn authenticate(&self, lane: &dyn Lane, place: &HandshakePlace) -> Result<Proved, JoinError> {
        let (mut responder, challenge, stream) = match self.greet(lane, place).await {
            Ok(greeted) => greeted,
            Err(error) => {
                let refusal = match &error {
                    JoinError::Handshake(error) => error.refusal(),
                    JoinError::Refusing(refusal) => Some(*refusal),
                    _ => None,
                };
                if let Some(refusal) = refusal {
                    self.tell(lane, &[HandshakeMessage::Refused(refusal)]).await;
                }
                return Err(error);
            }
        };
        let mut messages = vec![challenge];
        loop {
            send_messages(lane, &messages).await?;
            let message = read_message(lane, responder.longest_next()).await?;
            place.heard(Standing::Greeted);
            match responder.handle(message) {
                Ok(ResponderStep::Send(next)) => messages = next,
                Ok(ResponderStep::Proved(proved)) => return Ok(*proved),
                Err(error) => {
                    self.send_off(lane, &responder.farewell(&error)).await;
                    return Err(match error {
                        HandshakeError::NoSuchStream => self.no_such(stream),
                        error => error.into(),
                    });
                }
            }
        }
    }

    async fn greet(
        &self,
        lane: &dyn Lane,
        place: &HandshakePlace,
    ) -> Result<(Responder, HandshakeMessage, StreamId), JoinError> {
        let HandshakeMessage::Hello(hello) = read_message(lane, LONGEST_PLAIN).await? else {
            return Err(HandshakeError::Disorder.into());
        };
        let names_stream = hello.purpose == Purpose::Join && self.streams.is_open(hello.stream);
        place.heard(if names_stream { Standing::Member } else { Standing::Greeted });
        let credentials = match (self.security.credentials(), hello.purpose) {
            (credentials, Purpose::Join) => match self.streams.joining(hello.stream) {
                Some(joining) => joining,
                None => of_unknown_stream(credentials.mode())?,
            },
            (credentials @ Credentials::TlsServer(_), _) => {
                // Each peer that begins TLS makes this end sign.
                let peer = lane.peer_addr().ip();
                let is_familiar = self.streams.is_familiar(peer);
                let mut rate = self.tls_rate.lock().unwrap_or_else(PoisonError::into_inner);
                let begun = rate.begin(Instant::now(), peer, is_familiar);
                begun.map_err(|limit| JoinError::Refusing(Refusal::Busy(limit)))?;
                credentials
            }
            (credentials, _) => credentials,
        };
        let parameters = self.options.parameters(hello.purpose);
        let (responder, challenge) = Responder::start(credentials, hello, parameters, nonce()?)?;
        Ok((responder, challenge, hello.stream))
    }

    /// Opens a new stream or session, if the application accepts them fast enough.
    async fn open(&self, proved: &Proved, lane: &dyn Lane) -> Result<Opening<'_>, JoinError> {
        let Hello { purpose, stream, parameters, .. } = proved.hello;
        let make = || {
            let session = self.options.session(purpose, parameters, Side::Responder);
            let opened_by = OpeningLane {
                role: Role::Accepted,
                joining: proved.joining.clone(),
                peer_certificates: proved.peer_certificates.clone(),
                peer_name: proved.peer_name.clone(),
                local: lane.local_addr(),
                peer: lane.peer_addr(),
            };
            StreamShared::new(stream, session, self.rails.clone(), opened_by, &self.options)
        };
        let kind = if purpose == Purpose::OpenSession { Kind::Session } else { Kind::Stream };
        let refusal = if self.incoming.is_full(kind) {
            Refusal::Busy(Limit::Waiting)
        } else {
            match self.streams.open(stream, lane.peer_addr().ip(), make) {
                Ok(opening) => return Ok(opening),
                Err(full) => full.refusal(),
            }
        };
        self.send_off(lane, &[HandshakeMessage::Refused(refusal)]).await;
        Err(JoinError::Refusing(refusal))
    }

    /// As [`tell`](Self::tell), for a peer that may have sent its first frames right behind its
    /// proof. The kernel resets a connection that is closed with unread bytes, and the peer may
    /// lose the refusal with it: so the frames are thrown away first, unread.
    async fn send_off(&self, lane: &dyn Lane, messages: &[HandshakeMessage]) {
        self.tell(lane, messages).await;
        let _ = lane.close_write();
        let drain = async {
            let (mut memory, mut left) = (vec![0; 2 << 10], MAX_THROWN_AWAY);
            while left > 0 {
                match receive(lane, &mut [IoSliceMut::new(&mut memory)]).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => left = left.saturating_sub(count),
                }
            }
        };
        let _ = timeout(LAST_LOOK, drain).await;
    }

    /// Tries to tell the peer why the lane may not join. The lane closes in either case.
    async fn tell(&self, lane: &dyn Lane, messages: &[HandshakeMessage]) {
        let _ = send_messages(lane, messages).await;
    }
}

/// Opens a connection on the calling runtime, and waits until the runtime has looked for events
/// once, and knows whether bytes have arrived. `None` if the connection was lost meanwhile.
async fn first_look(lane: IncomingLane) -> Option<Arc<dyn Lane>> {
    let peer = lane.peer_addr();
    match lane.open() {
        Ok(lane) => {
            let _ = timeout(PAUSE, poll_fn(|context| lane.poll_submit_ready(context))).await;
            Some(lane)
        }
        Err(error) => {
            tracing::debug!(%peer, error = with_causes(&error), "a connection was lost on its way to its rail");
            None
        }
    }
}

/// Whether the peer was silent, or sent bytes that no lane sends.
fn is_of_stranger(error: &JoinError) -> bool {
    match error {
        JoinError::Timeout | JoinError::Handshake(HandshakeError::NotRails { .. }) => true,
        JoinError::Handshake(error) => !error.is_permanent(),
        _ => false,
    }
}

/// Tells the peer of a connection that has no place to try again, without waiting for it.
fn send_away(lane: &dyn Lane, limit: Limit) -> JoinError {
    let refusal = Refusal::Busy(limit);
    // The kernel resets a connection that is closed with unread bytes, and the refusal may be lost with
    // it.
    let _ = lane.try_receive(&mut [IoSliceMut::new(&mut [0; PREFIX_LEN + LONGEST_PLAIN])]);
    let _ = lane.try_submit(&HandshakeMessage::Refused(refusal).encode(), &[]);
    JoinError::Refusing(refusal)
}

/// How long the listener waits for a peer that it has refused to hang up.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// The most bytes that it throws away meanwhile.
const MAX_THROWN_AWAY: usize = 64 << 10;
/// The pause of a listening socket after an accept has failed, and the longest wait for a new
/// socket's events.
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use rails_proto::handshake::Mode;

    /// A stranger chooses the bytes, so that each of its errors may be another one.
    #[test]
    fn strangers_are_worth_no_warning() {
        let foreign = HandshakeError::NotRails { said: b"GET ".to_vec() };
        for stranger in [JoinError::Timeout, foreign.into(), HandshakeError::Disorder.into()] {
            assert!(is_of_stranger(&stranger), "{stranger}");
        }
        for peer in [HandshakeError::Secret, HandshakeError::Mode { ours: Mode::Tls, theirs: Mode::Insecure }] {
            assert!(!is_of_stranger(&peer.into()), "somebody has to mend it");
        }
    }
}
