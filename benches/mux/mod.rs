//! The contenders of `benches/sessions.rs`: what carries streams between two ends of this process,
//! each end with rails of its own.

use bytes::Bytes;
use quinn::rustls::{
    RootCertStore,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use rails::{
    multirail::{
        Limits, MultiRailListener, MultiRailSession, MultiRailStream, OwnedReadHalf, OwnedWriteHalf, RailId,
        RailRequest, Rails, RecvStream, Secret, SendStream, StreamOptions, plan_rails,
    },
    topo::{InterfaceAddress, Nic, NicKind, Topology},
};
use rails_lab::{LinkLab, Side};
use std::{
    fmt,
    future::poll_fn,
    io::Result as IoResult,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf},
    net::{TcpListener, TcpStream, tcp},
    runtime::Handle,
    sync::{Mutex, mpsc, oneshot},
    time::sleep,
};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};

/// Both ends' rails, and where the application's tasks run at each end.
pub(crate) struct Place {
    rails: [Rails; 2],
    /// The far end's addresses, a lane's each.
    addresses: Vec<IpAddr>,
    pub(crate) tasks: [Handle; 2],
}

impl Place {
    /// Two lanes over the loopback interface, with the tasks of each end on its first rail.
    pub(crate) fn loopback() -> Self {
        let topology = Topology::detect().expect("this machine can be read");
        let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
        let rails = [(); 2].map(|()| Rails::build(&plan).expect("loopback rails need no privilege"));
        Self::of(rails, [1, 2].map(|last| IpAddr::from([127, 0, 0, last])).into())
    }

    /// A lane over each link of a laboratory.
    pub(crate) fn linked(lab: &LinkLab) -> Self {
        let machine = Topology::detect().expect("this machine can be read");
        let addresses = (0..lab.link_count()).map(|link| lab.address(Side::B, link)).collect();
        Self::of(Side::BOTH.map(|side| rails_of(lab, &machine, side)), addresses)
    }

    fn of(rails: [Rails; 2], addresses: Vec<IpAddr>) -> Self {
        let tasks = rails.each_ref().map(|rails| rails[RailId(0)].runtime().handle().clone());
        Self { rails, addresses, tasks }
    }

    /// This place's rails, with the application's tasks elsewhere.
    pub(crate) fn with_tasks(&self, tasks: &Handle) -> Self {
        Self { rails: self.rails.clone(), addresses: self.addresses.clone(), tasks: [tasks.clone(), tasks.clone()] }
    }

    /// Brings a contender up.
    pub(crate) async fn connect(&self, contender: Contender) -> Ends {
        match contender {
            Contender::Tcp => {
                let address = SocketAddr::new(self.addresses[0], 0);
                let listening = self.tasks[1].spawn(TcpListener::bind(address));
                let listener = listening.await.expect("no panic").expect("the address is there");
                Ends::Tcp { listener: Arc::new(listener), tasks: self.tasks.clone() }
            }
            Contender::Stream => Ends::Stream { near: self.rails[0].clone(), listener: self.listen().await },
            Contender::Session => {
                let listener = self.listen().await;
                let connecting = MultiRailSession::connect(&self.rails[0], listener.local_addrs(), listener_options());
                let (near, far) = tokio::join!(connecting, listener.accept_session());
                let sessions = [near.expect("it listens"), far.expect("one comes")];
                while sessions.iter().any(|session| session.lanes_up() < self.addresses.len()) {
                    sleep(Duration::from_millis(1)).await;
                }
                Ends::Session { sessions, _listener: listener }
            }
            Contender::Yamux => {
                let listener = self.listen().await;
                let [near, far] = lone(&self.rails[0], &listener).await;
                let (opens, accepts) = self.drive_yamux(near, far);
                Ends::Yamux { opens, accepts: Mutex::new(accepts), _listener: listener }
            }
            Contender::Quinn => self.quinn().await,
        }
    }

    async fn listen(&self) -> MultiRailListener {
        let addresses: Vec<SocketAddr> = self.addresses.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        MultiRailListener::bind(&self.rails[1], &addresses, listener_options()).await.expect("it can listen")
    }

