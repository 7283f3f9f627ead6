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
use rails_net::Timer;
use socket2::{SockRef, TcpKeepalive};
use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::JoinSet,
    time::timeout,
};

/// Accepts the connections that peers open to one address.
#[derive(Debug)]
pub struct CeleritasListener {
    options: CeleritasOptions,
    listener: TcpListener,
    /// The connections that are being opened: a mute peer holds nobody up.
    greetings: Mutex<JoinSet<Result<Connection, OpenError>>>,
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
            let control = TcpStream::connect(remote).await.map_err(|source| OpenError::Connect { remote, source })?;
            self.open(control, remote, true).await
        };
        self.in_time(remote, opening).await
    }

    /// Listens for connections. Port 0 stands for any free port, which
    /// [`local_addr`](CeleritasListener::local_addr) then has.
    ///
    /// # Errors
    /// [`OpenError::Listen`].
    pub async fn listen(&self, address: SocketAddr) -> Result<CeleritasListener, OpenError> {
        let listener = TcpListener::bind(address).await.map_err(|source| OpenError::Listen { address, source })?;
        Ok(CeleritasListener { options: self.clone(), listener, greetings: Mutex::default() })
    }

    async fn in_time<T>(
        &self,
        remote: SocketAddr,
        opening: impl Future<Output = Result<T, OpenError>>,
    ) -> Result<T, OpenError> {
        let limit = self.greeting_limit;
        timeout(limit, opening).await.unwrap_or(Err(OpenError::Silent { remote, limit }))
    }

    async fn open(&self, mut control: TcpStream, remote: SocketAddr, begins: bool) -> Result<Connection, OpenError> {
        let greeting = |source| OpenError::Greeting { remote, source };
        control.set_nodelay(true).map_err(greeting)?;
        // An idle connection to a host that has gone ends too.
        let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE).with_retries(3);
        SockRef::from(&control).set_tcp_keepalive(&keep_alive).map_err(greeting)?;
        let local = control.local_addr().map_err(greeting)?;
        let segments = self.udp.bind(SocketAddr::new(local.ip(), 0))?;
        // The port is not known yet; the route is that of the address.
        segments.connect(remote)?;
        let interface = segments.route()?.map_or(u64::MAX, |route| route.most_payload.as_bytes());
        let most_datagram = self.most_datagram.min(u16::try_from(interface).unwrap_or(u16::MAX));
        let token = Token(random().map_err(|source| OpenError::System { what: "a random number", source })?);
        let arrives_at = segments.local_addr().map_err(greeting)?;
        let own = Greeting { token, port: arrives_at.port(), most_datagram };
        let (theirs, round_trip) = greet(&mut control, &own, begins).await.map_err(greeting)?;
        let theirs = Greeting::decode(&theirs).map_err(|refused| match refused {
            NoGreeting::Foreign => OpenError::Foreign { remote },
            NoGreeting::Version(theirs) => OpenError::Version { remote, theirs, ours: VERSION },
        })?;
        let peer = SocketAddr::new(remote.ip(), theirs.port);
        segments.connect(peer)?;
        let parameters = Parameters {
            peer_token: theirs.token,
            most_payload: u32::from(most_datagram.min(theirs.most_datagram)) - HEADER_LEN as u32,
            overhead: if peer.is_ipv4() { 28 } else { 48 },
            most_unacknowledged: self.most_unacknowledged.as_bytes(),
            round_trip,
            depth: self.depth,
            burst: self.burst,
        };
        let protocol = ConnectionProtocol::new(Instant::now(), parameters, (self.controller)());
        let incoming = Incoming::new(self.window.as_bytes(), self.most_message.as_bytes());
        let shared = Arc::new(Shared::new(protocol, incoming));
        let timer = Timer::new().map_err(|source| OpenError::System { what: "a timer", source })?;
        tokio::spawn(Driver::new(Arc::clone(&shared), segments, control, timer, Scatter::new(token), peer));
        Ok(Connection { shared, local, peer: remote, segments: arrives_at })
    }
}

impl CeleritasListener {
    /// The address that it listens on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for the next connection, which the calling thread's runtime drives. A peer whose greeting fails is an error
    /// of that peer alone: call it again. Cancelling it loses no connection. At most 64 peers greet at a time; the kernel
    /// keeps the others waiting.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn accept(&self) -> Result<Connection, OpenError> {
        let mut greetings = self.greetings.lock().await;
        loop {
            tokio::select! {
                Some(opened) = greetings.join_next() => {
                    return opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
                }
                accepted = self.listener.accept(), if greetings.len() < MOST_GREETINGS => {
                    let (control, remote) = accepted.map_err(OpenError::Accept)?;
                    let options = self.options.clone();
                    greetings.spawn(async move {
                        options.in_time(remote, options.open(control, remote, false)).await
                    });
                }
            }
        }
    }
}

/// Exchanges greetings. The end that opens greets first. Returns the peer's, and the round-trip time.
async fn greet(control: &mut TcpStream, own: &Greeting, begins: bool) -> io::Result<([u8; GREETING_LEN], Duration)> {
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

/// How long the control channel is idle before the kernel asks the peer's, and between the questions.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The most peers that greet a listener at a time.
const MOST_GREETINGS: usize = 64;
/// Tells the accepting end that its greeting has come.
const ANSWER: u8 = 0;
