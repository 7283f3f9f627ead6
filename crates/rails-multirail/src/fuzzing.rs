//! What is decided inside, for the fuzz targets: it takes any input, and panics where what it promises does not hold.

use crate::{LaneCandidate, Pairing, stream};
use std::net::SocketAddr;

/// What an end makes of `theirs`, which were told at `contact` to who called from `from`.
pub fn paired(ours: Vec<LaneCandidate>, theirs: Vec<LaneCandidate>, contact: SocketAddr, from: SocketAddr) -> Pairing {
    stream::fuzz_pair(ours, theirs, contact, from)
}
