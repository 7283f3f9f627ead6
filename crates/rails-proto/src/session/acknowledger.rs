//! The acknowledgements that this end sends on a lane.

use crate::{parameters::ACK_TIMER, wire::Ack};
use std::time::Instant;

/// The chunks that have arrived on a lane, and how far this end has acknowledged them.
#[derive(Debug)]
pub(super) struct Acknowledger {
    /// Chunks that have arrived whole.
    chunks: u64,
    /// When the last of them arrived.
    arrived_at: Option<Instant>,
    /// The last acknowledgement that this end sent on the lane.
    sent: Ack,
    /// Bytes that have arrived since then.
    unacknowledged: u64,
    /// When the first of them arrived.
    since: Option<Instant>,
}

/// The state of the receiving side that each acknowledgement carries.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceiveState {
    /// The stream offset that the peer must not pass yet.
    pub(super) limit: u64,
    /// Whether every byte up to the end of the stream has arrived, and this end took them all.
    pub(super) complete: bool,
    /// The size of the window.
    pub(super) window: u64,
}

impl Acknowledger {
    /// Begins with a lane that has joined. The peer knows `window` as its first limit.
    pub(super) fn new(window: u64) -> Self {
        let sent = Ack { chunks: 0, limit: window, complete: false };
        Self { chunks: 0, arrived_at: None, sent, unacknowledged: 0, since: None }
    }

    /// A chunk of `length` bytes has arrived whole. Returns whether an acknowledgement is due now.
    pub(super) fn arrived(&mut self, now: Instant, length: u32, window: u64) -> bool {
        self.chunks += 1;
        self.arrived_at = Some(now);
        self.unacknowledged += u64::from(length);
        // On a busy machine the timer of an idle lane may be late.
        let is_due = self.is_due(now, window);
        self.since.get_or_insert(now);
        is_due
    }

    /// When the last chunk arrived.
    pub(super) fn arrived_at(&self) -> Option<Instant> {
        self.arrived_at
    }

    /// When the chunks that have arrived are to be acknowledged at the latest.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.since.map(|since| since + ACK_TIMER)
    }

    /// Whether chunks have arrived that this end has not acknowledged.
    pub(super) fn has_unacknowledged(&self) -> bool {
        self.chunks > self.sent.chunks
    }

    /// Whether this end has told the peer on the lane that everything has arrived.
    pub(super) fn has_acknowledged_end(&self) -> bool {
        self.sent.complete
    }

    /// Whether `limit` has moved so far since the last acknowledgement that the peer needs a new
    /// one.
    pub(super) fn needs_limit_update(&self, limit: u64, window: u64) -> bool {
        limit - self.sent.limit >= part(window, LIMITS_PER_WINDOW)
    }

    /// The limit has moved to `limit` by less than a new acknowledgement is worth. If the peer has
    /// sent all that the last one lets it send, of which `arrived` bytes have arrived, the peer may
    /// wait for the limit, and nothing else may ever move it: an acknowledgement will be due as if
    /// a chunk had arrived now. Returns whether that is news.
    pub(super) fn owe_limit(&mut self, now: Instant, limit: u64, arrived: u64) -> bool {
        let owes = self.since.is_none() && limit > self.sent.limit && arrived >= self.sent.limit;
        if owes {
            self.since = Some(now);
        }
        owes
    }

    /// Makes an acknowledgement if one is due, or if a chunk goes out anyway and the
    /// acknowledgement says something new.
    pub(super) fn acknowledge(&mut self, now: Instant, state: ReceiveState, has_chunk: bool) -> Option<Ack> {
        let ReceiveState { limit, complete, window } = state;
        let is_news = self.chunks > self.sent.chunks;
        let is_due = complete && (is_news || !self.sent.complete)
            || self.is_due(now, window)
            || self.needs_limit_update(limit, window) && !complete;
        if !(is_due || has_chunk && is_news) {
            return None;
        }
        self.sent = Ack { chunks: self.chunks, limit, complete };
        (self.unacknowledged, self.since) = (0, None);
        Some(self.sent)
    }

    /// Whether the chunks that have arrived are to be acknowledged now, with a receive window of
    /// `window` bytes.
    fn is_due(&self, now: Instant, window: u64) -> bool {
        self.unacknowledged >= part(window, ACKS_PER_WINDOW) || self.due_at().is_some_and(|at| now >= at)
    }
}

/// An empty acknowledger, of a lane that is not up.
impl Default for Acknowledger {
    fn default() -> Self {
        Self::new(0)
    }
}

/// One of `parts` parts of the window, at least a byte: otherwise an end with a small window would
/// send acknowledgements without end.
fn part(window: u64, parts: u64) -> u64 {
    (window / parts).max(1)
}

/// A lane acknowledges at the latest after this part of the window.
const ACKS_PER_WINDOW: u64 = 8;
/// A lane tells the peer a new limit when the limit has moved by this part of the window.
const LIMITS_PER_WINDOW: u64 = 4;
