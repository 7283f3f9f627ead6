//! When a lane that was up is dialled again, and how long an attempt may take.

use crate::{
    backoff::Backoff,
    connection::{LaneEnd, Refused},
    lane::LaneError,
};
use std::time::Duration;

/// How a lane ended, for the end that dials it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was taken out of the stream, and is not dialled again.
    Left,
    /// Another connection takes its place.
    Replaced,
    /// The peer's kernel closed or reset it: a new connection gets through at once, or is refused.
    ByPeer,
    /// In any other way.
    Otherwise,
}

impl Ended {
    /// How the lane ended that was to leave its stream or not.
    pub fn of(end: &Result<(), LaneError>, is_leaving: bool) -> Self {
        match end {
            _ if is_leaving => Self::Left,
            Err(LaneError::Replaced) => Self::Replaced,
            Err(error) if error.end() == LaneEnd::ByPeer => Self::ByPeer,
            _ => Self::Otherwise,
        }
    }
}

/// The attempts to dial a lane again that has ended.
#[derive(Debug)]
pub struct Redial {
    backoff: Backoff,
    rare: Backoff,
    wait: Duration,
}

impl Redial {
    /// After a lane that was up for `lived`. A lane that the peer's kernel closed is dialled at once, unless that happens again and again.
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

    /// An attempt came to nothing; the peer has `refused` it, or not. A listener that does not have the stream may be another than the one that was meant,
    /// for a while.
    pub fn failed(&mut self, refused: Option<Refused>) {
        self.wait = if refused == Some(Refused::Stream) { self.rare.next() } else { self.backoff.next() };
    }

    /// How long one attempt may take, on a path on which the first took `first`.
    ///
    /// TCP repeats a lost SYN after 1 s, and then after ever longer: a new attempt is no later. But a path takes as long as it takes.
    pub fn longest_attempt(first: Duration, handshake_timeout: Duration) -> Duration {
        (Self::LEAST_ATTEMPT + 2 * first).min(handshake_timeout.max(Self::LEAST_ATTEMPT))
    }

    /// How long an attempt may take on a path that takes no time.
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
