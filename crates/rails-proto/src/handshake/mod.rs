//! How a lane joins a stream, and how both ends prove who they are.
//!
//! ```text
//! initiator                                   responder
//!    | -- Hello(mode, stream, lane, nonce_i) ---> |
//!    | <-- Challenge(nonce_r) ------------------- |
//!    | <-- Tls, Tls, ... -----------------------> |   in mode TLS, on the lane that opens the stream
//!    | -- Proof = HMAC(key, "initiator" ...) ---> |   checked before anything is promised
//!    | <-- Accepted = HMAC(key, "responder" ...)- |   checked before any byte of the stream is sent
//!    | -- Confirmed = HMAC(key, "confirmed" ..)-> |   on the lane that opens the stream, where the initiator takes it
//! ```
//! The key is the pre-shared secret, or what RFC 8446, section 7.5, exports of the TLS session that opened the stream: with that the other
//! lanes join, at the cost of an HMAC and bound to the same certificate.
//!
//! Both proofs cover the whole `Hello` and `Challenge`, so that neither a field, nor a nonce, nor the version or the mode
//! can be changed on the way; the role's name in each keeps one from being reflected as the other; fresh nonces of both
//! sides keep an old one from being replayed. The responder proves itself last, so that a stranger gets nothing to
//! guess the secret from. HMAC-SHA-256: RFC 2104, FIPS 180-4.
//!
//! TLS is rustls's, which has no I/O either, but draws its own random numbers, and asks the system for the time where it
//! looks at a certificate's dates: in mode TLS, and nowhere else in these state machines, that is no argument.

mod credentials;
mod initiator;
mod lanes;
mod message;
mod responder;
pub mod tls;
mod transcript;

pub use credentials::Credentials;
pub use initiator::{Initiator, InitiatorStep, Joined};
pub use lanes::LanesError;
#[cfg(feature = "fuzzing")]
pub(crate) use lanes::{fuzz as fuzz_lanes, fuzz_seed as fuzz_lanes_seed};
pub use message::{
    Challenge, Hello, LONGEST_MESSAGE, LONGEST_PLAIN, LONGEST_TLS, Limit, Message, Mode, Nonce, PREFIX_LEN, Purpose,
    Refusal, StreamId, Tag, VERSION,
};
pub use responder::{Proved, Responder, ResponderStep};

/// What can go wrong while a lane joins.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer does not speak this protocol at all.
    #[error("the peer does not speak the rails protocol (its first bytes are {first:02x?})")]
    NotRails {
        /// What it sent instead of the magic bytes.
        first: [u8; 4],
    },
    /// The peer speaks another version.
    #[error("the peer speaks version {theirs} of the protocol, this end version {VERSION}")]
    Version {
        /// Its version.
        theirs: u8,
    },
    /// A field holds what this version does not know.
    #[error("unknown {field} {value} in a message of the handshake")]
    Field {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A message came out of turn.
    #[error("a message of the handshake came out of turn")]
    Disorder,
    /// The peer's proof is wrong.
    #[error("the peer does not know the join secret")]
    Secret,
    /// A lane was to join a stream by TLS that is not there, or whose session it does not know.
    #[error("there is no such stream to join, or the proof does not belong to it")]
    NoSuchStream,
    /// The two ends keep their streams in different ways.
    #[error("the peer keeps its streams in another mode than this end, which is in mode {ours}")]
    Mode {
        /// This end's mode.
        ours: Mode,
    },
    /// TLS failed: a certificate, a signature, an alert of the peer.
    #[error("the TLS handshake failed")]
    Tls(#[source] Box<tls::Error>),
    /// The peer's TLS flights are longer than any that this end takes.
    #[error("the TLS handshake of the peer is too long")]
    TlsTooLong,
    /// The mode encrypts, and this build has not the feature `encryption`.
    #[error("streams in mode {mode} are encrypted, and this build of rails-proto has not its feature `encryption`")]
    NoEncryption {
        /// The mode of both ends.
        mode: Mode,
    },
    /// What it said of its lanes cannot be.
    #[error("what the peer says of its lanes cannot be: {0}")]
    Lanes(LanesError),
    /// The peer refused the lane.
    #[error("the peer refused the lane: {0}")]
    Refused(Refusal),
}

impl HandshakeError {
    /// Whether another attempt would end in the same way: it is about what the two ends are, and not about what happened on the way.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Version { .. }
            | Self::Secret
            | Self::Mode { .. }
            | Self::Tls(_)
            | Self::TlsTooLong
            | Self::NoEncryption { .. } => true,
            Self::Refused(refusal) => {
                matches!(refusal, Refusal::Version | Refusal::Mode | Refusal::Secret | Refusal::Tls | Refusal::Full(_))
            }
            Self::NotRails { .. } | Self::Field { .. } | Self::Disorder | Self::NoSuchStream | Self::Lanes(_) => false,
        }
    }

    /// What to tell the peer, where it is to be told.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Version { .. } => Some(Refusal::Version),
            Self::Mode { .. } => Some(Refusal::Mode),
            Self::Secret => Some(Refusal::Secret),
            Self::NoSuchStream => Some(Refusal::UnknownStream),
            Self::Disorder => Some(Refusal::Disorder),
            Self::Tls(_) | Self::TlsTooLong => Some(Refusal::Tls),
            Self::Refused(_)
            | Self::NotRails { .. }
            | Self::Field { .. }
            | Self::NoEncryption { .. }
            | Self::Lanes(_) => None,
        }
    }
}

/// TLS's alert, where there is one, and the refusal.
fn farewell(tls: Option<&mut tls::Session>, error: &HandshakeError) -> Vec<Message> {
    let alert = tls.map(tls::Session::flight).unwrap_or_default();
    alert.into_iter().chain(error.refusal().map(Message::Refused)).collect()
}

#[cfg(test)]
mod tests;
