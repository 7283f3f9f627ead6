//! Opening connections: the control channel, the greeting, the socket for segments.

use super::{
    CeleritasOptions, Connection, OpenConnectionError,
    bursts::Bursts,
    driver::{ConnectionDriver, Sockets},
    greeting::{Greeting, GreetingError, VERSION},
    places::{GreetingPlace, KnownOrigin},
    random::random,
    scatter::Scatter,
    secure::{self, Seals},
    shared::ConnectionShared,
};
use crate::proto::{
    connection::{ConnectionProtocol, MIN_MTU, Parameters},
    control::ControlChannel,
    hold_off::HoldOff,
    peer_address::PeerAddress,
    round::Round,
    wire::{HEADER_LEN, Token, guard_len},
};
use rails_net::{LocalEnd, TcpTransport, Timer, UdpSocket};
use rails_proto::admission::Standing;
use rails_task::Helpers;
use rails_topo::DataSize;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A connection whose ends have greeted each other. No runtime drives it yet.
pub(super) struct Greeted {
    segments: UdpSocket,
    /// The peer's address for segments.
    peer: SocketAddr,
    control: std::net::TcpStream,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    token: Token,
    /// The index of the interface that segments leave by; `None` where the system does not tell the
    /// route.
    link: Option<u32>,
    seals: Seals,
    parameters: Parameters,
    options: CeleritasOptions,
    /// The listener's record of the connection, where a listener has taken it.
    pub(super) familiar: Option<KnownOrigin>,
}

