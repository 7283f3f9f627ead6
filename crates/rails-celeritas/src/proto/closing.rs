//! How long an end that closes waits for a peer that makes no progress.

use super::grace::Grace;
use std::time::{Duration, Instant};

/// The wait of an end that closes.
#[derive(Debug)]
pub(super) struct Closing {
    length: Duration,
    limit: Limit,
    /// The bytes that the peer did not have when the wait began, and those that had arrived from
    /// it.
    before: (u64, u64),
}

/// A time limit that counts only while this end runs.
#[derive(Debug)]
pub(super) struct Limit {
    /// `None` beyond the clock's range.
    until: Option<Instant>,
    /// The longest time between two checks. An end that checks later than that was stopped: a stop
    /// counts for this time at most.
    part: Duration,
    looked_at: Instant,
    grace: Grace,
}

impl Closing {
    /// Begins a wait, at which the peer lacks `undelivered` bytes, and `arrived` bytes have come
    /// from it.
    pub(super) fn new(now: Instant, length: Duration, undelivered: u64, arrived: u64) -> Self {
        Self { length, limit: Limit::new(now, length), before: (undelivered, arrived) }
    }

    /// When to ask [`is_over`](Self::is_over) next.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.limit.poll_timeout()
    }

    /// Whether the peer has made no progress for the limit: it has taken none of this end's bytes,
    /// or has had all of them before, and has sent nothing new.
    pub(super) fn is_over(&mut self, now: Instant, undelivered: u64, arrived: u64) -> bool {
        if !self.limit.is_over(now) {
            return false;
        }
        let has_progress = undelivered < self.before.0 || undelivered == 0 && arrived > self.before.1;
        *self = Self::new(now, self.length, undelivered, arrived);
        !has_progress
    }

    /// Takes `time` out of the wait, and gives the peer a pause from now on, at most 16 times.
    pub(super) fn excuse(&mut self, now: Instant, time: Duration, pause: Duration) {
        self.limit.excuse(now, time, pause);
    }
}

impl Limit {
    pub(super) fn new(now: Instant, length: Duration) -> Self {
        Self { until: now.checked_add(length), part: length / PARTS, looked_at: now, grace: Grace::default() }
    }

    /// When to ask [`is_over`](Self::is_over) next.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.until.map(|until| until.min(self.looked_at + self.part))
    }

    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        self.looked_at = now;
        self.until.is_some_and(|until| until <= now)
    }

    /// Takes `time` out of the limit, and leaves a pause from now on, as long as the limit has
    /// grace.
    pub(super) fn excuse(&mut self, now: Instant, time: Duration, pause: Duration) {
        self.until =
            self.until.and_then(|until| until.checked_add(time)).map(|until| self.grace.extend(until, now, pause));
    }
}

/// The checks in a limit.
const PARTS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_goes_on_for_another_limit() {
        let (begin, limit) = (Instant::now(), Duration::from_secs(30));
        let mut closing = Closing::new(begin, limit, 900, 5);
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(!closing.is_over(at(29), 900, 5));
        assert!(!closing.is_over(at(30), 400, 5), "it takes bytes");
        assert!(!closing.is_over(at(60), 0, 6), "it has the rest");
        assert!(!closing.is_over(at(90), 0, 7), "it sends");
        closing.excuse(at(110), limit, Duration::from_secs(1));
        closing.excuse(at(149), Duration::ZERO, Duration::from_secs(3));
        assert!(!closing.is_over(at(151), 0, 7));
        assert!(closing.is_over(at(152), 0, 7));
    }

    /// Bytes from the peer are no progress while it takes none.
    #[test]
    fn peer_that_sends_alone_makes_no_progress() {
        let (now, limit) = (Instant::now(), Duration::from_secs(1));
        assert!(Closing::new(now, limit, 900, 5).is_over(now + limit, 900, 8));
        assert!(!Closing::new(now, Duration::MAX, 900, 5).is_over(now + limit, 900, 5));
    }
}
