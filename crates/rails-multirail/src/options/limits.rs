//! Limits on the resources that peers take at a listener.

use super::bounded;
use crate::error::OptionError;

/// Limits on the resources that peers take at a [`MultiRailListener`](crate::MultiRailListener),
/// for all peers together and for each.
///
/// A peer is an IP address: for streams and memory that of the lane that opened the stream. A peer
/// with many addresses counts as many peers; the limits for all peers together bound such a peer.
/// The listener refuses a stream beyond a limit with the limit's name, and open streams go on.
///
/// For handshakes and their rate a peer is an IPv4 address or an IPv6 network of 64 bits
/// ([`Origin`](rails_proto::admission::Origin)), since anyone may have such a network. At their
/// limits a silent connection makes room for the next, and the listener asks its peer to try again,
/// which [`MultiRailStream::connect`](crate::MultiRailStream::connect) does. The module
/// [`admission`](rails_proto::admission) says which one: peers that flood a listener displace each
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub(crate) handshakes: usize,
    pub(crate) handshakes_per_peer: usize,
    pub(crate) streams: usize,
    pub(crate) streams_per_peer: usize,
    pub(crate) memory: u64,
    pub(crate) memory_per_peer: u64,
    pub(crate) tls_rate: u32,
    pub(crate) tls_rate_per_peer: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 256,
            handshakes_per_peer: 64,
            streams: 1024,
            streams_per_peer: 256,
            memory: 104 << 30,
            memory_per_peer: 26 << 30,
            tls_rate: 500,
            tls_rate_per_peer: 125,
        }
    }
}

impl Limits {
    /// The most connections in their handshake. Default: 256. Each costs a socket and a task, for
    /// at most [`StreamOptions::handshake_timeout`](crate::StreamOptions::handshake_timeout).
    /// Before a peer is authenticated, the listener keeps less than a kilobyte of its bytes;
    /// under TLS, rustls keeps state from at most 64 KiB of them. A quarter of them is for
    /// lanes of open streams, one for connections from the addresses of their peers.
    #[must_use]
    pub fn handshakes(self, max: usize) -> Self {
        Self { handshakes: max, ..self }
    }

    /// The most connections of one peer in their handshake. Default: 64, the most lanes of a
    /// stream.
    #[must_use]
    pub fn handshakes_per_peer(self, max: usize) -> Self {
        Self { handshakes_per_peer: max, ..self }
    }

    /// The most open streams. Default: 1,024.
    #[must_use]
    pub fn streams(self, max: usize) -> Self {
        Self { streams: max, ..self }
    }

    /// The most open streams of one peer. Default: 256.
    #[must_use]
    pub fn streams_per_peer(self, max: usize) -> Self {
        Self { streams_per_peer: max, ..self }
    }

    /// The most bytes that all streams together can make this end keep. Default: 104 GiB, which is
    /// 1,024 streams with the default options. A machine with less memory sets less.
    ///
    /// A stream counts from its opening to its end with the sum of its
    /// [window](crate::StreamOptions::window) and a tenth of it, its [send
    /// buffer](crate::StreamOptions::send_buffer), its [unacknowledged
    /// bytes](crate::StreamOptions::max_unacknowledged), and for each of 64 lanes half a mebibyte
    /// and its [longest chunk](crate::StreamOptions::longest_chunk): 101.6 MiB with the default
    /// options, 64 MiB of which are for the lanes. It takes all of that only if its peer opens as
    /// many lanes and floods them all, and acknowledges and reads nothing, while the application
    /// writes and does not read.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        Self { memory: bytes, ..self }
    }

    /// The most bytes that the streams of one peer can make this end keep, counted as for
    /// [`memory`](Self::memory). Default: 26 GiB, which is 256 streams with the default
    /// options.
    #[must_use]
    pub fn memory_per_peer(self, bytes: u64) -> Self {
        Self { memory_per_peer: bytes, ..self }
    }

    /// The most TLS handshakes in a second that the listener begins with strangers, peers from
    /// whose address no stream is open, and the most that it begins with all others. Default:
    /// 500; as many may come at once. Each makes the listener sign before the peer has proved
    /// anything: 500 in a second take 8 % of a rail's core where the key is of P-256, and 33 %
    /// where it is of RSA 2048; strangers and others together take twice as much. Only a lane
    /// that opens a stream, or asks for the listener's lanes, shakes hands by TLS. The listener
    /// asks a peer beyond the limit to try again, as
    /// [`HandshakeRate`](rails_proto::admission::HandshakeRate) says.
    #[must_use]
    pub fn tls_rate(self, per_second: u32) -> Self {
        Self { tls_rate: per_second, ..self }
    }

    /// The most TLS handshakes in a second that the listener begins with one peer, stranger or not,
    /// counted as for [`handshakes`](Self::handshakes). Default: 125; as many may come at once.
    #[must_use]
    pub fn tls_rate_per_peer(self, per_second: u32) -> Self {
        Self { tls_rate_per_peer: per_second, ..self }
    }

    /// Refuses a limit of zero: it would admit no peer, or let it wait for ever.
    pub(super) fn validate(self) -> Result<(), OptionError> {
        for (what, max) in [
            ("a limit of handshakes", self.handshakes),
            ("a limit of handshakes per peer", self.handshakes_per_peer),
            ("a limit of streams", self.streams),
            ("a limit of streams per peer", self.streams_per_peer),
            ("a limit of TLS handshakes in a second", self.tls_rate as usize),
            ("a limit of TLS handshakes in a second per peer", self.tls_rate_per_peer as usize),
        ] {
            bounded(what, max as u64, 1, u64::MAX)?;
        }
        bounded("a limit of memory in bytes", self.memory, 1, u64::MAX)?;
        bounded("a limit of memory per peer in bytes", self.memory_per_peer, 1, u64::MAX)
    }
}
