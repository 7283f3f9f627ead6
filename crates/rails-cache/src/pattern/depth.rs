//! How many bytes to bring ahead of time.

use crate::pattern::prediction::Confidence;
use std::time::{Duration, Instant};

/// Observes how fast a job consumes a dataset, and says how many bytes to bring ahead of it.
///
/// The bytes cover one fetch, and one phase of computation, in which the job reads nothing: those
/// that come next have to be there when it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Depth {
    /// The current window of time, and the one before.
    windows: [Window; 2],
    last: Option<Instant>,
}

/// The way between a job and the bytes of its dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// The round trip to the node that is asked; zero for the disks of this one.
    pub round_trip: Duration,
    /// How long the storage takes to begin an answer.
    pub storage_latency: Duration,
    /// The rate of the link, or of the storage where it is slower.
    pub bytes_per_second: u64,
}

impl Path {
    /// The bytes that the way brings in the time that an answer takes to begin: those that a reader
    /// could have had while it waited.
    pub(crate) fn bytes_of_latency(&self) -> u64 {
        let latency = self.round_trip.max(self.storage_latency);
        let bytes = u128::from(self.bytes_per_second).saturating_mul(latency.as_nanos()) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// The reads of one window of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Window {
    since: Option<Instant>,
    bytes: u64,
    /// The time between reads, in which the job computed.
    busy: Duration,
    /// The longest of these times.
    longest: Duration,
}

impl Depth {
    /// A depth that has seen no read, which is 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a read of `bytes` that ended `now`, after the job had `waited` for it.
    ///
    /// The wait is no part of the rate: a job that waits for all its bytes would otherwise seem to
    /// want them no faster than they come.
    pub fn consumed(&mut self, now: Instant, bytes: u64, waited: Duration) {
        // The first read follows no computation that was seen.
        let Some(last) = self.last.replace(now) else { return };
        let busy = now.saturating_duration_since(last).saturating_sub(waited);
        let is_over = |since: Instant| now.saturating_duration_since(since) >= WINDOW;
        if self.windows[0].since.is_none_or(is_over) {
            self.windows[1] = self.windows[0];
            self.windows[0] = Window { since: Some(now), ..Window::default() };
        }
        let window = &mut self.windows[0];
        window.bytes = window.bytes.saturating_add(bytes);
        window.busy = window.busy.saturating_add(busy);
        window.longest = window.longest.max(busy);
    }

    /// The bytes to hold or bring ahead of the job, at a memory level of 0 to 4 (Table 4 of the
    /// thesis; a higher one counts as 4).
    ///
    /// The bytes are the rate of consumption times the latency and one phase of computation, at
    /// most what the link brings in two seconds; and of that, as much as the level and the
    /// detector's confidence allow.
    pub fn bytes_ahead(&self, path: &Path, level: u8, confidence: Confidence) -> u64 {
        let link = path.bytes_per_second.saturating_mul(MAX_SECONDS_OF_LINK);
        let wanted = self.wanted(path).min(u128::from(link));
        let quarters = QUARTERS_BY_LEVEL.get(usize::from(level)).copied().unwrap_or(0);
        let allowed = wanted * u128::from(quarters) / 4;
        confidence.of(allowed.try_into().expect("a part of a number of 64 bits fits them"))
    }

    fn wanted(&self, path: &Path) -> u128 {
        let [now, before] = &self.windows;
        let bytes = u128::from(now.bytes) + u128::from(before.bytes);
        let busy = now.busy.saturating_add(before.busy).as_nanos();
        let latency = path.round_trip.max(path.storage_latency);
        let covered = latency.saturating_add(now.longest.max(before.longest)).as_nanos();
        if bytes == 0 {
            return 0;
        }
        // A job that computes nothing takes whatever comes.
        bytes.saturating_mul(covered).checked_div(busy).unwrap_or(u128::MAX)
    }
}

/// A job's phases are seen while they are at most this far apart. Folklore: programs that read rows
/// compute after each plane, which is well below a second.
const WINDOW: Duration = Duration::from_secs(4);
const MAX_SECONDS_OF_LINK: u64 = 2;
/// The part of the depth at each memory level. From level 3 on nothing is brought here, but only
/// made ready upstream.
const QUARTERS_BY_LEVEL: [u8; 5] = [4, 3, 2, 0, 0];

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn path(round_trip: u32, storage_latency: u32) -> Path {
        Path { round_trip: MS * round_trip, storage_latency: MS * storage_latency, bytes_per_second: 1_000_000_000 }
    }

