//! What the two ends tell each other of themselves, and what every stream is bound by.

use std::time::Duration;

/// What an end tells the other about itself when a lane joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportParameters {
    /// The longest chunk that it takes, in bytes.
    pub longest_chunk: u32,
    /// The stream offset that the peer may send up to at first, in bytes: its receive window.
    pub window: u64,
}

/// How many chunks a sender keeps until they are acknowledged, at most, for an end with that window. A receiver takes what such a sender can leave
/// unfinished, twice over, and not more: what it notes of tiny pieces is to be a small part of its window.
pub(crate) fn most_chunks(window: u64) -> usize {
    (window.min(MOST_KEPT) >> 11).max(1 << 10) as usize
}

/// The most lanes that a stream has at a time; lanes are numbered below it.
pub const MOST_LANES: usize = 64;
/// The most bytes that are kept for the peer, whatever window it claims: the largest that can be set.
pub(crate) const MOST_KEPT: u64 = 1 << 30;
/// How long an acknowledgement may wait for more to acknowledge. What it holds up is memory at the sender, not speed, so it
/// is a round trip of a fair distance; each one saved is two system calls.
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(10);
