//! Opening connections: the control channel, the greeting, the socket for segments.

use super::{
    CeleritasOptions, Connection, OpenError,
    driver::{Driver, Shared},
    greeting::{GREETING_LEN, Greeting, NoGreeting, VERSION},
    incoming::Incoming,
    scatter::Scatter,
};
use crate::proto::{
    connection::{ConnectionProtocol, Parameters},
    wire::{HEADER_LEN, Token},
};
use rails_net::{LocalEnd, TcpTransport, Timer, UdpSocket};
use std::{
    io,
    net::SocketAddr,
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
    control: std::net::TcpStream,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    token: Token,
    /// The index of the interface that segments leave by, if it is known.
    link: Option<u32>,
    parameters: Parameters,
    options: CeleritasOptions,
}

impl CeleritasOptions {
    /// Opens a connection, which the calling thread's runtime drives.
    ///
    /// # Errors
    /// [`OpenError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub async fn connect(&self, remote: SocketAddr) -> Result<Connection, OpenError> {
        let opening = async {
            let control = self.control().connect(remote).await?.into_stream();
            self.greet(control, remote, true).await
        };
        self.in_time(remote, opening).await?.start()
    }

    /// The options of the control channel: an idle connection to a host that has gone ends too.
    pub(super) fn control(&self) -> TcpTransport {
        TcpTransport::new().local(self.local.clone())
    }

    /// Accepts a connection whose control channel a peer has opened.
    pub(super) async fn answer(&self, control: TcpStream, remote: SocketAddr) -> Result<Greeted, OpenError> {
        self.in_time(remote, self.greet(control, remote, false)).await
    }

    async fn in_time<T>(
        &self,
        remote: SocketAddr,
        opening: impl Future<Output = Result<T, OpenError>>,
    ) -> Result<T, OpenError> {
        let limit = self.greeting_limit;
        timeout(limit, opening).await.unwrap_or(Err(OpenError::Silent { remote, limit }))
    }

    async fn greet(&self, mut control: TcpStream, remote: SocketAddr, begins: bool) -> Result<Greeted, OpenError> {
        let greeting = |source| OpenError::Greeting { remote, source };
        let local = control.local_addr().map_err(greeting)?;
        let device = self.local.device().map_or(LocalEnd::Any, |device| LocalEnd::Device(device.to_owned()));
        let segments = self.udp.clone().local(device).bind(SocketAddr::new(local.ip(), 0))?;
        // The port is not known yet; the route is that of the address.
        segments.connect(remote)?;
        let route = segments.route()?;
        let link = route.as_ref().map(|route| route.index);
        let interface = route.map_or(u64::MAX, |route| route.most_payload.as_bytes());
        let most_datagram = self.most_datagram.min(u16::try_from(interface).unwrap_or(u16::MAX));
        let token = Token(random().map_err(|source| OpenError::System { what: "a random number", source })?);
        let port = segments.local_addr().map_err(greeting)?.port();
        let own = Greeting { token, port, most_datagram };
        let (theirs, round_trip) = exchange(&mut control, &own, begins).await.map_err(greeting)?;
        let theirs = Greeting::decode(&theirs).map_err(|refused| match refused {
            NoGreeting::Foreign => OpenError::Foreign { remote },
            NoGreeting::Version(theirs) => OpenError::Version { remote, theirs, ours: VERSION },
        })?;
        segments.connect(SocketAddr::new(remote.ip(), theirs.port))?;
        let parameters = Parameters {
            peer_token: theirs.token,
            most_payload: u32::from(most_datagram.min(theirs.most_datagram)) - HEADER_LEN as u32,
            overhead: if remote.is_ipv4() { 28 } else { 48 },
            most_unacknowledged: self.most_unacknowledged.as_bytes(),
            round_trip,
            depth: self.depth,
            burst: self.burst,
        };
        let control = control.into_std().map_err(greeting)?;
        Ok(Greeted { segments, control, local, remote, token, link, parameters, options: self.clone() })
    }
}

impl Greeted {
    /// Has the calling thread's runtime drive the connection.
    pub(super) fn start(self) -> Result<Connection, OpenError> {
        let Self { segments, control, local, remote, token, link, parameters, options } = self;
        let system = |what| move |source| OpenError::System { what, source };
        let segments = segments.register_here().map_err(system("the socket for segments"))?;
        let control = TcpStream::from_std(control).map_err(system("the control channel"))?;
        let timer = Timer::new().map_err(system("a timer"))?;
        let (arrives_at, peer) = match (segments.local_addr(), segments.peer_addr()) {
            (Ok(local), Ok(Some(peer))) => (local, peer),
            (Ok(_), Ok(None)) => {
                return Err(OpenError::Greeting { remote, source: io::ErrorKind::NotConnected.into() });
            }
            (Err(source), _) | (_, Err(source)) => return Err(OpenError::Greeting { remote, source }),
        };
        let protocol = ConnectionProtocol::new(Instant::now(), parameters, (options.controller)());
        let incoming = Incoming::new(options.window.as_bytes(), options.most_message.as_bytes());
        let shared = Arc::new(Shared::new(protocol, incoming));
        tokio::spawn(Driver::new(Arc::clone(&shared), segments, control, timer, Scatter::new(token), peer));
        Ok(Connection { shared, local, peer: remote, segments: arrives_at, link })
    }
}

/// Exchanges greetings. The end that opens greets first. Returns the peer's, and the round-trip time.
async fn exchange(control: &mut TcpStream, own: &Greeting, begins: bool) -> io::Result<([u8; GREETING_LEN], Duration)> {
    let mut theirs = [0; GREETING_LEN];
    if begins {
        let sent = Instant::now();
        control.write_all(&own.encode()).await?;
        control.read_exact(&mut theirs).await?;
        let round_trip = sent.elapsed();
        // The peer takes its own time.
        control.write_all(&[ANSWER]).await?;
        return Ok((theirs, round_trip));
    }
    control.read_exact(&mut theirs).await?;
    let sent = Instant::now();
    control.write_all(&own.encode()).await?;
    control.read_exact(&mut [0]).await?;
    Ok((theirs, sent.elapsed()))
}

/// A number that nobody can guess.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Tells the accepting end that its greeting has come.
const ANSWER: u8 = 0;
