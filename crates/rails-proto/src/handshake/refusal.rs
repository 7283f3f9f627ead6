//! The reasons for which a responder refuses a lane.

use super::Mode;

/// The reason why a lane may not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The responder speaks another version.
    #[error("it speaks another version of the protocol")]
    Version,
    /// The responder keeps its streams in this mode, and the hello has another.
    #[error("it keeps its streams in mode {0}")]
    Mode(Mode),
    /// The proof is wrong: the secrets differ.
    #[error("the join secret is wrong")]
    Secret,
    /// There is no such stream to join, or the proof does not belong to the stream.
    #[error("there is no such stream to join")]
    UnknownStream,
    /// A stream of that name is open already.
    #[error("a stream of that name is open already")]
    StreamExists,
    /// The responder has reached a limit, and will stay at it for long.
    #[error("it has {0}")]
    Full(Limit),
    /// The responder has reached a limit for a short time: the initiator tries again.
    #[error("it is busy: it has {0}")]
    Busy(Limit),
    /// A message came out of turn.
    #[error("a message of the handshake came out of turn")]
    Disorder,
    /// The TLS handshake failed.
    #[error("the TLS handshake failed")]
    Tls,
}

/// A limit of the responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    /// Handshakes of all peers together: `Limits::handshakes`.
    #[error("as many handshakes under way as it takes (Limits::handshakes)")]
    Handshakes,
    /// Handshakes of the initiator's address: `Limits::handshakes_per_peer`.
    #[error("as many handshakes of this peer under way as it takes (Limits::handshakes_per_peer)")]
    PeerHandshakes,
    /// Streams that its application has not accepted yet.
    #[error("as many streams that wait to be accepted as it takes")]
    Waiting,
    /// Streams of all peers together: `Limits::streams`.
    #[error("as many streams as it takes (Limits::streams)")]
    Streams,
    /// Streams of the initiator's address: `Limits::streams_per_peer`.
    #[error("as many streams of this peer as it takes (Limits::streams_per_peer)")]
    PeerStreams,
    /// Memory promised to the streams of all peers together: `Limits::memory`.
    #[error("as much memory promised to streams as it takes (Limits::memory)")]
    Memory,
    /// Memory promised to the streams of the initiator's address: `Limits::memory_per_peer`.
    #[error("as much memory promised to the streams of this peer as it takes (Limits::memory_per_peer)")]
    PeerMemory,
    /// TLS handshakes in a second, of all strangers or of all others: `Limits::tls_rate`.
    #[error("as many TLS handshakes in a second as it takes (Limits::tls_rate)")]
    TlsRate,
    /// TLS handshakes of the initiator's address in a second: `Limits::tls_rate_per_peer`.
    #[error("as many TLS handshakes of this peer in a second as it takes (Limits::tls_rate_per_peer)")]
    PeerTlsRate,
}

impl Refusal {
    const ALL: [Self; 20] = [
        Self::Version,
        Self::Mode(Mode::Insecure),
        Self::Secret,
        Self::UnknownStream,
        Self::StreamExists,
        Self::Full(Limit::Streams),
        Self::Disorder,
        Self::Tls,
        Self::Full(Limit::PeerStreams),
        Self::Full(Limit::PeerMemory),
        Self::Busy(Limit::Streams),
        Self::Busy(Limit::PeerStreams),
        Self::Busy(Limit::PeerMemory),
        Self::Busy(Limit::Handshakes),
        Self::Busy(Limit::PeerHandshakes),
        Self::Busy(Limit::Waiting),
        Self::Full(Limit::Memory),
        Self::Busy(Limit::Memory),
        Self::Busy(Limit::TlsRate),
        Self::Busy(Limit::PeerTlsRate),
    ];

    /// The mode that the refusal has on the wire, and its number, from 1.
    pub(super) fn code(self) -> (Mode, u8) {
        let (mode, known) = match self {
            Self::Mode(mode) => (mode, Self::Mode(Mode::Insecure)),
            refusal => (Mode::Insecure, refusal),
        };
        (mode, Self::ALL.iter().position(|refusal| *refusal == known).map_or(0, |index| index as u8 + 1))
    }

    /// The refusal with this mode and this number on the wire.
    pub(super) fn from_code(mode: Mode, code: u8) -> Option<Self> {
        match *Self::ALL.get(usize::from(code.checked_sub(1)?))? {
            Self::Mode(_) => Some(Self::Mode(mode)),
            refusal => (mode == Mode::Insecure).then_some(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::HandshakeMessage;

    #[test]
    fn every_refusal_survives_the_wire() {
        for refusal in Refusal::ALL.into_iter().chain(Mode::ALL.map(Refusal::Mode)) {
            let bytes = HandshakeMessage::Refused(refusal).encode();
            assert_eq!(
                HandshakeMessage::decode(bytes[..].first_chunk().unwrap(), &[]),
                Ok(HandshakeMessage::Refused(refusal))
            );
        }
    }
}
