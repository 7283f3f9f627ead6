//! A peer, and all that it may.

use super::{name::PeerName, target::Target, target_map::TargetMap};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// A gate on another host: the way to it, its key, the destinations that go through it, and those
/// here that it may reach.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct Peer {
    /// The name.
    pub name: PeerName,
    /// The addresses of its lanes, each as `rails_multirail` takes it (`HOST:PORT` or
    /// `SCHEME://HOST:PORT`). Empty: the peer dials.
    pub dial: Vec<String>,
    /// The proof that a gate is this peer.
    pub key: PeerKey,
    /// The destinations that go through it.
    pub networks: Vec<Target>,
    /// The destinations that its connections may reach from this host.
    pub reach: Vec<Target>,
    /// The services that get a header of the PROXY protocol in front of its connections.
    pub proxy_protocol: Vec<Target>,
    /// The limits of its connections.
    pub limits: PeerLimits,
    /// The time in which it has to have answered a new connection; a slower one goes plain.
    pub answer_within: Duration,
    pub(super) reachable: TargetMap<()>,
    pub(super) with_proxy_header: TargetMap<()>,
}

/// The proof that a gate is the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerKey {
    /// A file with a secret that both gates have.
    Secret(PathBuf),
    /// The key of the peer's certificate.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    Pin(rails_multirail::KeyPin),
}

/// The limits of a peer's connections at this gate. Connections that this gate's doors open to the
/// peer count as well, but for `connections_per_second`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerLimits {
    /// The number of connections at a time. Default: 4096.
    pub streams: u32,
    /// The number of bytes that wait here for the sockets of all connections. Default: 256 MiB.
    pub bytes: u64,
    /// The number of connections that the peer may open in a second. Default: 1000.
    pub connections_per_second: u32,
}

impl Peer {
    /// The default of [`answer_within`](Self::answer_within): 50 ms.
    pub const ANSWER_WITHIN: Duration = Duration::from_millis(50);

    /// Whether a connection of the peer may go to this destination; nothing is allowed that
    /// [`reach`](Self::reach) does not contain.
    pub fn may_reach(&self, destination: SocketAddr) -> bool {
        self.reachable.get(destination).is_some()
    }

    /// Whether the service at this destination gets a header of the PROXY protocol.
    pub fn wants_proxy_header(&self, destination: SocketAddr) -> bool {
        self.with_proxy_header.get(destination).is_some()
    }
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self { streams: 4096, bytes: 256 << 20, connections_per_second: 1000 }
    }
}
