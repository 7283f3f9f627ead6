//! How a lane joins a stream, and how both ends authenticate each other.
//!
//! ```text
//! initiator                                   responder
//!    | -- Hello(mode, stream, lane, nonce_i) ---> |
//!    | <-- Challenge(nonce_r) ------------------- |
//!    | <-- Tls, Tls, ... -----------------------> |   in mode TLS, on the lane that opens the stream
//!    | -- Proof = HMAC(key, "initiator" ...) ---> |   checked before anything is promised
//!    | <-- Accepted = HMAC(key, "responder" ...)- |   checked before any byte of the stream counts
//!    | -- Confirmed = HMAC(key, "confirmed" ..)-> |   on the lane that opens the stream, if the initiator takes the stream
//! ```
//! The key is the pre-shared secret, or the secret that the TLS session of the opening lane exports
//! (RFC 8446, section 7.5). A responder that knows the secrets of several peers tries each on the
//! proof of the opening lane. The other lanes of the stream join with the secret that opened it, at
//! the cost of an HMAC: bound to the same certificate, or the same peer.
//!
//! Both proofs cover the whole `Hello` and `Challenge`, so that no attacker can change a field, a
//! nonce, the version or the mode on the way. The role's name in each proof prevents reflection;
//! fresh nonces of both sides prevent replay. The responder proves itself last, so that an
//! initiator without the secret gets no proof from which to guess it. HMAC-SHA-256: RFC 2104, FIPS
//! 180-4.
//!
//! On the lane that opens a stream the initiator may send `Confirmed` and its first frames right
//! behind the proof ([`Initiator::into_early`]), if an impostor could not read them.
//!
//! TLS is rustls's. It has no I/O either, but it draws its own random numbers, and asks the system
//! for the time when it checks a certificate's dates. Everywhere else in these state machines, the
//! caller passes both as arguments.

mod credentials;
mod initiator;
mod lanes;
mod message;
mod mode;
mod refusal;
mod responder;
pub mod tls;
mod transcript;

pub use credentials::Credentials;
pub use initiator::{Acceptance, EarlyLane, Initiator, InitiatorStep, Joined};
pub use lanes::LanesError;
#[cfg(feature = "fuzzing")]
pub(crate) use lanes::{fuzz as fuzz_lanes, fuzz_seed as fuzz_lanes_seed};
pub use message::{
    Challenge, HandshakeMessage, Hello, LONGEST_MESSAGE, LONGEST_PLAIN, LONGEST_TLS, Nonce, PREFIX_LEN, Purpose,
    StreamId, Tag, VERSION,
};
pub use mode::Mode;
pub use refusal::{Limit, Refusal};
pub use responder::{Proved, Responder, ResponderStep};

/// An error in the handshake of a lane.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer does not speak this protocol at all.
    #[error("the peer does not speak the rails protocol: it said \"{}\"", .said.escape_ascii())]
    NotRails {
        /// The first bytes of the peer: [`PREFIX_LEN`], and further ones if they were there, at
        /// most [`HandshakeError::MAX_SAID`].
        said: Vec<u8>,
    },
    /// The peer speaks another version.
    #[error("the peer speaks version {theirs} of the protocol, this end version {VERSION}")]
    Version {
        /// The peer's version.
        theirs: u8,
    },
    /// A field has a value that this version does not know.
    #[error("unknown {field} {value} in a message of the handshake")]
    Field {
        /// The field.
        field: &'static str,
        /// The field's value.
        value: u64,
    },
    /// A message came out of turn.
    #[error("a message of the handshake came out of turn")]
    Disorder,
    /// The peer's proof is wrong.
    #[error("the peer does not know the join secret")]
    Secret,
    /// A lane asked to join a stream that does not exist, or whose secret it does not know.
    #[error("there is no such stream to join, or the proof does not belong to it")]
    NoSuchStream,
    /// The two ends use different modes.
    #[error("the security of the two ends differs: this end has `{ours}`, the peer `{theirs}`")]
    Mode {
        /// This end's mode.
        ours: Mode,
        /// The peer's mode.
        theirs: Mode,
    },
    /// TLS failed: a certificate, a signature, an alert of the peer.
    #[error("the TLS handshake failed")]
    Tls(#[source] Box<tls::Error>),
    /// The peer's TLS flights are longer than this end takes.
    #[error("the TLS handshake of the peer is too long")]
    TlsTooLong,
    /// The mode encrypts, and this build has not the feature `encryption`.
    #[error("streams in mode {mode} are encrypted, and this build of rails-proto has not its feature `encryption`")]
    NoEncryption {
        /// The mode of both ends.
        mode: Mode,
    },
    /// The peer's list of lanes is invalid.
    #[error("the peer's list of lanes is invalid: {0}")]
    Lanes(LanesError),
    /// The peer refused the lane.
    #[error("the peer refused the lane: {0}")]
    Refused(Refusal),
}

impl HandshakeError {
    /// The most bytes of a peer of another protocol that an error quotes.
    pub const MAX_SAID: usize = 64;

    /// Whether another attempt would fail in the same way: the cause lies in the two ends, not in
    /// the network.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Version { .. }
            | Self::Secret
            | Self::Mode { .. }
            | Self::Tls(_)
            | Self::TlsTooLong
            | Self::NoEncryption { .. } => true,
            Self::Refused(refusal) => {
                matches!(
                    refusal,
                    Refusal::Version | Refusal::Mode(_) | Refusal::Secret | Refusal::Tls | Refusal::Full(_)
                )
            }
            // A proxy in front of the peer may answer for it once.
            Self::NotRails { .. } | Self::Field { .. } | Self::Disorder | Self::NoSuchStream | Self::Lanes(_) => false,
        }
    }

    /// The refusal that tells the peer of the error, if the peer is to learn of it.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Version { .. } => Some(Refusal::Version),
            Self::Mode { ours, .. } => Some(Refusal::Mode(*ours)),
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

/// TLS's alert, if there is one, and the refusal.
fn farewell(tls: Option<&mut tls::Session>, error: &HandshakeError) -> Vec<HandshakeMessage> {
    let alert = tls.map(tls::Session::flight).unwrap_or_default();
    alert.into_iter().chain(error.refusal().map(HandshakeMessage::Refused)).collect()
}

#[cfg(test)]
mod tests;
