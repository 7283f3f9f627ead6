//! Why a stream has failed.

use crate::{violation::Violation, wire::ResetReason};
use bytes::Bytes;
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
    /// The application of this end has closed the session.
    #[error("this end closed the session with code {code}{}", told(reason))]
    Closed {
        /// The application's code.
        code: u64,
        /// The application's reason, for people.
        reason: Bytes,
    },
    /// The peer's application has closed the session.
    #[error("the peer closed the session with code {code}{}", told(reason))]
    ClosedByPeer {
        /// The peer's code.
        code: u64,
        /// The peer's reason, for people.
        reason: Bytes,
    },
    /// The peer reads no more of a stream of a session with many.
    #[error("the peer stopped the stream with code {code}")]
    StoppedWith {
        /// The peer's code.
        code: u64,
    },
    /// The peer has reset a stream of a session with many.
    #[error("the peer reset the stream with code {code}")]
    ResetWith {
        /// The peer's code.
        code: u64,
    },
}

/// What an end says last on each lane of a session that has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Farewell {
    Reset(ResetReason),
    Close { code: u64, reason: Bytes },
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
            Self::Reset(_) | Self::ResetWith { .. } | Self::LanesLost { .. } => io::ErrorKind::ConnectionReset,
            Self::Violation(_) => io::ErrorKind::InvalidData,
            Self::Stopped { .. }
            | Self::StoppedWith { .. }
            | Self::Dropped
            | Self::RuntimeStopped
            | Self::Closed { .. } => io::ErrorKind::BrokenPipe,
            Self::ClosedByPeer { .. } => io::ErrorKind::ConnectionAborted,
        }
    }

    /// What this end tells its peer of the end of the session; `None` if the peer knows it.
    pub(super) fn farewell(&self) -> Option<Farewell> {
        let reason = match self {
            // If the lanes have stalled, the peer gets the reset when they make progress again.
            Self::Dropped | Self::RuntimeStopped | Self::LanesLost { .. } => ResetReason::Dropped,
            Self::Violation(Violation::Form { .. }) => ResetReason::Mismatch,
            Self::Violation(_) => ResetReason::Violation,
            Self::Closed { code, reason } => return Some(Farewell::Close { code: *code, reason: reason.clone() }),
            Self::Reset(_)
            | Self::Stopped { .. }
            | Self::StoppedWith { .. }
            | Self::ResetWith { .. }
            | Self::ClosedByPeer { .. } => return None,
        };
        Some(Farewell::Reset(reason))
    }
}

/// A reason behind a code.
fn told(reason: &[u8]) -> String {
    if reason.is_empty() { String::new() } else { format!(": {}", reason.escape_ascii()) }
}
