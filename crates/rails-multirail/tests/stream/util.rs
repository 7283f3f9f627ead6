//! Rails and streams on the loopback interface, and a relay that does harm.

use rails_multirail::{
    MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, Security, StreamOptions, StreamStats, plan_rails,
};
use rails_topo::Topology;
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

/// Rails on 127.0.0.1, 127.0.0.2 and so on.
pub(crate) fn rails(count: usize) -> Rails {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::Loopback(Some(count))).expect("loopback rails can be planned");
    Rails::build(&plan).expect("loopback rails need no privilege")
}

pub(crate) fn secret() -> Secret {
    Secret::pre_shared(b"0123456789abcdef").expect("it is long enough")
}

/// Streams that fail as soon as their last lane is lost.
pub(crate) fn options() -> StreamOptions {
    patient(secret()).outage_limit(Duration::ZERO)
}

/// As patient as a busy machine takes: how many lanes a stream begins with must not depend on what else runs there.
pub(crate) fn patient(security: impl Into<Security>) -> StreamOptions {
    StreamOptions::new(security).join_grace(PATIENCE).handshake_timeout(PATIENCE)
}

/// A listener with as many addresses as there are rails, each with a port of its own.
pub(crate) async fn listener(rails: &Rails, options: &StreamOptions) -> (MultiRailListener, Vec<SocketAddr>) {
    let addresses: Vec<SocketAddr> =
        rails.iter().map(|rail| SocketAddr::new(rail.planned().address.expect("it has one"), 0)).collect();
    let listener = MultiRailListener::bind(rails, &addresses, options).await.expect("loopback can be listened on");
    let addresses = listener.local_addrs().iter().map(|address| address.socket).collect();
    (listener, addresses)
}

/// A stream's two ends, with a relay before each lane.
pub(crate) async fn relayed_pair(
    rails: &Rails,
    options: &StreamOptions,
) -> (MultiRailStream, MultiRailStream, Vec<Relay>) {
    relayed_pair_by(rails, options, false).await
}

/// The same with relays that hand on a connection that is made anew, too.
pub(crate) async fn relayed_pair_by(
    rails: &Rails,
    options: &StreamOptions,
    lasting: bool,
) -> (MultiRailStream, MultiRailStream, Vec<Relay>) {
    let (listener, addresses) = listener(rails, options).await;
    let mut relays = Vec::new();
    for address in addresses {
        relays.push(if lasting { Relay::start_lasting(address).await } else { Relay::start(address).await });
    }
    let remotes: Vec<SocketAddr> = relays.iter().map(|relay| relay.address).collect();
    let near = MultiRailStream::connect(rails, &remotes, options).await.expect("the relays let it through");
    let far = listener.accept().await.expect("a stream was opened");
    if lasting {
        // It takes in lanes that are dialled again.
        tokio::spawn(async move { listener.accept().await.map(drop) });
    }
    (near, far, relays)
}

pub(crate) async fn pair(rails: &Rails, options: &StreamOptions) -> (MultiRailStream, MultiRailStream) {
    let (listener, addresses) = listener(rails, options).await;
    let near = MultiRailStream::connect(rails, &addresses, options).await.expect("loopback can be connected to");
    let far = listener.accept().await.expect("a stream was opened");
    (near, far)
}

/// Sends the bytes, checks that they arrive, and gives what both ends say of it, the sender first.
pub(crate) async fn moved(near: MultiRailStream, far: MultiRailStream, bytes: Vec<u8>) -> [StreamStats; 2] {
    moved_while(near, far, bytes, || {}).await
}

/// The same, and something happens once the first few megabytes have arrived.
pub(crate) async fn moved_while(
    mut near: MultiRailStream,
    mut far: MultiRailStream,
    bytes: Vec<u8>,
    happens: impl FnOnce(),
) -> [StreamStats; 2] {
    let expected = bytes.clone();
    let writer = tokio::spawn(async move {
        near.write_all(&bytes).await.unwrap();
        near.close().await.unwrap()
    });
    let mut got = vec![0; expected.len().min(FIRST)];
    far.read_exact(&mut got).await.unwrap();
    happens();
    far.read_to_end(&mut got).await.unwrap();
    assert!(got == expected, "other bytes arrived");
    let received = far.close().await.unwrap();
    [timeout(PATIENCE, writer).await.expect("it ends").unwrap(), received]
}

/// Sends the bytes there and, once all have arrived, back; gives what both ends say of it.
pub(crate) async fn echoed(mut near: MultiRailStream, mut far: MultiRailStream, bytes: &[u8]) -> [StreamStats; 2] {
    let echo = tokio::spawn(async move {
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        far.write_all(&got).await.unwrap();
        far.close().await.unwrap()
    });
    near.write_all(bytes).await.unwrap();
    near.shutdown().await.unwrap();
    let mut back = Vec::new();
    near.read_to_end(&mut back).await.unwrap();
    assert!(back == bytes, "other bytes came back");
    [near.close().await.unwrap(), echo.await.unwrap()]
}

