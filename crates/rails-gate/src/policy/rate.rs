//! A limit of events a second.

use std::time::{Duration, Instant};

/// A token bucket: it holds the tokens of one second, is full at first, and fills evenly. The
/// caller states the time.
///
/// It is kept as the time at which the bucket is full again (the generic cell rate algorithm of
/// ITU-T I.371), so nothing has to be refilled.
///
/// # Examples
/// ```
/// use rails_gate::policy::Rate;
/// use std::time::{Duration, Instant};
///
/// let mut rate = Rate::new(2).expect("2 is a rate");
/// let now = Instant::now();
/// assert!(rate.take(now) && rate.take(now) && !rate.take(now));
/// assert!(rate.take(now + Duration::from_millis(500)));
/// ```
#[derive(Debug, Clone)]
pub struct Rate {
    /// The time in which one token comes.
    interval: Duration,
    /// The time in which an empty bucket has all tokens but one.
    fill: Duration,
    /// The time from which on the bucket is full; `None` before the first token was taken.
    full_at: Option<Instant>,
}

impl Rate {
    /// A full bucket of so many tokens a second; `None` for 0.
    pub fn new(per_second: u32) -> Option<Self> {
        let interval = Duration::from_secs(1).checked_div(per_second)?;
        Some(Self { interval, fill: interval * (per_second - 1), full_at: None })
    }

    /// Takes a token, if there is one. A time before that of an earlier call counts as that one.
    #[must_use]
    pub fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now));
        let has_token = full_at.duration_since(now) <= self.fill;
        if has_token {
            self.full_at = Some(full_at + self.interval);
        }
        has_token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn no_token_at_all_is_no_rate() {
        assert!(Rate::new(0).is_none());
    }

    proptest! {
        #[test]
        fn a_full_bucket_has_the_tokens_of_a_second(per_second in 1_u32..5000) {
            let (mut rate, now) = (Rate::new(per_second).unwrap(), Instant::now());
            for _ in 0..per_second {
                prop_assert!(rate.take(now));
            }
            prop_assert!(!rate.take(now));
            prop_assert!(!rate.take(now + rate.interval - Duration::from_nanos(1)));
            prop_assert!(rate.take(now + rate.interval));
            let later = now + Duration::from_secs(100);
            for _ in 0..per_second {
                prop_assert!(rate.take(later));
            }
            prop_assert!(!rate.take(later));
        }

        /// The tokens are counted as a bucket that is refilled counts them, in parts of a token.
        #[test]
        fn the_tokens_of_any_run_are_those_of_a_bucket(
            per_second in 1_u32..50,
            steps in vec(0_u64..300_000_000, 1..200),
        ) {
            let mut rate = Rate::new(per_second).unwrap();
            let token = rate.interval.as_nanos() as u64;
            let (mut now, mut bucket) = (Instant::now(), token * u64::from(per_second));
            for step in steps {
                now += Duration::from_nanos(step);
                bucket = (bucket + step).min(token * u64::from(per_second));
                let taken = rate.take(now);
                prop_assert_eq!(taken, bucket >= token);
                bucket -= if taken { token } else { 0 };
            }
        }
    }
}
