//! The counts of connections that share their labels.

use crate::{door::DoorKind, status::ConnectionCounts};
use std::sync::atomic::{AtomicU64, Ordering};

/// The connections of one door, peer and destination.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    opened: AtomicU64,
    ended: AtomicU64,
    reset: AtomicU64,
    refused: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Both directions came to their end.
    Finished,
    /// The program or service of this host reset it.
    ResetHere,
    /// The other host did, or the session was lost.
    ResetThere,
}

impl Traffic {
    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, end: End) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if end != End::Finished {
            self.reset.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The counts, under these labels.
    pub(crate) fn counts(&self, door: Option<DoorKind>, peer: String, destination: String) -> ConnectionCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        // Ended before opened: a connection that ends meanwhile is not counted below zero.
        let (ended, opened) = (of(&self.ended), of(&self.opened));
        ConnectionCounts {
            door,
            peer,
            destination,
            opened,
            active: opened.saturating_sub(ended),
            reset: of(&self.reset),
            refused: of(&self.refused),
            sent_bytes: of(&self.sent),
            received_bytes: of(&self.received),
        }
    }
}
