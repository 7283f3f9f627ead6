//! Streams on the loopback interface, and a relay that cuts, damages and records.

use crate::loopback::{PATIENCE, listener, patient, secret};
use rails_multirail::{Failure, MultiRailStream, Rails, StreamError, StreamOptions, StreamStats};
use std::{
    io,
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

/// Streams that fail as soon as their last lane is lost.
pub(crate) fn options() -> StreamOptions {
    patient(secret()).outage_limit(Duration::ZERO)
}

/// A stream's two ends, with a relay before each lane.
pub(crate) async fn relayed_pair(
    rails: &Rails,
    options: &StreamOptions,
) -> (MultiRailStream, MultiRailStream, Vec<Relay>) {
    relayed_pair_by(rails, options, false).await
}

/// As `relayed_pair`; `lasting` relays forward later connections too.
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
    all_joined(&near, &far).await;
    if lasting {
        // The listener accepts lanes that are dialled again.
        tokio::spawn(async move { listener.accept().await.map(drop) });
    }
    (near, far, relays)
}

pub(crate) async fn pair(rails: &Rails, options: &StreamOptions) -> (MultiRailStream, MultiRailStream) {
    let (listener, addresses) = listener(rails, options).await;
    let near = MultiRailStream::connect(rails, &addresses, options).await.expect("loopback can be connected to");
    let far = listener.accept().await.expect("a stream was opened");
    all_joined(&near, &far).await;
    (near, far)
}

/// Waits until the accepted end has every lane of the opened one: `accept` gives the stream with
/// its first lane.
pub(crate) async fn all_joined(near: &MultiRailStream, far: &MultiRailStream) {
    let joined = async {
        while far.lanes_up() < near.lanes_up() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, joined).await.expect("every lane joins at both ends");
}

/// The failure of the stream that an error of `std` carries.
pub(crate) fn failure(error: &io::Error) -> &Failure {
    &error.get_ref().and_then(|error| error.downcast_ref::<StreamError>()).expect("a stream's error").failure
}

/// Sends the bytes, checks that they arrive, and gives the statistics of both ends, the sender's
/// first.
pub(crate) async fn moved(near: MultiRailStream, far: MultiRailStream, bytes: Vec<u8>) -> [StreamStats; 2] {
    moved_while(near, far, bytes, || {}).await
}

/// As `moved`, and calls `happens` after the first bytes have arrived.
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

/// Sends the bytes there and, after all have arrived, back. Gives the statistics of both ends.
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

/// Bytes that differ from their neighbours, near and far.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    use rand::{Rng, SeedableRng};
    let mut bytes = vec![0; length];
    rand::rngs::ChaCha8Rng::seed_from_u64(length as u64).fill_bytes(&mut bytes);
    bytes
}

/// Forwards a connection to another address, and can damage, record or cut it.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    cut: Arc<tokio::sync::Notify>,
    harm: Arc<Harm>,
}

/// The relay's treatment of the bytes.
#[derive(Default)]
struct Harm {
    flip: AtomicBool,
    flip_answer: AtomicBool,
    drip: AtomicBool,
    listening_in: AtomicBool,
    heard: Mutex<Vec<u8>>,
    /// The relay to whose destination forward bytes go instead, and this relay's socket to its
    /// destination, for a diverting relay.
    diverted: Mutex<Option<Arc<Harm>>>,
    way_there: tokio::sync::Mutex<Option<OwnedWriteHalf>>,
}

impl Relay {
    /// Forwards one connection.
    pub(crate) async fn start(to: SocketAddr) -> Self {
        Self::serve(to, 1).await
    }

    /// Forwards one connection after the other.
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

    /// Cuts the connection at once.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Damages one bit of the next forward bytes.
    pub(crate) fn flip_a_bit(&self) {
        self.harm.flip.store(true, Ordering::SeqCst);
    }

    /// Damages one bit of the next bytes on the way back.
    pub(crate) fn flip_an_answer(&self) {
        self.harm.flip_answer.store(true, Ordering::SeqCst);
    }

    /// Forwards single bytes at long intervals.
    pub(crate) fn drip(&self) {
        self.harm.drip.store(true, Ordering::SeqCst);
    }

    /// Records the bytes from now on.
    pub(crate) fn listen_in(&self) {
        self.harm.listening_in.store(true, Ordering::SeqCst);
    }

    /// The recorded bytes.
    pub(crate) fn heard(&self) -> Vec<u8> {
        std::mem::take(&mut self.harm.heard.lock().unwrap())
    }

    /// Diverts the next bytes to the destination of the other relay.
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

/// The bytes that arrive before the disturbance: enough for every lane to be in the middle of a
/// chunk.
const FIRST: usize = 4 << 20;