    /// Runs the two ends of yamux, each in a task of its end.
    fn drive_yamux(
        &self,
        near: MultiRailStream,
        far: MultiRailStream,
    ) -> (mpsc::Sender<oneshot::Sender<yamux::Stream>>, mpsc::Receiver<yamux::Stream>) {
        let connection =
            |stream: MultiRailStream, mode| yamux::Connection::new(stream.compat(), yamux::Config::default(), mode);
        let mut client = connection(near, yamux::Mode::Client);
        let mut server = connection(far, yamux::Mode::Server);
        let (opens, mut wishes) = mpsc::channel::<oneshot::Sender<yamux::Stream>>(1);
        let (accepted, accepts) = mpsc::channel(1);
        self.tasks[0].spawn(async move {
            loop {
                tokio::select! {
                    wish = wishes.recv() => {
                        let Some(wish) = wish else { break };
                        let opened = poll_fn(|context| client.poll_new_outbound(context)).await;
                        let _ = wish.send(opened.expect("the far end takes it"));
                    }
                    inbound = poll_fn(|context| client.poll_next_inbound(context)) => match inbound {
                        Some(Ok(_)) => {}
                        _ => break,
                    }
                }
            }
        });
        self.tasks[1].spawn(async move {
            while let Some(Ok(stream)) = poll_fn(|context| server.poll_next_inbound(context)).await {
                // A stream that nobody waits for is dropped at the end.
                if accepted.send(stream).await.is_err() {
                    break;
                }
            }
        });
        (opens, accepts)
    }

    /// QUIC takes one path, the first.
    async fn quinn(&self) -> Ends {
        const NAME: &str = "rails.example";
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("it is a certificate");
        let server = quinn::ServerConfig::with_single_cert(vec![made.cert.der().clone()], key).expect("it fits");
        let client = quinn::ClientConfig::with_root_certificates(Arc::new(roots)).expect("it fits");
        let address = SocketAddr::new(self.addresses[0], 0);
        let far = self.tasks[1].spawn(async move { quinn::Endpoint::server(server, address) });
        let far = far.await.expect("no panic").expect("the address is there");
        let remote = far.local_addr().expect("it is bound");
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let near = self.tasks[0].spawn(async move { quinn::Endpoint::client(any) });
        let near = near.await.expect("no panic").expect("an address");
        let connecting = near.connect_with(client, remote, NAME).expect("it is a name");
        let (opened, incoming) = tokio::join!(connecting, async { far.accept().await.expect("one comes").await });
        let connections = [opened.expect("it listens"), incoming.expect("it is in order")];
        Ends::Quinn { connections, _endpoints: [near, far] }
    }
}

/// What carries streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Plain TCP: a connection for each stream.
    Tcp,
    /// A `MultiRailStream` for each stream.
    Stream,
    Session,
    /// yamux over one `MultiRailStream`.
    Yamux,
    Quinn,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "TCP",
            Self::Stream => "lone stream",
            Self::Session => "session",
            Self::Yamux => "yamux on a stream",
            Self::Quinn => "quinn",
        })
    }
}

/// Both ends of a contender that is up.
pub(crate) enum Ends {
    Tcp {
        listener: Arc<TcpListener>,
        tasks: [Handle; 2],
    },
    Stream {
        near: Rails,
        listener: MultiRailListener,
    },
    Session {
        sessions: [MultiRailSession; 2],
        _listener: MultiRailListener,
    },
    Yamux {
        opens: mpsc::Sender<oneshot::Sender<yamux::Stream>>,
        accepts: Mutex<mpsc::Receiver<yamux::Stream>>,
        _listener: MultiRailListener,
    },
    Quinn {
        connections: [quinn::Connection; 2],
        _endpoints: [quinn::Endpoint; 2],
    },
}

impl Ends {
    /// Opens a stream, and gives both of its ends. A byte has gone through it.
    pub(crate) async fn open(&self) -> [Pipe; 2] {
        let [mut near, mut far] = match self {
            Self::Tcp { listener, tasks } => {
                let address = listener.local_addr().expect("it is bound");
                let listener = listener.clone();
                let accepting = tasks[1].spawn(async move { listener.accept().await.expect("one comes").0 });
                let opened = tasks[0].spawn(async move { TcpStream::connect(address).await.expect("it listens") });
                let ends = [opened.await.expect("no panic"), accepting.await.expect("no panic")];
                ends.map(|end| {
                    end.set_nodelay(true).expect("TCP has it");
                    let (receiver, sender) = end.into_split();
                    Pipe { sender: Sender::Tcp(sender), receiver: Receiver::Tcp(receiver) }
                })
            }
            Self::Stream { near, listener } => lone(near, listener).await.map(|end| {
                let (receiver, sender) = end.into_split();
                Pipe { sender: Sender::Stream(sender), receiver: Receiver::Stream(receiver) }
            }),
            _ => {
                let mut near = self.begin().await;
                near.sender.write_all(&[0]).await;
                let far = self.accept().await;
                return self.greeted([near, far]).await;
            }
        };
        near.sender.write_all(&[0]).await;
        far.receiver.read_exact(&mut [0]).await;
        [near, far]
    }

