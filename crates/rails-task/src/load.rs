//! The share of its time that a thread is awake.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// The load of a thread that tells when it sleeps. Others may read it.
#[derive(Debug)]
pub(crate) struct Load {
    start: Instant,
    /// The beginning of the thread's present sleep or wake, in nanoseconds from the start.
    since: AtomicU64,
    is_asleep: AtomicBool,
    /// The thread's nanoseconds awake and asleep in this period.
    awake: AtomicU64,
    asleep: AtomicU64,
    /// Whether the thread was awake for most of the last period.
    was_busy: AtomicBool,
}

impl Load {
    /// The load of a thread that is awake.
    pub(crate) fn new(now: Instant) -> Self {
        let (since, is_asleep, awake, asleep, was_busy) = Default::default();
        Self { start: now, since, is_asleep, awake, asleep, was_busy }
    }

    /// Notes that the thread falls asleep, or wakes.
    pub(crate) fn change(&self, is_asleep: bool, now: Instant) {
        let now = self.nanoseconds(now);
        let time = now.saturating_sub(self.since.swap(now, Relaxed));
        let sum = if self.is_asleep.swap(is_asleep, Relaxed) { &self.asleep } else { &self.awake };
        sum.fetch_add(time, Relaxed);
        let (awake, asleep) = (self.awake.load(Relaxed), self.asleep.load(Relaxed));
        if awake + asleep >= PERIOD.as_nanos() as u64 {
            self.was_busy.store(asleep < (awake + asleep) / 8, Relaxed);
            self.awake.store(0, Relaxed);
            self.asleep.store(0, Relaxed);
        }
    }

    /// Whether the thread has more to do than it has time: it was awake for seven eighths of the
    /// last period, or has not slept for as long as a period.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        let since = Duration::from_nanos(self.nanoseconds(now).saturating_sub(self.since.load(Relaxed)));
        match self.is_asleep.load(Relaxed) {
            true => false,
            false => since >= PERIOD || self.was_busy.load(Relaxed),
        }
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The period is long beside the lateness of a timer, and short beside the queue of a network path.
const PERIOD: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a thread is busy that is awake for half of `awake` microseconds after `rounds`
    /// rounds of `awake` microseconds awake and `asleep` microseconds asleep.
    fn is_busy(rounds: u32, awake: u64, asleep: u64) -> bool {
        let mut now = Instant::now();
        let load = Load::new(now);
        for _ in 0..rounds {
            now += Duration::from_micros(awake);
            load.change(true, now);
            assert!(!load.is_busy(now), "it sleeps");
            now += Duration::from_micros(asleep);
            load.change(false, now);
        }
        load.is_busy(now + Duration::from_micros(awake) / 2)
    }

    #[test]
    fn thread_that_hardly_sleeps_is_busy() {
        assert!(is_busy(100, 50, 5));
        assert!(is_busy(1, 2000, 1));
        assert!(is_busy(1, 5000, 5000), "it has been awake for long");
        assert!(!is_busy(100, 50, 50));
        assert!(!is_busy(100, 100, 20));
        assert!(!is_busy(0, 100, 0), "it has just begun");
        assert!(!is_busy(3, 200, 5), "the period is not over");
    }
}
