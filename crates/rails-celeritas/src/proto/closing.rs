//! How long an end that closes waits for a peer that makes no progress.

use std::time::{Duration, Instant};

/// The wait of an end that closes.
#[derive(Debug)]
pub(super) struct Closing {
    limit: Duration,
    /// When the wait is over, unless there is progress before; `None` beyond the clock's range.
    until: Option<Instant>,
    /// The bytes that the peer did not have when the wait began, and the segments that it had sent.
    before: (u64, u64),
}

impl Closing {
    /// A wait that begins when the peer does not have so many bytes, and has sent so many segments.
    pub(super) fn new(now: Instant, limit: Duration, bytes: u64, segments: u64) -> Self {
        Self { limit, until: now.checked_add(limit), before: (bytes, segments) }
    }

    /// When [`is_over`](Self::is_over) is to be asked.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.until
    }

    /// Whether the peer has made no progress for the limit: it has taken none of this end's bytes, or has had all of
    /// them before, and has sent nothing.
    pub(super) fn is_over(&mut self, now: Instant, bytes: u64, segments: u64) -> bool {
        if self.until.is_none_or(|until| now < until) {
            return false;
        }
        let has_progress = bytes < self.before.0 || bytes == 0 && segments > self.before.1;
        *self = Self::new(now, self.limit, bytes, segments);
        !has_progress
    }

    /// That much time does not count, and the peer gets a pause at least from now on.
    pub(super) fn excuse(&mut self, now: Instant, time: Duration, pause: Duration) {
        self.until = self.until.and_then(|until| until.checked_add(time)).map(|until| until.max(now + pause));
    }
}

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
