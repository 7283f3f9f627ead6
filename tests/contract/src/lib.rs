//! The contracts of tokio's traits, tested on a stream over two rails: polled by hand, and used by
//! libraries that were written for TCP. The package has their dependencies for itself.

#![cfg(test)]

mod adapters;
mod endings;
mod grpc;
mod halves;
mod http;
mod http3;
mod kinds;
mod libraries;
mod multiplexed;
mod polling;
mod resp;
mod rpc;
mod ssh;
mod tls;
mod web;
mod web_transport;
mod web_transport_polled;
mod websocket;

use rails::{
    multirail::{
        MultiRailListener, MultiRailSession, MultiRailStream, Rail, RailRequest, Rails, Secret, StreamOptions,
        plan_rails,
    },
    topo::Topology,
};
use std::{future::Future, net::SocketAddr, time::Duration};

/// Both ends of a stream over two loopback rails. The rails live as long as the stream.
struct Pair {
    near: MultiRailStream,
    far: MultiRailStream,
    rails: Rails,
}

/// Both ends of a session over two loopback rails, which live as long as it does.
struct Sessions {
    near: MultiRailSession,
    far: MultiRailSession,
    rails: Rails,
}

/// A pair with the usual options.
async fn pair() -> Pair {
    pair_with(options()).await
}

/// A pair with so little memory that a writer soon waits.
async fn narrow_pair() -> Pair {
    pair_with(options().longest_chunk(16 << 10).window(WINDOW as u64).send_buffer(SEND_BUFFER)).await
}

/// Two loopback rails, and their addresses.
fn rails() -> (Rails, Vec<SocketAddr>) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    let address = |rail: &Rail| SocketAddr::new(rail.planned().address.expect("it has one"), 0);
    let addresses = rails.iter().map(address).collect();
    (rails, addresses)
}

async fn pair_with(options: StreamOptions) -> Pair {
    let (rails, addresses) = rails();
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await.expect("loopback can be bound");
    let near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.expect("it can be reached");
    let far = listener.accept().await.expect("a stream was opened");
    assert_eq!(near.lanes_up(), 2);
    Pair { near, far, rails }
}

/// The two ends of a session with the usual options.
async fn sessions() -> Sessions {
    sessions_with(options()).await
}

/// The two ends of a session with little memory for each stream.
async fn narrow_sessions() -> Sessions {
    let options = options().longest_chunk(16 << 10).window(8 * WINDOW as u64).stream_window(WINDOW as u64);
    sessions_with(options.send_buffer(SEND_BUFFER)).await
}

async fn sessions_with(options: StreamOptions) -> Sessions {
    let (rails, addresses) = rails();
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await.expect("loopback can be bound");
    let near = MultiRailSession::connect(&rails, listener.local_addrs(), &options).await.expect("it can be reached");
    let far = listener.accept_session().await.expect("a session was opened");
    assert_eq!(near.lanes_up(), 2);
    Sessions { near, far, rails }
}

/// Options with long timeouts for a busy machine: other load must not change the number of lanes
/// with which a stream begins.
fn options() -> StreamOptions {
    let secret = Secret::pre_shared(b"sixteen bytes!!!").expect("it is long enough");
    StreamOptions::new(secret).join_grace(PATIENCE).handshake_timeout(PATIENCE)
}

/// Bytes without a repeated pattern; another seed gives other bytes.
fn made_up(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes
}

/// Every step here is short. A step that takes longer hangs.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it ends in time")
}

const PATIENCE: Duration = Duration::from_secs(60);
/// The sizes of a narrow pair, and of a stream of narrow sessions, in bytes.
const SEND_BUFFER: usize = 32 << 10;
const WINDOW: usize = 64 << 10;
