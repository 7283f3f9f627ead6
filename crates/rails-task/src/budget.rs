//! A share of a CPU's time, without a clock of its own.

use crate::BudgetError;
use std::time::{Duration, Instant};

/// Decides when a thread rests, so that it uses no more than its share of a CPU's time.
#[derive(Debug)]
pub(crate) struct Budget {
    share: f64,
    /// The window's start, and the thread's CPU time then.
    start: (Instant, Duration),
}

/// A thread may use its share of this time at once.
const WINDOW: Duration = Duration::from_millis(10);

impl Budget {
    /// `share` is one that [`check_share`] accepts.
    pub(crate) fn new(share: f64, now: Instant, cpu_time: Duration) -> Self {
        Self { share, start: (now, cpu_time) }
    }

    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// The time that the thread is to rest, if any.
    pub(crate) fn rest(&mut self, now: Instant, cpu_time: Duration) -> Option<Duration> {
        let (start, used_before) = self.start;
        let (elapsed, used) = (now.saturating_duration_since(start), cpu_time.saturating_sub(used_before));
        // At this time its share amounts to the time used.
        let due = used.div_f64(self.share);
        if due < WINDOW {
            if elapsed >= WINDOW {
                self.start = (now, cpu_time);
            }
            return None;
        }
        let rest = due.saturating_sub(elapsed);
        self.start = (now + rest, cpu_time);
        Some(rest).filter(|rest| !rest.is_zero())
    }
}

/// Checks a share of a CPU's time: half of it is 0.5.
pub(crate) fn check_share(share: f64) -> Result<f64, BudgetError> {
    if (0.001..=1.0).contains(&share) { Ok(share) } else { Err(BudgetError { share }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn full_share_never_rests() {
        let now = Instant::now();
        let mut budget = Budget::new(1.0, now, Duration::ZERO);
        assert!((1..1000).all(|ms| budget.rest(now + ms * MS, ms * MS).is_none()));
    }

    #[test]
    fn used_window_is_slept_off() {
        let now = Instant::now();
        let mut budget = Budget::new(0.1, now, 5 * MS);
        assert_eq!(budget.rest(now + MS / 2, 5 * MS + MS / 2), None, "half of the window's share");
        assert_eq!(budget.rest(now + 2 * MS, 7 * MS), Some(18 * MS));
        assert_eq!(budget.rest(now + 20 * MS, 7 * MS), None);
    }

    #[test]
    fn shares_are_checked() {
        assert!([0.001, 0.5, 1.0].into_iter().all(|share| check_share(share) == Ok(share)));
        let bad = [0.0, -0.5, 0.0009, 1.01, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        assert!(bad.into_iter().all(|share| check_share(share).is_err()));
    }

    proptest! {
        /// Any thread gets at most its share, the share of one window, and one step.
        #[test]
        fn no_more_than_the_share(
            share in 0.01..1.0f64,
            steps in proptest::collection::vec((0..5_000u32, 0..5_000u32), 1..300),
        ) {
            let start = Instant::now();
            let (mut now, mut cpu_time) = (start, Duration::ZERO);
            let mut budget = Budget::new(share, now, cpu_time);
            for (used, idle) in steps {
                let used = used * Duration::from_micros(1);
                cpu_time += used;
                now += used + idle * Duration::from_micros(1);
                now += budget.rest(now, cpu_time).unwrap_or_default();
                let allowed = (now - start).mul_f64(share) + WINDOW.mul_f64(share);
                prop_assert!(cpu_time <= allowed + Duration::from_micros(1), "{cpu_time:?} of {allowed:?}");
            }
        }
    }
}
