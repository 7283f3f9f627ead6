//! The parameters that the two ends exchange, and the bounds of every stream.

use std::time::Duration;

/// The parameters that an end sends its peer when a lane joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportParameters {
    /// The longest chunk that the end takes, in bytes.
    pub longest_chunk: u32,
    /// The end's receive window, in bytes: how much its peer may send at first, in all streams
    /// together.
    pub window: u64,
    /// The streams of a session of many; `None` of a session that is one stream.
    pub streams: Option<StreamParameters>,
}

impl TransportParameters {
    /// The parameters of a session that is one stream.
    pub const fn one_stream(longest_chunk: u32, window: u64) -> Self {
        Self { longest_chunk, window, streams: None }
    }

    /// The streams of a session of many. A window of a stream counts for no more than that of all
    /// streams together.
    pub(crate) fn stream_parameters(&self) -> Option<StreamParameters> {
        self.streams.map(|streams| StreamParameters { window: streams.window.min(self.window), ..streams })
    }
}

/// The part of the parameters that concerns the streams of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamParameters {
    /// The window of a new stream, in bytes.
    pub window: u64,
    /// How many streams in both directions the peer may have open at a time.
    pub max_bi: u32,
    /// How many streams in one direction the peer may have open at a time.
    pub max_uni: u32,
}

/// The most chunks that a sender keeps unacknowledged, for a peer with that window. A receiver
/// takes twice as many unfinished pieces as such a sender can leave, and no more: its records of
/// tiny pieces must stay a small part of its window.
pub(crate) fn max_chunks(window: u64) -> usize {
    (window.min(MAX_WINDOW) >> 11).max(1 << 10) as usize
}

/// The most lanes that a stream has at a time; the lanes' numbers lie below it.
pub const MAX_LANES: usize = 64;
/// The largest window that can be set, and the most bytes that an end keeps unacknowledged for a
/// peer that claims a larger one.
pub(crate) const MAX_WINDOW: u64 = 1 << 30;
/// How long a machine may be silent (a laptop's lid, a live migration) before a stream or a
/// connection fails by default: about as long as Linux keeps a TCP connection without an answer,
/// which is 15.4 minutes with the default of `net.ipv4.tcp_retries2` (ip-sysctl.rst).
pub const SILENCE_LIMIT: Duration = Duration::from_secs(900);
/// How late a driver may handle a timeout: it may let the timers of many streams ring together.
pub const TIMER_SLACK: Duration = Duration::from_millis(5);
/// How long an acknowledgement waits for more chunks. The delay costs memory at the sender, not
/// speed, so it is about as long as the round trip of a fairly long path. Each acknowledgement
/// saved is two system calls saved.
pub const ACK_TIMER: Duration = Duration::from_millis(8);
/// How long the peer may delay an acknowledgement.
pub(crate) const ACK_DELAY: Duration = ACK_TIMER.saturating_add(TIMER_SLACK);
