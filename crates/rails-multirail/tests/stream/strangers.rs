//! Peers that connect and say nothing, or not enough, and never stop.

use crate::{
    loopback::{PATIENCE, listener, patient, rails},
    peer,
    security::by_tls,
    util::{Relay, options},
};
use rails_multirail::{
    Driver, Limit, Limits, Mode, MultiRailListener, MultiRailStream, Rails, Refusal, Security, StreamId, StreamOptions,
};
use rails_proto::{
    handshake::{Credentials, HandshakeMessage, Hello, PREFIX_LEN, Purpose},
    parameters::TransportParameters,
};
use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    time::{sleep, timeout},
};

/// Mute connections, made until this is dropped. The first [`STAYING`] stay as long as the listener
/// lets them.
struct Flood {
    made: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

const MUTE: usize = 1000;
/// More than a listener keeps.
const STAYING: usize = 300;
const PASSING: usize = 100;

impl Flood {
    /// A flood from these addresses in turn.
    fn start(sources: Vec<IpAddr>, to: SocketAddr) -> Self {
        let (made, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, is_over) = (made.clone(), over.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut mute = VecDeque::new();
                for source in sources.iter().cycle() {
                    let socket = TcpSocket::new_v4().unwrap();
                    // The kernel does not keep the ports of a closed connection.
                    socket.set_zero_linger().unwrap();
                    socket.bind((*source, 0).into()).unwrap();
                    let connecting = async { mute.push_back(socket.connect(to).await.unwrap()) };
                    let is_over = async {
                        while !is_over.load(SeqCst) {
                            sleep(Duration::from_millis(5)).await;
                        }
                    };
                    tokio::select! {
                        biased;
                        () = is_over => return,
                        () = connecting => {}
                    }
                    if mute.len() > STAYING + PASSING {
                        mute.remove(STAYING);
                    }
                    if counter.fetch_add(1, SeqCst) >= MUTE {
                        sleep(Duration::from_micros(200)).await;
                    }
                }
            });
        });
        Self { made, over, thread: Some(thread) }
    }

    /// Waits until `count` further connections were made.
    async fn rises_by(&self, count: usize) {
        let made = self.made.load(SeqCst);
        let rises = async {
            while self.made.load(SeqCst) < made + count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, rises).await.expect("the listener accepts mute peers too");
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The address of the honest peers, and others.
fn floods() -> [Vec<IpAddr>; 2] {
    let many = (0..MUTE as u32).map(|number| Ipv4Addr::from_bits(0x7f10_0000 + number).into());
    [vec![Ipv4Addr::LOCALHOST.into()], many.collect()]
}

#[tokio::test]
async fn mute_peers_keep_no_peer_out() {
    let rails = rails(2);
    let options = options().outage_limit(Duration::from_secs(10));
    for sources in floods() {
        let (listener, addresses) = listener(&rails, &options).await;
        let mut relays = Vec::new();
        for address in &addresses {
            relays.push(Relay::start_lasting(*address).await);
        }
        let remotes: Vec<SocketAddr> = relays.iter().map(|relay| relay.address).collect();
        let mut lasting = open(&rails, &listener, &remotes, &options).await;
        let flood = Flood::start(sources, addresses[0]);
        flood.rises_by(MUTE).await;
        for _ in 0..5 {
            let mut opened = open(&rails, &listener, &addresses, &options).await;
            exchange(&mut opened).await;
        }
        // The listener accepts lanes that are dialled again.
        for round in 1..4 {
            relays.iter().for_each(Relay::cut);
            exchange(&mut lasting).await;
            let both_are_back = async {
                while lasting.0.stats().lanes.iter().any(|lane| lane.joined <= round) || lasting.0.lanes_up() < 2 {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(PATIENCE, both_are_back).await.expect("the lanes come back");
        }
        flood.rises_by(1).await;
    }
}

/// Each address has as many silent peers as a listener takes from one, and four addresses fill all
/// its places.
#[tokio::test]
async fn peers_that_never_confirm_keep_no_peer_out() {
    let rails = rails(1);
    let options = patient(Security::insecure());
    let (listener, addresses) = listener(&rails, &options).await;
    let parameters = TransportParameters::one_stream(1 << 16, 1 << 20);
    let mut silent = Vec::new();
    for source in 0..4u8 {
        for number in 0..64u8 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::new(127, 0, 16, source), 0).into()).unwrap();
            let mut socket = socket.connect(addresses[0]).await.unwrap();
            let stream = StreamId([source * 64 + number; 16]);
            let proving = peer::prove(&mut socket, stream, 0, Credentials::Insecure, parameters);
            timeout(PATIENCE, proving).await.expect("the listener answers at once");
            silent.push(socket);
        }
        let mut opened = open(&rails, &listener, &addresses, &options).await;
        exchange(&mut opened).await;
    }
}

