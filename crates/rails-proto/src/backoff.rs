//! The wait before the next attempt.

use std::time::Duration;

/// Waits between attempts, which double up to a bound and go on without end: a lane that was down
/// for hours is back within a second and a half after its link.
#[derive(Debug, Clone)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// The first wait.
    pub const SHORTEST: Duration = Duration::from_millis(100);
    /// The longest wait.
    pub const LONGEST: Duration = Duration::from_millis(400);
    /// The first wait for an attempt that will probably fail.
    const SLOW: Duration = Duration::from_secs(1);
    /// The longest wait for an attempt that will probably fail, or succeed in vain.
    const LONGEST_SLOW: Duration = Duration::from_secs(8);

    /// Creates the waits for attempts that will probably fail: the peer has answered that it does
    /// not have the stream.
    pub fn refused() -> Self {
        Self { next: Self::SLOW, longest: Self::LONGEST_SLOW }
    }

    /// Creates the waits for attempts that will probably succeed in vain: handshakes pass, and the
    /// lanes carry nothing.
    pub fn black_hole() -> Self {
        Self { next: Self::SHORTEST, longest: Self::LONGEST_SLOW }
    }

    /// The time to wait before the next attempt.
    #[allow(clippy::should_implement_trait, reason = "it never ends, so it is no iterator")]
    pub fn next(&mut self) -> Duration {
        let now = self.next;
        self.next = (2 * now).min(self.longest);
        now
    }

    /// As [`next`](Self::next), but `jitter` draws the wait from half of that time to all of it, so
    /// that callers refused together do not return together.
    pub fn next_with(&mut self, jitter: u8) -> Duration {
        let longest = self.next();
        longest / 2 + longest / 2 * u32::from(jitter) / u32::from(u8::MAX)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: Self::SHORTEST, longest: Self::LONGEST }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_go_on() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..6).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 400, 400, 400]);
        let mut refused = Backoff::refused();
        let waits: Vec<u64> = (0..5).map(|_| refused.next().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 8]);
    }

    #[test]
    fn a_drawn_wait_is_half_to_all_of_the_wait() {
        let drawn = [0, 128, 255].map(|jitter| Backoff::default().next_with(jitter).as_millis());
        assert_eq!(drawn, [50, 75, 100]);
    }
}
