//! The use of blocks that were brought ahead of time.

use std::time::{Duration, Instant};

/// Counts how many of the last 64 speculated blocks were of no use, and stops speculation for a
/// second when more than 5 % were.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Waste {
    /// A bit for each of the last blocks, 1 for one of no use. The latest is the lowest.
    unused: u64,
    stopped_until: Option<Instant>,
}

impl Waste {
    /// A record without blocks.
    pub fn new() -> Self {
        Self::default()
    }

    /// A speculated block was read.
    pub fn used(&mut self, now: Instant) {
        self.record(0, now);
    }

    /// A speculated block went, or its bringing was cancelled, before it was read.
    ///
    /// Blocks whose fate is known while speculation stands still count for nothing: they were
    /// brought before.
    pub fn unused(&mut self, now: Instant) {
        self.record(1, now);
        if self.may_speculate(now) && self.unused.count_ones() > MAX_UNUSED {
            self.unused = 0;
            self.stopped_until = Some(now + PAUSE);
        }
    }

    /// Whether blocks may be brought ahead of time.
    pub fn may_speculate(&self, now: Instant) -> bool {
        self.stopped_until.is_none_or(|until| now >= until)
    }

    /// When blocks may be brought ahead of time again, if not now.
    pub fn resumes_at(&self, now: Instant) -> Option<Instant> {
        self.stopped_until.filter(|until| now < *until)
    }

    fn record(&mut self, unused: u64, now: Instant) {
        if self.may_speculate(now) {
            self.unused = self.unused << 1 | unused;
        }
    }
}

/// 5 % of 64.
const MAX_UNUSED: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_unused_block_of_64_stops() {
        let now = Instant::now();
        let mut waste = Waste::new();
        for _ in 0..3 {
            waste.unused(now);
        }
        for _ in 0..60 {
            waste.used(now);
        }
        assert!(waste.may_speculate(now));
        waste.unused(now);
        assert!(!waste.may_speculate(now));
    }

    #[test]
    fn the_65th_last_block_is_forgotten() {
        let now = Instant::now();
        let mut waste = Waste::new();
        for _ in 0..3 {
            waste.unused(now);
        }
        for _ in 0..61 {
            waste.used(now);
        }
        waste.unused(now);
        assert!(waste.may_speculate(now));
        waste.unused(now);
        assert!(waste.may_speculate(now));
        waste.unused(now);
        assert!(waste.may_speculate(now));
        waste.unused(now);
        assert!(!waste.may_speculate(now));
    }

    #[test]
    fn speculation_stops_for_a_second() {
        let now = Instant::now();
        let mut waste = Waste::new();
        (0..4).for_each(|_| waste.unused(now));
        assert_eq!(waste.resumes_at(now), Some(now + Duration::from_secs(1)));
        let before = now + Duration::from_nanos(999_999_999);
        (0..9).for_each(|_| waste.unused(before));
        assert!(!waste.may_speculate(before));
        let after = now + Duration::from_secs(1);
        assert!(waste.may_speculate(after));
        assert_eq!(waste.resumes_at(after), None);
        (0..3).for_each(|_| waste.unused(after));
        assert!(waste.may_speculate(after));
    }
}
