//! Why a stream has failed.

use crate::{violation::Violation, wire::ResetReason};
use std::io;

/// The reason why a stream has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The peer reset the stream.
    #[error("{0}")]
    Reset(ResetReason),
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(Violation),
    /// The last lane was lost.
    #[error(
        "the last lane was lost with {unacknowledged} bytes sent and not acknowledged, {delivered} bytes received in \
         order{}",
        if self.suggests_large_packets_lost() {
            format!(
                "; {joined_in_vain} lanes joined meanwhile, and nothing was acknowledged on them: the path probably \
                 carries small packets and swallows large ones, which `sysctl net.ipv4.tcp_mtu_probing=1` at both ends \
                 or a smaller TCP segment avoids"
            )
        } else {
            String::new()
        }
    )]
    LanesLost {
        /// Bytes in flight. Whether they arrived is unknown.
        unacknowledged: u64,
        /// Bytes from the peer that arrived in order. The application can still read those that it
        /// has not read.
        delivered: u64,
        /// The number of lanes that joined after the last usable one was lost, and on which the
        /// peer acknowledged nothing.
        joined_in_vain: u32,
    },
    /// The peer has dropped the stream, or its receiving half, and reads no more. The application
    /// can still read the peer's bytes.
    #[error("the peer dropped the stream and has not read {unread} of the bytes that were written")]
    Stopped {
        /// The number of written bytes that the peer has not read.
        unread: u64,
    },
    /// This end gave the stream up.
    #[error("this end gave the stream up")]
    Dropped,
    /// Every runtime that drives the stream at this end has stopped.
    #[error("the runtimes that drive the stream have stopped")]
    RuntimeStopped,
}

impl Failure {
    /// Whether the path probably carries small packets and swallows large ones (a wrong MTU, and no
    /// ICMP that says so): handshakes passed again and again, and more than one packet of bytes
    /// did not.
    pub fn suggests_large_packets_lost(&self) -> bool {
        // Every path of IPv6 carries packets of 1,280 bytes (RFC 8200, section 5).
        matches!(self, Self::LanesLost { unacknowledged: 1281.., joined_in_vain: 2.., .. })
    }

    /// The kind of error that a TCP connection returns in the same case.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Reset(_) | Self::LanesLost { .. } => io::ErrorKind::ConnectionReset,
            Self::Violation(_) => io::ErrorKind::InvalidData,
            Self::Stopped { .. } | Self::Dropped | Self::RuntimeStopped => io::ErrorKind::BrokenPipe,
        }
    }

    /// The reason that this end gives its peer for the end of the stream; `None` if the peer knows
    /// it.
    pub(super) fn reset_reason(&self) -> Option<ResetReason> {
        match self {
            // If the lanes have stalled, the peer gets the reset when they make progress again.
            Self::Dropped | Self::RuntimeStopped | Self::LanesLost { .. } => Some(ResetReason::Dropped),
            Self::Violation(Violation::Form { .. }) => Some(ResetReason::Mismatch),
            Self::Violation(_) => Some(ResetReason::Violation),
            Self::Reset(_) | Self::Stopped { .. } => None,
        }
    }
}
