//! The extension of waits for times in which this end did not run.
//!
//! An end that comes back hears within a pause all that came meanwhile, so that it waits for a
//! pause more before it judges. An end that is held up again and again would never judge: the
//! pauses of one wait have a bound.

use std::time::{Duration, Instant};

/// The time by which a wait was made longer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Grace {
    given: Duration,
}

impl Grace {
    /// The time to add to a wait of which `left` remains, so that a pause remains.
    pub(super) fn give(&mut self, left: Duration, pause: Duration) -> Duration {
        let more = pause.saturating_sub(left).min((MAX_PAUSES * pause).saturating_sub(self.given));
        self.given += more;
        more
    }

    /// The new end of a wait that would end at `until`, so that a pause remains.
    pub(super) fn extend(&mut self, until: Instant, now: Instant, pause: Duration) -> Instant {
        match self.give(until.saturating_duration_since(now), pause) {
            Duration::ZERO => until,
            more => until.max(now) + more,
        }
    }
}

/// The pauses that are added to one wait at most.
const MAX_PAUSES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_of_a_wait_have_a_bound() {
        const PAUSE: Duration = Duration::from_millis(300);
        let mut grace = Grace::default();
        assert_eq!(grace.give(PAUSE, PAUSE), Duration::ZERO);
        assert_eq!(grace.give(PAUSE / 3, PAUSE), PAUSE * 2 / 3);
        let given: Duration = (0..100).map(|_| grace.give(Duration::ZERO, PAUSE)).sum();
        assert_eq!(given, MAX_PAUSES * PAUSE - PAUSE * 2 / 3);
    }
}
