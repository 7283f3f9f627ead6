//! What peers may have of a listener.

use super::{OptionError, bounded};

/// What peers may have of a [`MultiRailListener`](crate::MultiRailListener), all of them together and each by itself.
///
/// A peer is an IP address: that of the lane that opened a stream, for streams and memory, and each lane's own for handshakes. A peer
/// with many addresses counts as many, which is what the limits for all are for. What is beyond a limit is refused with the limit's name; what
/// is there goes on. Handshakes end soon, so those beyond their limit wait: for all peers together in the socket's backlog, and for one peer by
/// being told to try again, which [`MultiRailStream::connect`](crate::MultiRailStream::connect) does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub(crate) handshakes: usize,
    pub(crate) handshakes_per_peer: usize,
    pub(crate) streams: usize,
    pub(crate) streams_per_peer: usize,
    pub(crate) memory_per_peer: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 256,
            handshakes_per_peer: 64,
            streams: 1024,
            streams_per_peer: 256,
            memory_per_peer: 4 << 30,
        }
    }
}

impl Limits {
    /// How many connections may be in their handshake. Default: 256. Each costs a socket and its task, and no longer than
    /// [`StreamOptions::handshake_timeout`](crate::StreamOptions::handshake_timeout): before a stranger has proved anything, less than a kilobyte is kept of what it
    /// sends, or, where streams are opened by TLS, what rustls keeps of at most 64 KiB.
    ///
    /// While there are as many, nothing more is accepted: connections wait in the backlog of the socket
    /// ([`TcpTransport::backlog`](rails_net::TcpTransport::backlog)).
    #[must_use]
    pub fn handshakes(self, most: usize) -> Self {
        Self { handshakes: most, ..self }
    }

    /// How many of one peer may be. Default: 64, which is as many lanes as a stream may have.
    #[must_use]
    pub fn handshakes_per_peer(self, most: usize) -> Self {
        Self { handshakes_per_peer: most, ..self }
    }

    /// How many streams may be open. Default: 1,024.
    #[must_use]
    pub fn streams(self, most: usize) -> Self {
        Self { streams: most, ..self }
    }

    /// How many streams of one peer may be open. Default: 256.
    #[must_use]
    pub fn streams_per_peer(self, most: usize) -> Self {
        Self { streams_per_peer: most, ..self }
    }

    /// How many bytes may be promised to the streams of one peer: the sum of their windows, which is what a peer can have
    /// this end keep that nobody reads. Default: 4 GiB, which is 256 streams with the default window.
    #[must_use]
    pub fn memory_per_peer(self, bytes: u64) -> Self {
        Self { memory_per_peer: bytes, ..self }
    }

    /// A limit of none would let nobody in, or wait for ever.
    pub(super) fn validate(self) -> Result<(), OptionError> {
        for (what, most) in [
            ("a limit of handshakes", self.handshakes),
            ("a limit of handshakes per peer", self.handshakes_per_peer),
            ("a limit of streams", self.streams),
            ("a limit of streams per peer", self.streams_per_peer),
        ] {
            bounded(what, most as u64, 1, u64::MAX)?;
        }
        bounded("a limit of memory per peer in bytes", self.memory_per_peer, 1, u64::MAX)
    }
}
