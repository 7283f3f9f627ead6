//! When an end dials a lost lane again, and how long an attempt may take.

use crate::{
    backoff::Backoff,
    connection::{LaneEnd, Refused},
    lane::LaneError,
};
use std::time::Duration;

/// The end of a lane, for the end that dials it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It left the stream, and this end does not dial it again.
    Left,
    /// Another connection takes its place.
    Replaced,
    /// The peer's kernel closed or reset it: a new connection gets through at once, or is refused.
    ByPeer,
    /// It ended in any other way.
    Otherwise,
}

impl Ended {
    /// Classifies the end of a lane, which was leaving its stream or not.
    pub fn of(end: &Result<(), LaneError>, is_leaving: bool) -> Self {
        match end {
            _ if is_leaving => Self::Left,
            Err(LaneError::Replaced) => Self::Replaced,
            Err(error) if error.end() == LaneEnd::ByPeer => Self::ByPeer,
            _ => Self::Otherwise,
        }
    }
}

/// The attempts to dial an ended lane again.
#[derive(Debug)]
pub struct Redial {
    backoff: Backoff,
    rare: Backoff,
    wait: Duration,
}

impl Redial {
    /// Starts the attempts for a lane that was up for `lived`. This end dials a lane that the peer's kernel closed at once, unless that happens again and
    /// again.
    pub fn new(ended: Ended, lived: Duration) -> Self {
        let (mut backoff, rare) = (Backoff::default(), Backoff::rare());
        let at_once = ended == Ended::ByPeer && lived > Backoff::LONGEST;
        let wait = if at_once { Duration::ZERO } else { backoff.next() };
        Self { backoff, rare, wait }
    }

    /// How long to wait before the next attempt.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// An attempt failed; `refused` says whether the peer refused it. A listener that does not have the stream may for a while be another than the
    /// intended one.
    pub fn failed(&mut self, refused: Option<Refused>) {
        self.wait = if refused == Some(Refused::Stream) { self.rare.next() } else { self.backoff.next() };
    }

    /// How long one attempt may take, on a path on which the first took `first`.
    ///
    /// TCP repeats a lost SYN after 1 s, and then at growing intervals: a new attempt is no later. On a slow path an attempt needs longer.
    pub fn longest_attempt(first: Duration, handshake_timeout: Duration) -> Duration {
        (Self::LEAST_ATTEMPT + 2 * first).min(handshake_timeout.max(Self::LEAST_ATTEMPT))
    }

    /// How long an attempt may take on a path without delay.
    pub const LEAST_ATTEMPT: Duration = Duration::from_secs(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(9);

    #[test]
    fn endings_for_the_end_that_dials() {
        assert_eq!(Ended::of(&Err(LaneError::Closed), true), Ended::Left);
        assert_eq!(Ended::of(&Err(LaneError::Closed), false), Ended::ByPeer);
        assert_eq!(Ended::of(&Err(LaneError::Replaced), false), Ended::Replaced);
        assert_eq!(Ended::of(&Err(LaneError::RailStopped), false), Ended::Otherwise);
        assert_eq!(Ended::of(&Ok(()), false), Ended::Otherwise);
    }

    #[test]
    fn waits_before_redials() {
        assert_eq!(Redial::new(Ended::ByPeer, LONG).wait(), Duration::ZERO);
        for (ended, lived) in [(Ended::Otherwise, LONG), (Ended::ByPeer, Duration::ZERO)] {
            assert_eq!(Redial::new(ended, lived).wait(), Backoff::SHORTEST, "{ended:?}");
        }
        let mut redial = Redial::new(Ended::ByPeer, LONG);
        let waits =
            [None, Some(Refused::Connection), Some(Refused::Stream), None, Some(Refused::Stream)].map(|refused| {
                redial.failed(refused);
                redial.wait().as_millis()
            });
        assert_eq!(waits, [100, 200, 1000, 400, 2000]);
    }

    #[test]
    fn longest_attempt_by_path() {
        let of = |first: u64, handshake: u64| {
            let longest = Redial::longest_attempt(Duration::from_millis(first), Duration::from_millis(handshake));
            longest.as_millis()
        };
        assert_eq!((of(0, 5000), of(700, 5000), of(9000, 5000), of(0, 10)), (1000, 2400, 5000, 1000));
    }
}