impl CeleritasOptions {
    /// Opens a connection, which the calling thread's runtime drives.
    ///
    /// # Errors
    /// [`OpenConnectionError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub async fn connect(&self, remote: SocketAddr) -> Result<Connection, OpenConnectionError> {
        self.check(true)?;
        let opening = async {
            let control = self.control().connect(remote).await?.into_stream();
            self.greet(control, remote, None).await
        };
        self.in_time(remote, opening).await?.start()
    }

    /// Checks whether this end, which `begins` connections or answers, can open them with these
    /// options.
    pub(super) fn check(&self, begins: bool) -> Result<(), OpenConnectionError> {
        if (self.controller)().rate().as_bits_per_second() == 0 {
            return Err(OpenConnectionError::NoRate);
        }
        secure::check(&self.security, begins, rails_proto::seal::IS_AVAILABLE)
    }

    /// The options of the control channel: an idle connection to a host that has gone ends too, as
    /// late as one that is in use, and its segments pass wherever those of UDP do. No caller has
    /// asked for either, so the channel does without them where the system refuses.
    pub(super) fn control(&self) -> TcpTransport {
        let most = DataSize::bytes(u64::from(MIN_MTU) - TCP_HEADERS);
        let silence = self.max_silence.max(MIN_CONTROL_SILENCE);
        TcpTransport::new().local(self.local.clone()).max_segment(most).user_timeout(silence).leave_out_refused(true)
    }

    /// Accepts a connection whose control channel a peer has opened.
    pub(super) async fn answer(
        &self,
        control: TcpStream,
        remote: SocketAddr,
        place: &GreetingPlace,
    ) -> Result<Greeted, OpenConnectionError> {
        self.in_time(remote, self.greet(control, remote, Some(place))).await
    }

    async fn in_time<T>(
        &self,
        remote: SocketAddr,
        opening: impl Future<Output = Result<T, OpenConnectionError>>,
    ) -> Result<T, OpenConnectionError> {
        let limit = self.greeting_limit;
        timeout(limit, opening).await.unwrap_or(Err(OpenConnectionError::Silent { remote, limit }))
    }

    /// Exchanges the greetings. `place` is the listener's, at the end that answers.
    async fn greet(
        &self,
        mut control: TcpStream,
        remote: SocketAddr,
        place: Option<&GreetingPlace>,
    ) -> Result<Greeted, OpenConnectionError> {
        let greeting = |source| OpenConnectionError::Greeting { remote, source };
        let local = canonical(control.local_addr().map_err(greeting)?);
        let remote = canonical(remote);
        let mut seals = secure::handshake(&mut control, remote, &self.security, place).await?;
        let mut channel = Greetings { control: &mut control, remote, seals: &mut seals };
        // A stranger that says nothing, or speaks another protocol, costs no socket for segments.
        let theirs = match place {
            Some(place) => Some(channel.answered(place).await?),
            None => None,
        };
        let device = self.local.device().map_or(LocalEnd::Any, |device| LocalEnd::Device(device.to_owned()));
        let mut any_port = local;
        any_port.set_port(0);
        let segments = self.udp.clone().local(device).bind(any_port)?;
        // The socket is not connected, for a NAT may change the peer's port. The route is that of the
        // address. It is unknown where a filter, or a kernel without netlink sockets, does not tell
        // it.
        let route = segments.route_to(remote);
        let route =
            route.inspect_err(|error| tracing::debug!(%remote, %error, "the route of segments is unknown")).ok();
        let headers = if remote.is_ipv4() { 28 } else { 48 };
        let base = (MIN_MTU - headers) as u16;
        // The kernel refuses packets that the interface does not take, and the path's MTU is probed
        // anyway.
        let interface = route.as_ref().and_then(|route| u16::try_from(route.max_payload.as_bytes()).ok());
        let interface = interface.unwrap_or(u16::MAX);
        if interface < base {
            return Err(OpenConnectionError::SmallMtu { remote, mtu: u32::from(interface) + headers });
        }
        let max_datagram = self.max_datagram.min(interface);
        let token = Token(u64::from_ne_bytes(random()?));
        let port = segments.local_addr().map_err(greeting)?.port();
        let own = Greeting { token, port, max_datagram };
        let (theirs, rtt) = channel.exchange(&own, theirs).await?;
        let guard = guard_len(seals.segments.is_some()) as u32;
        let max_datagram = max_datagram.min(theirs.max_datagram);
        let payload = |datagram: u16| u32::from(datagram) - HEADER_LEN as u32 - guard;
        let mut peer = remote;
        peer.set_port(theirs.port);
        let parameters = Parameters {
            peer_token: theirs.token,
            max_payload: payload(max_datagram),
            base_payload: payload(max_datagram.min(base)),
            floor_payload: remote.is_ipv4().then(|| payload(FLOOR)),
            overhead: headers + guard,
            max_unacknowledged: self.max_unacknowledged.as_bytes(),
            window: self.window.as_bytes(),
            max_message: self.max_message.as_bytes(),
            rtt,
            max_silence: self.max_silence,
            keep_alive: self.keep_alive,
            depth: self.depth,
            burst: self.burst,
        };
        let control = control.into_std().map_err(greeting)?;
        let (link, options) = (route.map(|route| route.index), self.clone());
        Ok(Greeted { segments, peer, control, local, remote, token, link, seals, parameters, options, familiar: None })
    }
}

impl Greeted {
    /// Has the calling thread's runtime drive the connection.
    pub(super) fn start(self) -> Result<Connection, OpenConnectionError> {
        let Self { segments, peer, control, local, remote, token, link, seals, parameters, options, familiar } = self;
        let system = |what| move |source| OpenConnectionError::System { what, source };
        let segments = segments.register_here().map_err(system("the socket for segments"))?;
        let control = TcpStream::from_std(control).map_err(system("the control channel"))?;
        let timer = Timer::new().map_err(system("a timer"))?;
        let arrives_at = segments.local_addr().map_err(|source| OpenConnectionError::Greeting { remote, source })?;
        let mut protocol = ConnectionProtocol::new(Instant::now(), parameters, (options.controller)());
        protocol.skip_numbers(u64::from_ne_bytes(random()?));
        let shared = Arc::new(ConnectionShared::new(protocol));
        let Seals { reader, writer, segments: seals } = seals;
        let (sealer, opener) = seals.map(|seals| (seals.sealer, seals.opener)).unzip();
        let helpers = Helpers::current();
        let driver = ConnectionDriver {
            shared: Arc::clone(&shared),
            sockets: Sockets {
                segments,
                control,
                scatter: Scatter::new(token, PeerAddress::new(peer), opener, helpers.as_ref()),
                bursts: Bursts::new(sealer, helpers.as_ref()),
                hold_off: HoldOff::new(Instant::now()),
            },
            round: Round::new(ControlChannel::new(reader, writer)),
            timer,
        };
        tokio::spawn(driver);
        Ok(Connection {
            shared,
            local,
            peer: remote,
            segments: arrives_at,
            link,
            max_unsent: options.max_unsent.as_bytes(),
            close_timeout: options.close_timeout,
            turns: Default::default(),
            _familiar: familiar,
        })
    }
}

