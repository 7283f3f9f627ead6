//! The frames of a lane, sealed: AES-256-GCM (NIST SP 800-38D) with keys that no other lane and no other direction has.
//!
//! ```text
//! traffic key 0 = HKDF-SHA-256(salt = SHA-256(Hello, Challenge), secret, "rails 4 initiator traffic" or "... responder traffic")
//! AES key n     = HKDF-Expand(traffic key n, "rails 4 key")
//! traffic key n+1 = HKDF-Expand(traffic key n, "rails 4 next traffic")
//! ```
//! A frame is one record or two: its header with a tag behind it, so that a length is not believed before it has been
//! authenticated; then, where the header says that a payload follows, the payload with a tag of its own. The nonce counts the
//! records of a key from 0, so one that is missing, repeated, out of order, from another lane or from the other
//! direction does not open. HKDF: RFC 5869.
//!
//! AES-GCM wears out: RFC 8446, section 5.5, allows 2^24.5 records of 2^10 blocks under one key. Here a key is replaced before
//! it has sealed more than 2^30 blocks, and both ends count alike, so nothing need be said about it.
//!
//! All of it takes the feature `encryption`. Without it there is no [`Sealer`] and no [`Opener`], and no lane joins in a
//! mode that encrypts.

#[cfg(not(feature = "encryption"))]
mod absent;
#[cfg(feature = "encryption")]
mod aes_gcm;

#[cfg(not(feature = "encryption"))]
pub(crate) use absent::of_lane;
#[cfg(not(feature = "encryption"))]
pub use absent::{Opener, Sealer};
#[cfg(feature = "encryption")]
pub(crate) use aes_gcm::of_lane;
#[cfg(feature = "fuzzing")]
pub(crate) use aes_gcm::open;
#[cfg(feature = "encryption")]
pub use aes_gcm::{BLOCKS_PER_KEY, Opener, Sealer};

use crate::wire::FRAME_LEN;

/// Bytes of the tag behind each record.
pub const TAG_LEN: usize = 16;

/// Bytes of a sealed frame without its payload.
pub const SEALED_FRAME_LEN: usize = FRAME_LEN + TAG_LEN;

/// Whose frames they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Those of the end that brought the lane.
    Initiator,
    /// Those of the end that took it in.
    Responder,
}

/// A record that does not open: it was changed, or it is not the one that comes next on this lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record does not open: it was changed on the way, or does not belong there")]
pub struct SealError;

/// Both directions of one lane, as one end has them.
#[derive(Debug)]
pub struct Seals {
    /// For what this end sends.
    pub sealer: Sealer,
    /// For what the peer sends.
    pub opener: Opener,
}