/// A listener on all addresses: a rail whose thread is occupied has more connections than wait for
/// one rail.
#[tokio::test]
async fn a_busy_rail_keeps_no_other_from_its_lanes() {
    let (ours, theirs) = (rails(1), rails(2));
    let options = patient(Security::insecure()).driver(Driver::PerRail);
    let listener = MultiRailListener::bind(&theirs, "0.0.0.0:0", &options).await.unwrap();
    let port = listener.local_addrs()[0].port();
    let (occupied, free) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (occupies, frees) = (occupied.clone(), free.clone());
    let busy = theirs.iter().nth(1).unwrap().runtime().spawn(async move {
        occupies.wait();
        frees.wait();
    });
    occupied.wait();
    let mut mute = Vec::new();
    for _ in 0..40 {
        mute.push(TcpSocket::new_v4().unwrap().connect(([127, 0, 0, 2], port).into()).await.unwrap());
    }
    let opened = timeout(PATIENCE, async {
        let mut opened = open(&ours, &listener, &[([127, 0, 0, 1], port).into()], &options).await;
        exchange(&mut opened).await;
        let mut answer = Vec::new();
        mute[39].read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, HandshakeMessage::Refused(Refusal::Busy(Limit::Handshakes)).encode());
    });
    let opened = opened.await;
    free.wait();
    busy.await.unwrap();
    opened.expect("the free rail's lanes come up, and the others are told to try again");
}

/// Each hello of a stranger makes a TLS server sign.
#[tokio::test]
async fn a_flood_of_tls_hellos_is_told_to_try_again() {
    let rails = rails(1);
    let (client, server) = by_tls();
    let server = server.limits(Limits::default().tls_rate_per_peer(1));
    let (listener, addresses) = listener(&rails, &server).await;
    let mut opened = open(&rails, &listener, &addresses, &client).await;
    let parameters = TransportParameters::one_stream(1 << 16, 1 << 20);
    let mut refused = 0;
    // A second has room for one.
    for number in 0..20 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 16, 1), 0).into()).unwrap();
        let mut socket = socket.connect(addresses[0]).await.unwrap();
        let (mode, purpose, stream) = (Mode::Tls, Purpose::Open, StreamId([number; 16]));
        let hello = Hello { mode, purpose, stream, lane: 0, lanes: 1, parameters, nonce: [1; 32] };
        socket.write_all(&HandshakeMessage::Hello(hello).encode()).await.unwrap();
        let mut answer = [0; PREFIX_LEN];
        timeout(PATIENCE, socket.read_exact(&mut answer)).await.expect("the listener answers at once").unwrap();
        refused += usize::from(answer[..] == HandshakeMessage::Refused(Refusal::Busy(Limit::PeerTlsRate)).encode()[..]);
    }
    assert!(refused > 0);
    exchange(&mut opened).await;
    let mut another = open(&rails, &listener, &addresses, &client).await;
    exchange(&mut another).await;
}

type Ends = (MultiRailStream, MultiRailStream);

async fn open(rails: &Rails, listener: &MultiRailListener, to: &[SocketAddr], options: &StreamOptions) -> Ends {
    let both = async { tokio::join!(MultiRailStream::connect(rails, to, options), listener.accept()) };
    let (near, far) = timeout(PATIENCE, both).await.expect("strangers hold no peer up");
    (near.expect("each connect succeeds"), far.unwrap())
}

async fn exchange((near, far): &mut Ends) {
    near.write_all(b"hello").await.unwrap();
    timeout(PATIENCE, far.read_exact(&mut [0; 5])).await.expect("the bytes arrive").unwrap();
}