/// The control channel during the greeting.
struct Greetings<'a> {
    control: &'a mut TcpStream,
    remote: SocketAddr,
    seals: &'a mut Seals,
}

impl Greetings<'_> {
    /// The greeting that this end answers, or the error of a peer that has to learn of this end's
    /// version and security.
    async fn answered(
        &mut self,
        place: &GreetingPlace,
    ) -> Result<Result<Greeting, OpenConnectionError>, OpenConnectionError> {
        let theirs = self.greeting().await;
        place.heard(Standing::Greeted);
        match theirs {
            Err(OpenConnectionError::Version { .. } | OpenConnectionError::Secured { .. }) | Ok(_) => Ok(theirs),
            Err(error) => Err(error),
        }
    }

    /// Exchanges greetings. The end that opens greets first; the other one has theirs. Returns the
    /// peer's, and the round-trip time.
    async fn exchange(
        &mut self,
        own: &Greeting,
        theirs: Option<Result<Greeting, OpenConnectionError>>,
    ) -> Result<(Greeting, Duration), OpenConnectionError> {
        let sent = Instant::now();
        self.send(&own.encode()).await?;
        let Some(theirs) = theirs else {
            let theirs = self.greeting().await?;
            let rtt = sent.elapsed();
            // The peer takes its own time.
            self.send(&[ANSWER]).await?;
            return Ok((theirs, rtt));
        };
        let theirs = theirs?;
        let [ANSWER] = self.receive().await? else { return Err(OpenConnectionError::Foreign { remote: self.remote }) };
        Ok((theirs, sent.elapsed()))
    }

    /// The peer's greeting.
    async fn greeting(&mut self) -> Result<Greeting, OpenConnectionError> {
        let remote = self.remote;
        Greeting::decode(&self.receive().await?).map_err(|refused| match refused {
            GreetingError::Foreign => OpenConnectionError::Foreign { remote },
            GreetingError::Secured => OpenConnectionError::Secured { remote },
            GreetingError::Version(theirs) => OpenConnectionError::Version { remote, theirs, ours: VERSION },
        })
    }

    async fn send(&mut self, content: &[u8]) -> Result<(), OpenConnectionError> {
        let record = self.seals.writer.seal(&[], content.to_vec());
        self.control
            .write_all(&record)
            .await
            .map_err(|source| OpenConnectionError::Greeting { remote: self.remote, source })
    }

    async fn receive<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], OpenConnectionError> {
        let failed = |source| OpenConnectionError::Greeting { remote: self.remote, source };
        let mut record = vec![0; LENGTH + self.seals.reader.seal_len()];
        self.control.read_exact(&mut record).await.map_err(failed)?;
        let content = self.seals.reader.open(&[], record).map_err(|error| failed(io::Error::other(error)))?;
        content.try_into().map_err(|_| failed(io::ErrorKind::InvalidData.into()))
    }
}

/// The address without the IPv6 form that a socket for both families gives to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        // An IPv6 address has a scope.
        IpAddr::V6(_) => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// Without options: IPv6 and TCP.
const TCP_HEADERS: u64 = 60;
/// A datagram in the IP packet that every host takes (576 bytes; RFC 791, section 3.1).
const FLOOR: u16 = 548;
/// How long the control channel waits at least for a silent host: probes of TCP's keepalive ask it
/// after 10 s, and twice more.
const MIN_CONTROL_SILENCE: Duration = Duration::from_secs(25);
/// The byte by which the connecting end says that the greeting of the other has come.
const ANSWER: u8 = 0;
