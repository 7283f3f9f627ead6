//! Probes of a lane that gets nothing: its estimates grow old, and a copy of a few bytes renews
//! them.

use super::adaptive::FIRST_CHUNK;
use std::time::Duration;

/// How many bytes a probe may copy now, in a stream that has sent `sent` bytes and has copied
/// `probed` of them before. Probes copy less than one byte in [`PROBED_PART`].
pub(crate) fn probe_allowance(sent: u64, probed: u64) -> usize {
    let allowed = (sent / PROBED_PART).saturating_sub(probed);
    PROBE_LENGTH.min(usize::try_from(allowed).unwrap_or(PROBE_LENGTH))
}

/// The time between a lane's last probe and the next, if the lane has had `probes` probes since it
/// was last used.
pub(crate) fn probe_interval(probes: u32) -> Duration {
    (FIRST_INTERVAL * (1 << probes.min(4))).min(LONGEST_INTERVAL)
}

/// The most bytes of a probe.
const PROBE_LENGTH: usize = FIRST_CHUNK;
/// Probes copy at most one byte in this number.
const PROBED_PART: u64 = 100;
/// The time before the first probe of a lane that gets nothing; later intervals grow. So a restored
/// link is in use again well within two seconds, and a lane of no use costs 16 KiB a second.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);
