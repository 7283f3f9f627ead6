//! What is decoded inside, for the fuzz targets: each takes any input, and panics where a decoder does or where what it promises does
//! not hold.

use crate::{
    handshake,
    pairing::LaneCandidate,
    seal::{self, Opener, Role, SealError, Seals},
    secret::Secret,
};

/// Entries of the message that tells of lanes, one behind the other.
pub fn lane_entries(bytes: &[u8]) {
    handshake::fuzz_lanes(bytes);
}

/// These offers as such entries.
pub fn lane_entries_of(offers: &[LaneCandidate]) -> Vec<u8> {
    handshake::fuzz_lanes_seed(offers)
}

/// The seals of a lane whose keys are replaced after so many blocks; see [`Seals::derive`].
pub fn seals(secret: &Secret, transcript: &[u8; 32], ours: Role, blocks_per_key: u64) -> Seals {
    Seals::with_limit(secret, transcript, ours, blocks_per_key)
}

/// One frame with its payload, where there is one.
pub fn open(opener: &mut Opener, sealed: &[u8]) -> Result<(Vec<u8>, Vec<u8>), SealError> {
    seal::open(opener, sealed)
}
