//! How long to wait before the next attempt.

use std::time::Duration;

/// Waits that double up to a bound, without end: a lane that is away for hours is back within a second and a half of its link.
#[derive(Debug, Clone)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    /// The first wait.
    pub const SHORTEST: Duration = Duration::from_millis(100);
    /// The longest wait.
    pub const LONGEST: Duration = Duration::from_millis(400);

    /// How long to wait now.
    #[allow(clippy::should_implement_trait, reason = "it never ends, so it is no iterator")]
    pub fn next(&mut self) -> Duration {
        let now = self.next;
        self.next = (2 * now).min(Self::LONGEST);
        now
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: Self::SHORTEST }
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
    }
}
