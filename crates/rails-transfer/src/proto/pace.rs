//! The pace of a batch's data.

use std::{
    num::NonZeroU64,
    time::{Duration, Instant},
};

/// A token bucket that holds 100 ms worth of bytes: in any span of time no more goes than the rate
/// allows in it, and in 100 ms. A byte that takes longer than that goes alone.
#[derive(Debug)]
pub(crate) struct Pace {
    bits_per_second: NonZeroU64,
    /// When the bucket would be full again; `None` before the first byte.
    full_at: Option<Instant>,
}

impl Pace {
    /// A full bucket.
    pub(crate) fn new(bits_per_second: NonZeroU64) -> Self {
        Self { bits_per_second, full_at: None }
    }

    /// The bytes that go at once at most: half of what the bucket holds, and at least one.
    pub(crate) fn max_block(&self) -> usize {
        let bytes = u128::from(self.bits_per_second.get()) * BUCKET.as_nanos() / 2 / NANOS_OF_A_BYTE;
        usize::try_from(bytes).unwrap_or(usize::MAX).max(1)
    }

    /// Takes `bytes` out of the bucket at `now`, which may not go back, and gives how long they
    /// wait. Bytes that are taken later wait for no less.
    pub(crate) fn take(&mut self, now: Instant, bytes: usize) -> Duration {
        let nanos = (bytes as u128 * NANOS_OF_A_BYTE).div_ceil(self.bits_per_second.get().into());
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now)) + cost;
        self.full_at = Some(full_at);
        (full_at - now).saturating_sub(BUCKET.max(cost))
    }
}

/// The time in which the bucket fills.
const BUCKET: Duration = Duration::from_millis(100);
/// The nanoseconds that a byte takes at one bit a second.
const NANOS_OF_A_BYTE: u128 = 8_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pace(bits_per_second: u64) -> Pace {
        Pace::new(NonZeroU64::new(bits_per_second).unwrap())
    }

    #[test]
    fn a_burst_of_a_tenth_of_a_second_and_then_the_rate() {
        let (mut pace, now) = (pace(8_000_000), Instant::now());
        assert_eq!(pace.max_block(), 50_000);
        let waits: Vec<_> = (0..5).map(|_| pace.take(now, 50_000).as_millis()).collect();
        assert_eq!(waits, [0, 0, 50, 100, 150]);
        // Idle time fills the bucket, and no more.
        let later = now + Duration::from_secs(10);
        assert_eq!([100_000, 1000].map(|bytes| pace.take(later, bytes).as_millis()), [0, 1]);
    }

    #[test]
    fn one_byte_of_a_slow_rate_goes_alone() {
        let (mut slow, now) = (pace(1), Instant::now());
        assert_eq!(slow.max_block(), 1);
        assert_eq!([0, 8, 16].map(|after| (slow.take(now, 1).as_secs(), after)), [(0, 0), (8, 8), (16, 16)]);
        assert_eq!(pace(u64::MAX).take(now, usize::MAX).as_secs(), 0);
    }

    proptest! {
        /// The calls of several streams, each with the time since the one before, in microseconds.
        #[test]
        fn no_span_of_time_has_more_than_its_bytes(
            bits_per_second in 1000_u64..1_000_000_000,
            calls in proptest::collection::vec((0..200_000_u64, 1..=1000_u64), 1..60),
        ) {
            let (mut pace, begin) = (pace(bits_per_second), Instant::now());
            let (mut now, mut sent) = (begin, Vec::new());
            for (after, part) in calls {
                now += Duration::from_micros(after);
                let bytes = usize::try_from(pace.max_block() as u64 * part / 1000).unwrap().max(1);
                sent.push((now + pace.take(now, bytes), bytes));
            }
            prop_assert!(sent.is_sorted_by_key(|(at, _)| *at), "bytes go in the order in which they were taken");
            for first in 0..sent.len() {
                let mut total = 0;
                for (at, bytes) in &sent[first..] {
                    total += bytes;
                    let span = *at - sent[first].0 + BUCKET;
                    let allowed = span.as_secs_f64() * bits_per_second as f64 / 8.0;
                    prop_assert!(total as f64 <= allowed * 1.000_001 + 1.0, "{total} of {allowed}");
                }
            }
        }

        #[test]
        fn a_busy_sender_gets_the_whole_rate(bits_per_second in 100_000_u64..1_000_000_000) {
            let (mut pace, begin) = (pace(bits_per_second), Instant::now());
            let (mut now, mut total) = (begin, 0);
            while now - begin < Duration::from_secs(10) {
                now += pace.take(now, pace.max_block());
                total += pace.max_block();
            }
            let rate = total as f64 * 8.0 / (now - begin).as_secs_f64();
            prop_assert!((0.99..1.05).contains(&(rate / bits_per_second as f64)), "{rate}");
        }
    }
}
