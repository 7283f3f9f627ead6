//! How long reads take, and how many bytes come in a second of reading.

use std::time::{Duration, Instant};

/// Measures whole reads, of which several run at a time.
#[derive(Debug, Clone, Default)]
pub(super) struct RateMeter {
    running: usize,
    /// The time until which the busy time is counted.
    counted_to: Option<Instant>,
    /// The bytes and the busy time of the last seconds.
    bytes: u64,
    busy: Duration,
    latency: Option<Duration>,
    reads: u64,
    all_bytes: u64,
}

impl RateMeter {
    /// Takes the beginning of a read.
    pub(super) fn began(&mut self, now: Instant) {
        self.count(now);
        self.running += 1;
    }

    /// Takes the end of a read that brought so many bytes; `None`, if it failed.
    pub(super) fn ended(&mut self, now: Instant, began: Instant, bytes: Option<u64>) {
        self.count(now);
        self.running = self.running.checked_sub(1).expect("a read that ends has begun");
        let Some(bytes) = bytes else { return };
        let took = now.saturating_duration_since(began);
        self.latency = Some(self.latency.map_or(took, |before| (before * 7 + took) / 8));
        self.reads += 1;
        self.all_bytes = self.all_bytes.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.busy > WINDOW {
            (self.bytes, self.busy) = (self.bytes / 2, self.busy / 2);
        }
    }

    /// The smoothed time of a read from its beginning to its end.
    pub(super) fn latency(&self) -> Option<Duration> {
        self.latency
    }

    /// The bytes that come in a second while at least one read runs.
    pub(super) fn bytes_per_second(&self) -> Option<u64> {
        let per_second = u128::from(self.bytes) * 1_000_000_000;
        per_second.checked_div(self.busy.as_nanos()).map(|rate| rate.try_into().unwrap_or(u64::MAX))
    }

    /// The number of reads, and their bytes.
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.reads, self.all_bytes)
    }

    fn count(&mut self, now: Instant) {
        if let Some(before) = self.counted_to.replace(now)
            && self.running > 0
        {
            self.busy = self.busy.saturating_add(now.saturating_duration_since(before));
        }
    }
}

/// Twice the time over which rates are averaged. Folklore: disks and page caches change within
/// seconds.
const WINDOW: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn idle_time_is_no_part_of_the_rate() {
        let start = Instant::now();
        let mut meter = RateMeter::default();
        assert_eq!((meter.bytes_per_second(), meter.latency()), (None, None));
        for round in 0..10 {
            // Two reads of 10 ms, 5 ms apart, and then nothing for a second.
            let at = start + MS * 1000 * round;
            meter.began(at);
            meter.began(at + MS * 5);
            meter.ended(at + MS * 10, at, Some(1_000_000));
            meter.ended(at + MS * 15, at + MS * 5, Some(500_000));
        }
        assert_eq!(meter.bytes_per_second(), Some(100_000_000));
        assert_eq!(meter.latency(), Some(MS * 10));
        assert_eq!(meter.totals(), (20, 15_000_000));
    }

    #[test]
    fn a_failed_read_brings_nothing() {
        let start = Instant::now();
        let mut meter = RateMeter::default();
        meter.began(start);
        meter.ended(start + MS, start, None);
        assert_eq!((meter.latency(), meter.totals()), (None, (0, 0)));
    }

    #[test]
    fn old_reads_count_less() {
        let start = Instant::now();
        let mut meter = RateMeter::default();
        let mut at = start;
        for (count, bytes) in [(1000, 1_000_000), (2000, 10_000)] {
            for _ in 0..count {
                meter.began(at);
                meter.ended(at + MS * 10, at, Some(bytes));
                at += MS * 10;
            }
        }
        assert!(meter.bytes_per_second().unwrap() < 1_200_000, "{:?}", meter.bytes_per_second());
    }
}