    async fn greeted(&self, [near, mut far]: [Pipe; 2]) -> [Pipe; 2] {
        far.receiver.read_exact(&mut [0]).await;
        [near, far]
    }

    /// Opens a stream at the near end, of which the far end does not know yet.
    pub(crate) async fn begin(&self) -> Pipe {
        match self {
            Self::Tcp { .. } | Self::Stream { .. } => panic!("it has no streams on a connection"),
            Self::Session { sessions, .. } => Pipe::of_session(sessions[0].open_bi().await.expect("it is open")),
            Self::Yamux { opens, .. } => {
                let (wish, opened) = oneshot::channel();
                opens.send(wish).await.expect("it is driven");
                Pipe::of_yamux(opened.await.expect("it is driven"))
            }
            Self::Quinn { connections, .. } => Pipe::of_quinn(connections[0].open_bi().await.expect("it is open")),
        }
    }

    /// The next stream at the far end.
    pub(crate) async fn accept(&self) -> Pipe {
        match self {
            Self::Tcp { .. } | Self::Stream { .. } => panic!("it has no streams on a connection"),
            Self::Session { sessions, .. } => Pipe::of_session(sessions[1].accept_bi().await.expect("it is open")),
            Self::Yamux { accepts, .. } => Pipe::of_yamux(accepts.lock().await.recv().await.expect("it is driven")),
            Self::Quinn { connections, .. } => Pipe::of_quinn(connections[1].accept_bi().await.expect("it is open")),
        }
    }
}

/// One end of a stream.
pub(crate) struct Pipe {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

pub(crate) enum Sender {
    Tcp(tcp::OwnedWriteHalf),
    Stream(OwnedWriteHalf),
    Session(SendStream),
    Yamux(WriteHalf<Compat<yamux::Stream>>),
    Quinn(quinn::SendStream),
}

pub(crate) enum Receiver {
    Tcp(tcp::OwnedReadHalf),
    Stream(OwnedReadHalf),
    Session(RecvStream),
    Yamux(ReadHalf<Compat<yamux::Stream>>),
    Quinn(quinn::RecvStream),
}

impl Pipe {
    fn of_session((sender, receiver): (SendStream, RecvStream)) -> Self {
        Self { sender: Sender::Session(sender), receiver: Receiver::Session(receiver) }
    }

    fn of_yamux(stream: yamux::Stream) -> Self {
        let (receiver, sender) = tokio::io::split(stream.compat());
        Self { sender: Sender::Yamux(sender), receiver: Receiver::Yamux(receiver) }
    }

    fn of_quinn((sender, receiver): (quinn::SendStream, quinn::RecvStream)) -> Self {
        Self { sender: Sender::Quinn(sender), receiver: Receiver::Quinn(receiver) }
    }

    /// Ends the stream: those that are not ended by their drop are closed.
    pub(crate) async fn end(self) {
        if let Sender::Yamux(mut sender) = self.sender {
            sender.shutdown().await.expect("the far end reads");
        }
    }
}

impl Sender {
    /// Writes bytes, copied.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) {
        self.try_write_all(bytes).await.expect("the stream holds");
    }

