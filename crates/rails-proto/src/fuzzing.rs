//! The crate's inner decoders, for the fuzz targets. Each takes any input, and panics if a decoder
//! panics or breaks its promises.

use crate::{
    handshake,
    pairing::LaneCandidate,
    seal::{self, Opener, Role, SealError, Seals},
    secret::Secret,
};

/// Decodes entries of the message with the list of lanes, one behind the other.
pub fn lane_entries(bytes: &[u8]) {
    handshake::fuzz_lanes(bytes);
}

/// Encodes offers as such entries.
pub fn lane_entries_of(offers: &[LaneCandidate]) -> Vec<u8> {
    handshake::fuzz_lanes_seed(offers)
}

/// The seals of a lane that replaces its keys after `blocks_per_key` blocks; see [`Seals::derive`].
pub fn seals(secret: &Secret, transcript: &[u8; 32], ours: Role, blocks_per_key: u64) -> Seals {
    Seals::with_limit(secret, transcript, ours, blocks_per_key)
}

/// Opens one frame with its payload, if there is one.
pub fn open(opener: &mut Opener, sealed: &[u8]) -> Result<(Vec<u8>, Vec<u8>), SealError> {
    seal::open(opener, sealed)
}