/// Bytes that differ from their neighbours near and far.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    use rand::{Rng, SeedableRng};
    let mut bytes = vec![0; length];
    rand_chacha::ChaCha8Rng::seed_from_u64(length as u64).fill_bytes(&mut bytes);
    bytes
}

/// Hands a connection on to another address, and can do harm to what flows through it.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    cut: Arc<tokio::sync::Notify>,
    harm: Arc<Harm>,
}

/// What is done to the bytes on their way.
#[derive(Default)]
struct Harm {
    flip: AtomicBool,
    flip_answer: AtomicBool,
    drip: AtomicBool,
    listening_in: AtomicBool,
    heard: Mutex<Vec<u8>>,
    /// Where the way there leads instead, and the end of the connection for whoever diverts to this one.
    diverted: Mutex<Option<Arc<Harm>>>,
    way_there: tokio::sync::Mutex<Option<OwnedWriteHalf>>,
}

impl Relay {
    /// Hands one connection on.
    pub(crate) async fn start(to: SocketAddr) -> Self {
        Self::serve(to, 1).await
    }

    /// Hands one connection on after the other.
    pub(crate) async fn start_lasting(to: SocketAddr) -> Self {
        Self::serve(to, usize::MAX).await
    }

    async fn serve(to: SocketAddr, times: usize) -> Self {
        let listener = TcpListener::bind((to.ip(), 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (cut, harm) = (Arc::new(tokio::sync::Notify::new()), Arc::new(Harm::default()));
        let relay = Self { address, cut: cut.clone(), harm: harm.clone() };
        tokio::spawn(async move {
            for _ in 0..times {
                let (near, _) = listener.accept().await.expect("one connection comes");
                let far = TcpStream::connect(to).await.expect("the listener is there");
                let (near_read, mut near_write) = near.into_split();
                let (mut far_read, far_write) = far.into_split();
                *harm.way_there.lock().await = Some(far_write);
                let forward = harm.forward(near_read);
                let backward = async {
                    let mut buffer = vec![0; 100_000];
                    loop {
                        match far_read.read(&mut buffer).await {
                            Ok(0) | Err(_) => return near_write.shutdown().await,
                            Ok(count) => {
                                if harm.flip_answer.swap(false, Ordering::SeqCst) {
                                    buffer[count / 2] ^= 4;
                                }
                                near_write.write_all(&buffer[..count]).await?;
                            }
                        }
                    }
                };
                tokio::select! {
                    _ = async { tokio::join!(forward, backward) } => {}
                    () = cut.notified() => {}
                }
                harm.way_there.lock().await.take();
            }
        });
        relay
    }

    /// Cuts the connection, in whatever it is in the middle of.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Damages one bit of what flows next.
    pub(crate) fn flip_a_bit(&self) {
        self.harm.flip.store(true, Ordering::SeqCst);
    }

    /// Damages one bit of what flows back next.
    pub(crate) fn flip_an_answer(&self) {
        self.harm.flip_answer.store(true, Ordering::SeqCst);
    }

    /// Lets a byte through now and then.
    pub(crate) fn drip(&self) {
        self.harm.drip.store(true, Ordering::SeqCst);
    }

    /// Writes down what flows from now on.
    pub(crate) fn listen_in(&self) {
        self.harm.listening_in.store(true, Ordering::SeqCst);
    }

    /// What was written down.
    pub(crate) fn heard(&self) -> Vec<u8> {
        std::mem::take(&mut self.harm.heard.lock().unwrap())
    }

    /// Sends what flows next to where the other relay leads.
    pub(crate) fn divert_to(&self, other: &Self) {
        *self.harm.diverted.lock().unwrap() = Some(other.harm.clone());
    }
}

impl Harm {
    async fn forward(self: &Arc<Self>, mut from: OwnedReadHalf) -> std::io::Result<()> {
        let mut buffer = vec![0; 100_000];
        loop {
            let read = from.read(&mut buffer).await;
            let way = self.diverted.lock().unwrap().clone().unwrap_or_else(|| self.clone());
            let mut way = way.way_there.lock().await;
            let Some(to) = way.as_mut() else { return Ok(()) };
            match read {
                Ok(0) | Err(_) => return to.shutdown().await,
                Ok(count) => {
                    if count > 1000 && self.flip.swap(false, Ordering::SeqCst) {
                        buffer[count / 2] ^= 4;
                    }
                    if self.listening_in.load(Ordering::SeqCst) {
                        self.heard.lock().unwrap().extend_from_slice(&buffer[..count]);
                    }
                    if self.drip.load(Ordering::SeqCst) {
                        for byte in &buffer[..count] {
                            to.write_all(&[*byte]).await?;
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                        continue;
                    }
                    to.write_all(&buffer[..count]).await?;
                }
            }
        }
    }
}

/// How many bytes arrive before something happens: so many that every lane is in the middle of something.
const FIRST: usize = 4 << 20;
/// Nothing here takes long: what does hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
