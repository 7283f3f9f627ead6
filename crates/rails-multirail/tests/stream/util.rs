//! Rails and streams on the loopback interface, and a relay that does harm.

use rails_multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, plan};
use rails_topo::Topology;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Rails on 127.0.0.1, 127.0.0.2 and so on.
pub(crate) fn rails(count: usize) -> Rails {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan::plan(&topology, &RailRequest::Loopback(Some(count))).expect("loopback rails can be planned");
    Rails::build(&plan).expect("loopback rails need no privilege")
}

pub(crate) fn secret() -> Secret {
    Secret::pre_shared(b"0123456789abcdef").expect("it is long enough")
}

pub(crate) fn options() -> StreamOptions {
    StreamOptions::new(secret())
}

/// A listener with as many addresses as there are rails, each with a port of its own.
pub(crate) async fn listener(rails: &Rails, options: &StreamOptions) -> (MultiRailListener, Vec<SocketAddr>) {
    let addresses: Vec<SocketAddr> =
        rails.iter().map(|rail| SocketAddr::new(rail.plan().address.expect("it has one"), 0)).collect();
    let listener = MultiRailListener::bind(rails, &addresses, options).await.expect("loopback can be listened on");
    let addresses = listener.local_addrs().to_vec();
    (listener, addresses)
}

/// A stream's two ends, with a relay before each lane.
pub(crate) async fn relayed_pair(
    rails: &Rails,
    options: &StreamOptions,
) -> (MultiRailStream, MultiRailStream, Vec<Relay>) {
    let (mut listener, addresses) = listener(rails, options).await;
    let mut relays = Vec::new();
    for address in addresses {
        relays.push(Relay::start(address).await);
    }
    let remotes: Vec<SocketAddr> = relays.iter().map(|relay| relay.address).collect();
    let near = MultiRailStream::connect(rails, &remotes, options).await.expect("the relays let it through");
    let far = listener.accept().await.expect("a stream was opened");
    (near, far, relays)
}

pub(crate) async fn pair(rails: &Rails, options: &StreamOptions) -> (MultiRailStream, MultiRailStream) {
    let (mut listener, addresses) = listener(rails, options).await;
    let near = MultiRailStream::connect(rails, &addresses, options).await.expect("loopback can be connected to");
    let far = listener.accept().await.expect("a stream was opened");
    (near, far)
}

/// Bytes that differ from their neighbours near and far.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    use rand::{Rng, SeedableRng};
    let mut bytes = vec![0; length];
    rand_chacha::ChaCha8Rng::seed_from_u64(length as u64).fill_bytes(&mut bytes);
    bytes
}

/// Hands a connection on to another address, and can do harm to what flows towards it.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    cut: Arc<tokio::sync::Notify>,
    flip: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((to.ip(), 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (cut, flip) = (Arc::new(tokio::sync::Notify::new()), Arc::new(AtomicBool::new(false)));
        let relay = Self { address, cut: cut.clone(), flip: flip.clone() };
        tokio::spawn(async move {
            let (near, _) = listener.accept().await.expect("one connection comes");
            let far = TcpStream::connect(to).await.expect("the listener is there");
            let (mut near_read, mut near_write) = near.into_split();
            let (mut far_read, mut far_write) = far.into_split();
            let forward = async {
                let mut buffer = vec![0; 100_000];
                loop {
                    match near_read.read(&mut buffer).await {
                        Ok(0) | Err(_) => return far_write.shutdown().await,
                        Ok(count) => {
                            if count > 1000 && flip.swap(false, Ordering::SeqCst) {
                                buffer[count / 2] ^= 4;
                            }
                            far_write.write_all(&buffer[..count]).await?;
                        }
                    }
                }
            };
            let backward = tokio::io::copy(&mut far_read, &mut near_write);
            tokio::select! {
                _ = async { tokio::join!(forward, backward) } => {}
                () = cut.notified() => {}
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
        self.flip.store(true, Ordering::SeqCst);
    }
}
