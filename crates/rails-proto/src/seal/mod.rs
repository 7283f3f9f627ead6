//! Sealed frames of a lane: AES-256-GCM (NIST SP 800-38D) with keys that no other lane and no other
//! direction has.
//!
//! ```text
//! traffic key 0 = HKDF-SHA-256(salt = SHA-256(Hello, Challenge), secret, "rails 5 initiator traffic" or "... responder traffic")
//! AES key n     = HKDF-Expand(traffic key n, "rails 5 key")
//! traffic key n+1 = HKDF-Expand(traffic key n, "rails 5 next traffic")
//! ```
//! A frame is one record or two. The first is its header with a tag behind it, so that the receiver
//! authenticates a length before it uses the length. If the header says that a payload follows, the
//! second is the payload with a tag of its own. The nonce counts the records of a key from 0, so a
//! record that is repeated, out of order, behind a missing one, from another lane or from the other
//! direction does not open. HKDF: RFC 5869.
//!
//! An AES-GCM key has a limited life: RFC 8446, section 5.5, allows 2^24.5 records of 2^10 blocks
//! under one key. Both ends replace a key before it has sealed more than 2^30 blocks. They count in
//! the same way, so they need no message for it.
//!
//! # Packets
//! A transport of datagrams needs records that open in any order. [`PacketSeals`] have keys of
//! their own, with "celeritas 1 initiator segments" and so on in place of "rails 5 initiator
//! traffic". A packet's number, which it carries, is its nonce, and tells its key: a key seals 2^20
//! packets. The tag covers the packet's header too.
//!
//! All of this needs the feature `encryption`. Without it there is no [`Sealer`] and no [`Opener`],
//! and no lane joins in a mode that encrypts.

#[cfg(not(feature = "encryption"))]
mod absent;
#[cfg(feature = "encryption")]
mod aes_gcm;
#[cfg(feature = "encryption")]
mod packets;

use crate::wire::FRAME_LEN;
#[cfg(not(feature = "encryption"))]
pub use absent::{Opener, PacketOpener, PacketSealer, PacketSeals, Sealer};
#[cfg(not(feature = "encryption"))]
pub(crate) use absent::{of_lane, of_packets};
#[cfg(feature = "encryption")]
pub(crate) use aes_gcm::of_lane;
#[cfg(feature = "fuzzing")]
pub(crate) use aes_gcm::open;
#[cfg(feature = "encryption")]
pub use aes_gcm::{BLOCKS_PER_KEY, Opener, Sealer};
#[cfg(feature = "encryption")]
pub(crate) use packets::of_packets;
#[cfg(feature = "encryption")]
pub use packets::{PACKETS_PER_KEY, PacketOpener, PacketSealer, PacketSeals};

/// Whether this build can seal: it has the feature `encryption`.
pub const IS_AVAILABLE: bool = cfg!(feature = "encryption");

/// Bytes of the tag behind each record.
pub const TAG_LEN: usize = 16;

/// Bytes of a sealed frame without its payload.
pub const SEALED_FRAME_LEN: usize = FRAME_LEN + TAG_LEN;

/// The role of an end in a lane's handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The end that opened the lane.
    Initiator,
    /// The end that accepted the lane.
    Responder,
}

/// The purpose of sealed packets: each has its own keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketRole {
    /// Segments of data.
    Segments,
    /// Frames of a control channel.
    Control,
}

impl PacketRole {
    #[cfg(feature = "encryption")]
    pub(crate) fn label(self, role: Role) -> &'static [u8] {
        match (self, role) {
            (Self::Segments, Role::Initiator) => b"celeritas 1 initiator segments",
            (Self::Segments, Role::Responder) => b"celeritas 1 responder segments",
            (Self::Control, Role::Initiator) => b"celeritas 1 initiator control",
            (Self::Control, Role::Responder) => b"celeritas 1 responder control",
        }
    }
}

/// A record that does not open: it was changed, or it is not the next record of this lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record does not open: it was changed on the way, or does not belong there")]
pub struct SealError;

/// The seals of both directions of one lane, at one end.
#[derive(Debug)]
pub struct Seals {
    /// Seals the frames that this end sends.
    pub sealer: Sealer,
    /// Opens the frames that the peer sends.
    pub opener: Opener,
}
