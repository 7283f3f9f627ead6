//! The counters of a UDP socket.

use crate::Received;
use serde::Serialize;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Counts of a UDP socket's sending and receiving since it was opened, kept by the socket itself.
///
/// The counters are read one by one, so a concurrent call may be counted in part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UdpStats {
    // Sending.
    /// Datagrams that the kernel took.
    pub datagrams_sent: u64,
    /// Bytes of these datagrams, without headers of UDP and below.
    pub bytes_sent: u64,
    /// System calls that sent, or tried to.
    pub send_calls: u64,
    /// The largest number of datagrams that one call sent.
    pub largest_burst_sent_datagrams: u64,
    /// Bursts that the kernel refused to segment; more than one only if the socket detected a
    /// smaller limit first.
    pub segmentation_refused: u64,
    /// Sends that failed with `EMSGSIZE`.
    pub too_large: u64,

    // Receiving.
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Bytes of these datagrams, without headers of UDP and below.
    pub bytes_received: u64,
    /// System calls that received, or tried to.
    pub receive_calls: u64,
    /// The largest number of datagrams that one call received.
    pub largest_burst_received_datagrams: u64,
    /// Datagrams and trains of which the kernel cut something off
    /// ([`Received::is_truncated`](crate::Received)).
    pub truncated: u64,
    /// Datagrams that the kernel dropped for lack of room in the socket's buffer, or with a wrong
    /// checksum (`SO_RXQ_OVFL`). The count arrives with the next datagram, so drops after the last
    /// one stay unknown. A train that was coalesced before it was dropped counts as one.
    pub overflow_drops: u32,
}

/// The counters, without a lock: a socket is used from one thread most of the time.
#[derive(Debug, Default)]
pub(super) struct Counters {
    datagrams_sent: AtomicU64,
    bytes_sent: AtomicU64,
    send_calls: AtomicU64,
    largest_sent: AtomicU64,
    segmentation_refused: AtomicU64,
    too_large: AtomicU64,
    datagrams_received: AtomicU64,
    bytes_received: AtomicU64,
    receive_calls: AtomicU64,
    largest_received: AtomicU64,
    truncated: AtomicU64,
    overflow_drops: AtomicU32,
}

/// The counts of one receiving call.
#[derive(Debug, Default)]
pub(super) struct Count {
    datagrams: u64,
    bytes: u64,
    truncated: u64,
    overflow_drops: u32,
}

impl Count {
    /// Counts a datagram, or a train of them.
    pub(super) fn add(&mut self, train: &Received) {
        let datagrams = train.segment_bytes.map_or(1, |segment| train.bytes.div_ceil(segment.get().into()));
        self.datagrams += datagrams as u64;
        self.bytes += train.bytes as u64;
        self.truncated += u64::from(train.is_truncated);
        self.overflow_drops = self.overflow_drops.max(train.dropped);
    }
}

impl Counters {
    pub(super) fn sent(&self, datagrams: u64, bytes: u64) {
        self.send_calls.fetch_add(1, Relaxed);
        self.datagrams_sent.fetch_add(datagrams, Relaxed);
        self.bytes_sent.fetch_add(bytes, Relaxed);
        self.largest_sent.fetch_max(datagrams, Relaxed);
    }

    /// Counts a send that failed: whether it was too large, and whether the kernel refused to
    /// segment it.
    pub(super) fn not_sent(&self, too_large: bool, refused: bool) {
        self.send_calls.fetch_add(1, Relaxed);
        self.too_large.fetch_add(too_large.into(), Relaxed);
        self.segmentation_refused.fetch_add(refused.into(), Relaxed);
    }

    /// Counts a receiving call, successful or not.
    pub(super) fn received(&self, count: &Count) {
        self.receive_calls.fetch_add(1, Relaxed);
        if count.datagrams > 0 {
            self.datagrams_received.fetch_add(count.datagrams, Relaxed);
            self.bytes_received.fetch_add(count.bytes, Relaxed);
            self.largest_received.fetch_max(count.datagrams, Relaxed);
            self.truncated.fetch_add(count.truncated, Relaxed);
            if count.overflow_drops > 0 {
                self.overflow_drops.store(count.overflow_drops, Relaxed);
            }
        }
    }

    pub(super) fn read(&self) -> UdpStats {
        UdpStats {
            datagrams_sent: self.datagrams_sent.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            send_calls: self.send_calls.load(Relaxed),
            largest_burst_sent_datagrams: self.largest_sent.load(Relaxed),
            segmentation_refused: self.segmentation_refused.load(Relaxed),
            too_large: self.too_large.load(Relaxed),
            datagrams_received: self.datagrams_received.load(Relaxed),
            bytes_received: self.bytes_received.load(Relaxed),
            receive_calls: self.receive_calls.load(Relaxed),
            largest_burst_received_datagrams: self.largest_received.load(Relaxed),
            truncated: self.truncated.load(Relaxed),
            overflow_drops: self.overflow_drops.load(Relaxed),
        }
    }
}