    /// A job that computes for 50 ms, waits for 30 ms and takes 10 MB, again and again.
    fn job() -> (Depth, Instant) {
        let (mut depth, mut now) = (Depth::new(), Instant::now());
        for _ in 0..20 {
            now += MS * 80;
            depth.consumed(now, 10_000_000, MS * 30);
        }
        (depth, now)
    }

    #[test]
    fn the_depth_covers_latency_and_a_phase() {
        let (depth, _) = job();
        // 200 MB/s for 19 + 50 ms.
        assert_eq!(depth.bytes_ahead(&path(19, 5), 0, Confidence::FULL), 13_800_000);
        // The larger latency counts.
        assert_eq!(depth.bytes_ahead(&path(19, 30), 0, Confidence::FULL), 16_000_000);
        assert_eq!(depth.bytes_ahead(&path(0, 0), 0, Confidence::FULL), 10_000_000);
    }

    #[test]
    fn the_link_limits_the_depth_to_two_seconds() {
        let (depth, _) = job();
        let slow = |bytes_per_second| Path { bytes_per_second, ..path(19, 5) };
        assert_eq!(depth.bytes_ahead(&slow(6_900_000), 0, Confidence::FULL), 13_800_000);
        assert_eq!(depth.bytes_ahead(&slow(6_900_001), 0, Confidence::FULL), 13_800_000);
        assert_eq!(depth.bytes_ahead(&slow(6_899_999), 0, Confidence::FULL), 13_799_998);
        assert_eq!(depth.bytes_ahead(&slow(0), 0, Confidence::FULL), 0);
    }

    #[test]
    fn the_memory_level_lowers_the_depth() {
        let (depth, _) = job();
        let by_level = [0, 1, 2, 3, 4, 5].map(|level| depth.bytes_ahead(&path(19, 5), level, Confidence::FULL));
        assert_eq!(by_level, [13_800_000, 10_350_000, 6_900_000, 0, 0, 0]);
    }

    #[test]
    fn confidence_lowers_the_depth() {
        let (depth, _) = job();
        let mut confidence = Confidence::FULL;
        confidence.miss();
        confidence.miss();
        assert_eq!(depth.bytes_ahead(&path(19, 5), 1, confidence), 5_175_000);
    }

    #[test]
    fn a_job_that_never_computes_fills_the_link() {
        let (mut depth, mut now) = (Depth::new(), Instant::now());
        for _ in 0..3 {
            now += MS * 30;
            depth.consumed(now, 1000, MS * 30);
        }
        assert_eq!(depth.bytes_ahead(&path(19, 5), 0, Confidence::FULL), 2_000_000_000);
    }

    #[test]
    fn nothing_is_known_after_one_read() {
        let (mut depth, now) = (Depth::new(), Instant::now());
        assert_eq!(depth.bytes_ahead(&path(19, 5), 0, Confidence::FULL), 0);
        depth.consumed(now, 1000, MS);
        assert_eq!(depth.bytes_ahead(&path(19, 5), 0, Confidence::FULL), 0);
        depth.consumed(now + MS, 1000, Duration::ZERO);
        assert_eq!(depth.bytes_ahead(&path(1, 0), 0, Confidence::FULL), 2000);
    }

    #[test]
    fn a_burst_of_small_reads_is_covered_as_a_whole() {
        let (mut depth, mut now) = (Depth::new(), Instant::now());
        for read in 0..1000 {
            now += if read % 100 == 0 { MS * 50 } else { Duration::ZERO };
            depth.consumed(now, 1000, Duration::ZERO);
        }
        // The first read of all has no phase before it.
        let ahead = depth.bytes_ahead(&path(0, 0), 0, Confidence::FULL);
        assert!((100_000..=112_000).contains(&ahead), "{ahead}");
    }

    #[test]
    fn phases_of_long_ago_are_forgotten() {
        let (mut depth, mut now) = job();
        for _ in 0..900 {
            now += MS * 10;
            depth.consumed(now, 1_000_000, Duration::ZERO);
        }
        assert_eq!(depth.bytes_ahead(&path(0, 0), 0, Confidence::FULL), 1_000_000);
    }

    #[test]
    fn extreme_numbers_are_taken() {
        let (mut depth, now) = (Depth::new(), Instant::now());
        let path = Path { round_trip: Duration::MAX, storage_latency: Duration::MAX, bytes_per_second: u64::MAX };
        for _ in 0..3 {
            depth.consumed(now, u64::MAX, Duration::MAX);
        }
        assert_eq!(depth.bytes_ahead(&path, 0, Confidence::FULL), u64::MAX);
        depth.consumed(now + Duration::from_nanos(1), u64::MAX, Duration::ZERO);
        assert_eq!(depth.bytes_ahead(&path, 0, Confidence::FULL), u64::MAX);
    }
}
