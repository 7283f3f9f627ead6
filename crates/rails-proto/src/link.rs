//! A transport's figures of the link under a lane.

use std::time::Duration;

/// The round trips of a lane's link, as its transport measures them: the kernel sees
/// acknowledgements long before the peer acknowledges a whole chunk. `None` is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkSample {
    /// The smoothed round trip.
    pub rtt: Option<Duration>,
    /// The round trip's mean deviation.
    pub rtt_variation: Option<Duration>,
    /// The least recent round trip: one that met no queue, and did not wait for the peer's hardware
    /// address.
    pub min_rtt: Option<Duration>,
}