    async fn try_write_all(&mut self, bytes: &[u8]) -> IoResult<()> {
        async fn all(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> IoResult<()> {
            to.write_all(bytes).await?;
            to.flush().await
        }
        match self {
            Self::Tcp(to) => to.write_all(bytes).await,
            Self::Stream(to) => to.write_all(bytes).await,
            Self::Session(to) => Ok(to.write_all(bytes).await?),
            // Without a flush yamux's frames wait.
            Self::Yamux(to) => all(to, bytes).await,
            Self::Quinn(to) => Ok(to.write_all(bytes).await?),
        }
    }

    /// Writes a block without a copy, where there is a call for it. Whether the stream goes on.
    pub(crate) async fn write_block(&mut self, block: &Bytes) -> bool {
        match self {
            Self::Stream(to) => to.write_bytes(block.clone()).await.is_ok(),
            Self::Session(to) => to.write_chunk(block.clone()).await.is_ok(),
            Self::Quinn(to) => to.write_chunk(block.clone()).await.is_ok(),
            Self::Tcp(_) | Self::Yamux(_) => self.try_write_all(block).await.is_ok(),
        }
    }
}

impl Receiver {
    pub(crate) async fn read_exact(&mut self, buffer: &mut [u8]) {
        assert!(self.try_read_exact(buffer).await, "the stream holds");
    }

    /// Whether the stream goes on.
    pub(crate) async fn try_read_exact(&mut self, buffer: &mut [u8]) -> bool {
        async fn exact(from: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> bool {
            from.read_exact(buffer).await.is_ok()
        }
        match self {
            Self::Tcp(from) => exact(from, buffer).await,
            Self::Stream(from) => exact(from, buffer).await,
            Self::Session(from) => exact(from, buffer).await,
            Self::Yamux(from) => exact(from, buffer).await,
            Self::Quinn(from) => exact(from, buffer).await,
        }
    }

    /// Reads some bytes, without a copy where there is a call for it; 0 once the stream has ended.
    pub(crate) async fn read_block(&mut self, buffer: &mut [u8]) -> usize {
        match self {
            Self::Tcp(from) => from.read(buffer).await.unwrap_or(0),
            Self::Stream(from) => from.read_bytes().await.ok().flatten().map_or(0, |bytes| bytes.len()),
            Self::Session(from) => from.read_chunk(usize::MAX).await.ok().flatten().map_or(0, |bytes| bytes.len()),
            Self::Yamux(from) => from.read(buffer).await.unwrap_or(0),
            Self::Quinn(from) => {
                from.read_chunk(usize::MAX, true).await.ok().flatten().map_or(0, |chunk| chunk.bytes.len())
            }
        }
    }
}

/// Opens a lone stream, with every lane up.
async fn lone(near: &Rails, listener: &MultiRailListener) -> [MultiRailStream; 2] {
    let connecting = MultiRailStream::connect(near, listener.local_addrs(), listener_options());
    let (near, far) = tokio::join!(connecting, listener.accept());
    let ends = [near.expect("it listens"), far.expect("one comes")];
    while ends.iter().any(|end| end.lanes_up() < listener.local_addrs().len()) {
        sleep(Duration::from_millis(1)).await;
    }
    ends
}

/// The options of streams and sessions at both ends.
fn listener_options() -> &'static StreamOptions {
    static OPTIONS: std::sync::LazyLock<StreamOptions> = std::sync::LazyLock::new(|| {
        let secret = Secret::pre_shared(b"0123456789abcdef").expect("the secret is long enough");
        let limits = Limits::default().streams(4096).streams_per_peer(4096).memory_per_peer(u64::MAX);
        StreamOptions::new(secret).limits(limits).max_concurrent_bi_streams(4096)
    });
    &OPTIONS
}

/// The rails of one end of a laboratory: `/sys` shows the interfaces of the namespace that it was
/// mounted in, so they are described.
fn rails_of(lab: &LinkLab, machine: &Topology, side: Side) -> Rails {
    let nic = |link| Nic {
        kind: NicKind::Virtual,
        up: Some(true),
        addresses: vec![InterfaceAddress { ip: lab.address(side, link), prefix_len: 24 }],
        ..Nic::named(lab.interface(side, link))
    };
    let cpus = machine.online_cpus().last().expect("a CPU is online").0 + 1;
    let nics = (0..lab.link_count()).map(nic).collect();
    let described = Topology::synthetic(&format!("core:{cpus} pu:1"), nics).expect("it is a machine");
    let described = described.with_allowed(machine.allowed_cpus().clone());
    let names: Vec<&str> = (0..lab.link_count()).map(|link| lab.interface(side, link)).collect();
    let wish: RailRequest = names.join(",").parse().expect("they are names");
    // The rails' threads start here, and so in the namespace.
    let _inside = lab.enter(side).expect("this is root");
    Rails::build(&plan_rails(&described, &wish).expect("each link is a rail")).expect("a rail on each link")
}
