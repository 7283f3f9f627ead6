//! When bytes may leave: a token bucket.

use rails_topo::Bandwidth;
use std::time::{Duration, Instant};

/// A token bucket that fills at a rate. Time is an argument.
///
/// The bucket is kept as the moment at which it is empty: sending moves that moment on by the time
/// that the bytes take on the wire, and the bucket holds the bytes of the time since then.
#[derive(Debug)]
pub struct Pacer {
    rate: Bandwidth,
    depth: Duration,
    min_bytes: u64,
    empty_at: Instant,
}

impl Pacer {
    /// A bucket that is empty now. It holds at most the bytes that the rate gives in `depth`: so
    /// much can leave at once after a pause, or after a timer that fired late. At a low rate it
    /// holds `min_bytes` bytes all the same, so that a segment fits.
    pub fn new(now: Instant, rate: Bandwidth, depth: Duration, min_bytes: u64) -> Self {
        Self { rate, depth, min_bytes, empty_at: now }
    }

    /// The rate.
    pub fn rate(&self) -> Bandwidth {
        self.rate
    }

    /// Changes the rate. Bytes that have come in already are kept, as time, and those that were
    /// taken in advance, as bytes.
    pub fn set_rate(&mut self, now: Instant, rate: Bandwidth) {
        if self.empty_at > now && rate != self.rate {
            let debt = (self.empty_at - now).as_nanos() * u128::from(self.rate.as_bits_per_second());
            let time = debt / u128::from(rate.as_bits_per_second().max(1));
            self.empty_at = now + Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX)).min(LONGEST);
        }
        self.rate = rate;
    }

    /// Changes the bytes that the bucket holds at a low rate.
    pub fn set_min_burst(&mut self, bytes: u64) {
        self.min_bytes = bytes;
    }

    /// The bytes that may leave now.
    pub fn budget(&self, now: Instant) -> u64 {
        let filled = now.saturating_duration_since(self.empty_at).min(self.depth());
        u64::try_from(filled.as_nanos() * u128::from(self.rate.as_bits_per_second()) / BITS_IN_NANOSECONDS)
            .unwrap_or(u64::MAX)
    }

    /// Takes bytes out that leave now, also more than the [budget](Self::budget): the bucket is
    /// then empty for longer.
    pub fn spend(&mut self, now: Instant, bytes: u64) {
        let earliest = now.checked_sub(self.depth()).unwrap_or(now);
        self.empty_at = self.empty_at.max(earliest) + self.time_of(bytes);
    }

    /// When the [budget](Self::budget) reaches `bytes`, or all that the bucket holds.
    pub fn ready_at(&self, bytes: u64) -> Instant {
        self.empty_at + self.time_of(bytes).min(self.depth())
    }

    /// The time in which the bucket fills.
    fn depth(&self) -> Duration {
        self.depth.max(self.time_of(self.min_bytes))
    }

    /// The time that bytes take at the rate, rounded up.
    pub fn time_of(&self, bytes: u64) -> Duration {
        let rate = u128::from(self.rate.as_bits_per_second().max(1));
        let nanoseconds = (u128::from(bytes) * BITS_IN_NANOSECONDS).div_ceil(rate);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)).min(LONGEST)
    }
}

/// Eight bits a byte, and a billion nanoseconds a second.
const BITS_IN_NANOSECONDS: u128 = 8 * 1_000_000_000;
/// Longer than any transfer, and short enough to add to an instant.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn bucket_fills_to_its_depth() {
        let begin = Instant::now();
        let mut pacer = Pacer::new(begin, Bandwidth::mbps(800), MS, 1500);
        assert_eq!(pacer.budget(begin), 0);
        assert_eq!(pacer.budget(begin + MS / 2), 50_000);
        assert_eq!(pacer.budget(begin + 7 * MS), 100_000);
        pacer.spend(begin + 7 * MS, 30_000);
        assert_eq!(pacer.budget(begin + 7 * MS), 70_000);
        pacer.spend(begin + 7 * MS, 170_000);
        assert_eq!(pacer.budget(begin + 8 * MS), 0, "it was overdrawn by a millisecond");
        assert_eq!(pacer.ready_at(50_000), begin + 8 * MS + MS / 2);
    }

    proptest! {
        #[test]
        fn never_more_than_the_rate_and_the_depth(
            mbps in 1..100_000u64, steps in proptest::collection::vec((0..3_000_000u64, 0..200_000u64), 1..50),
        ) {
            let begin = Instant::now();
            let mut pacer = Pacer::new(begin, Bandwidth::mbps(mbps), MS, 0);
            let (mut now, mut sent) = (begin, 0);
            for (pause, wanted) in steps {
                now += Duration::from_nanos(pause);
                let bytes = pacer.budget(now).min(wanted);
                pacer.spend(now, bytes);
                sent += bytes;
                let allowed = mbps as f64 / 8e3 * ((now - begin).as_nanos() as f64 + MS.as_nanos() as f64);
                prop_assert!(sent as f64 <= allowed + 1.0, "{} of {}", sent, allowed);
                let ready = pacer.ready_at(1500);
                prop_assert!(pacer.budget(ready.max(now)) >= 1500.min(pacer.budget(now + MS)), "at {:?}", ready);
            }
        }
    }
}
