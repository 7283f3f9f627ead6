//! How far the peer lets this end send, and how many bytes this end keeps for it.

use crate::{
    mutation::{self, Mutation},
    parameters::{MAX_WINDOW, max_chunks},
};

/// The peer's window and limit, and the bound of the memory that this end keeps for the peer.
#[derive(Debug)]
pub(crate) struct SendWindow {
    /// The peer's window. The limit minus the window is how much the peer has read.
    peer: u64,
    /// How much the peer lets this end send, in all streams together.
    peer_limit: u64,
    /// How far behind the first unacknowledged byte this end may send. A range, not a sum: an
    /// acknowledged part of a buffer frees nothing while another part of it is unacknowledged.
    max_unacknowledged: u64,
    /// How much the peer has read, in all streams together.
    consumed: u64,
}

impl SendWindow {
    /// The window of a peer that has read nothing. This end keeps at most `max_unacknowledged`
    /// bytes that the peer has not acknowledged.
    pub(super) fn new(peer: u64, max_unacknowledged: u64) -> Self {
        let max_unacknowledged = max_unacknowledged.clamp(1, MAX_WINDOW);
        Self { peer, peer_limit: peer, max_unacknowledged, consumed: 0 }
    }

    /// The peer's window.
    pub(crate) fn peer(&self) -> u64 {
        self.peer
    }

    /// The most bytes that may be on their way at a time: the peer's window, or this
    /// end's bound if that is less.
    pub(crate) fn size(&self) -> u64 {
        self.peer.min(self.max_unacknowledged)
    }

    /// The most chunks that may be unacknowledged. Tiny chunks cost more memory than they have
    /// bytes, at either end. A window full of chunks of two kibibytes stays below this bound.
    pub(super) fn max_chunks(&self) -> usize {
        max_chunks(self.size())
    }

    /// How many bytes more this end may send, if it has used `used` of the peer's window so far and
    /// keeps `kept` bytes from the first unacknowledged one on.
    pub(super) fn allowance(&self, used: u64, kept: u64) -> u64 {
        let limit = if mutation::has(Mutation::SessionLimitIgnored) { u64::MAX } else { self.peer_limit };
        limit.saturating_sub(used).min(self.max_unacknowledged.saturating_sub(kept))
    }

    /// How many bytes the peer has read, as far as this end knows.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// How many bytes a peer has read that lets this end send up to `limit`.
    pub(super) fn consumed_by(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.peer)
    }

    /// The peer lets this end send up to `limit`.
    pub(super) fn extend(&mut self, limit: u64) {
        self.peer_limit = self.peer_limit.max(limit);
        self.consume(self.consumed_by(limit));
    }

    /// The peer has read `consumed` bytes in all.
    pub(super) fn consume(&mut self, consumed: u64) {
        self.consumed = self.consumed.max(consumed);
    }
}
