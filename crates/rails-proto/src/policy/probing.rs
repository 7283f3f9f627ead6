//! How a lane is tried that is given nothing: estimates of it grow old, and a copy of a little renews them.

use super::adaptive::FIRST_CHUNK;
use std::time::Duration;

/// How many bytes may be copied now, of a stream that has sent `sent` bytes and has copied `probed` of them before: less than a part of it
/// goes into trying lanes.
pub(crate) fn probe_allowance(sent: u64, probed: u64) -> usize {
    let allowed = (sent / PROBED_PART).saturating_sub(probed);
    PROBE_LENGTH.min(usize::try_from(allowed).unwrap_or(PROBE_LENGTH))
}

/// How long after its last try a lane is tried again, which was tried so often since it was last used.
pub(crate) fn probe_interval(tries: u32) -> Duration {
    (FIRST_TRY * (1 << tries.min(4))).min(LONGEST_PAUSE)
}

/// How many bytes a probe has at most.
const PROBE_LENGTH: usize = FIRST_CHUNK;
/// One in so many bytes.
const PROBED_PART: u64 = 100;
/// A lane that is given nothing is tried after this, and then after ever longer. A link that is back is so in use again well within two
/// seconds, and a lane that gives nothing costs 16 KiB a second.
const FIRST_TRY: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
