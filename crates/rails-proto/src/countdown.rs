//! Limits of time that do not run while the process is stopped.

use std::time::{Duration, Instant};

/// Counts down the time in which this process runs.
///
/// The limit is counted in parts, each when a timer checks it. A check that comes much too late
/// means that the process was stopped meanwhile (`SIGSTOP`, a frozen cgroup, a paused guest), or
/// its thread was: then the part counts, and the time beyond it does not. So a stop takes at most a
/// part of the limit, and a thread that is late with every check still comes to the end of it.
#[derive(Debug, Clone, Copy)]
pub struct Countdown {
    part: Duration,
    left: Duration,
    counted_to: Instant,
}

impl Countdown {
    /// Begins to count `limit` down at `now`.
    pub fn new(now: Instant, limit: Duration) -> Self {
        // Rounded up, so that as many parts are no less than the limit.
        Self { part: limit / PARTS + Duration::from_nanos(1), left: limit, counted_to: now }
    }

    /// When to [count](Self::count) next.
    pub fn check_at(&self) -> Instant {
        self.counted_to + self.part.min(self.left)
    }

    /// When the countdown ends unless the process is stopped before.
    pub fn ends_at(&self) -> Instant {
        self.counted_to + self.left
    }

    /// Whether the limit was counted to its end.
    pub fn is_over(&self) -> bool {
        self.left.is_zero()
    }

    /// Counts the time up to `now`, if it is time for that. Returns whether the countdown has
    /// ended.
    pub fn count(&mut self, now: Instant) -> bool {
        if now >= self.check_at() {
            self.interrupt(now);
        }
        self.is_over()
    }

    /// Counts the time up to `now`, after which none counts until the caller
    /// [resumes](Self::resume) the countdown.
    pub fn interrupt(&mut self, now: Instant) {
        let is_late = now.saturating_duration_since(self.check_at()) >= PAUSE;
        let counted = if is_late { self.part } else { now.saturating_duration_since(self.counted_to) };
        (self.left, self.counted_to) = (self.left.saturating_sub(counted), now);
    }

    /// Time counts again from `now` on.
    pub fn resume(&mut self, now: Instant) {
        self.counted_to = now;
    }
}

/// A check comes later than this only if its process or thread did not run: timers of a busy
/// machine are late by much less.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// The number of checks of a limit.
const PARTS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);
    const MS: Duration = Duration::from_millis(1);

    /// How often a countdown of the limit is checked, and when it ends, if each check comes `late`.
    fn checks_and_end(late: Duration) -> (u32, Duration) {
        let begin = Instant::now();
        let mut countdown = Countdown::new(begin, LIMIT);
        for checks in 1.. {
            let now = countdown.check_at() + late;
            if countdown.count(now) {
                return (checks, now - begin);
            }
        }
        unreachable!()
    }

    #[test]
    fn checks_in_time_end_at_the_limit() {
        assert_eq!(checks_and_end(Duration::ZERO), (PARTS, LIMIT));
        let (checks, end) = checks_and_end(10 * MS);
        assert!(checks <= PARTS && end >= LIMIT && end <= LIMIT + 20 * MS, "{checks} checks, {end:?}");
    }

    #[test]
    fn checks_that_are_always_late_come_to_an_end() {
        assert_eq!(checks_and_end(PAUSE).0, PARTS);
        assert_eq!(checks_and_end(60 * PAUSE).0, PARTS);
    }

    #[test]
    fn a_stop_takes_a_part_of_the_limit() {
        for stopped_after in [Duration::ZERO, LIMIT / 16, LIMIT / 2] {
            let begin = Instant::now();
            let mut countdown = Countdown::new(begin, LIMIT);
            while countdown.check_at() <= begin + stopped_after {
                assert!(!countdown.count(countdown.check_at()));
            }
            let goes_on = begin + stopped_after + 10 * LIMIT;
            assert!(!countdown.count(goes_on), "stopped after {stopped_after:?}");
            let ran = stopped_after + (countdown.ends_at() - goes_on);
            assert!(ran <= LIMIT && ran + MS >= LIMIT - LIMIT / PARTS, "{ran:?}, stopped after {stopped_after:?}");
        }
    }

    #[test]
    fn time_after_an_interruption_does_not_count() {
        let begin = Instant::now();
        let mut countdown = Countdown::new(begin, LIMIT);
        for cycle in 0..8 {
            let now = begin + cycle * (100 * LIMIT + 100 * MS);
            countdown.resume(now);
            countdown.interrupt(now + 100 * MS);
        }
        let now = begin + 1000 * LIMIT;
        countdown.resume(now);
        assert_eq!(countdown.ends_at(), now + LIMIT - 800 * MS);
    }

    #[test]
    fn limits_too_short_for_parts() {
        let begin = Instant::now();
        assert!(Countdown::new(begin, Duration::ZERO).count(begin));
        let mut shortest = Countdown::new(begin, Duration::from_nanos(1));
        assert!(!shortest.count(begin) && shortest.count(begin + MS));
    }
}
