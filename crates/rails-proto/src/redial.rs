//! When an end dials a lost lane again, and how long an attempt may take.

use crate::{
    backoff::Backoff,
    lane::LaneError,
    session::{LaneEnd, Refused},
};
use std::time::Duration;

/// The end of a lane, for the end that dials it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The lane left the stream, and this end does not dial it again.
    Left,
    /// Another connection takes the lane's place.
    Replaced,
    /// The peer's kernel closed or reset the lane: a new connection gets through at once, or is
    /// refused.
    ByPeer,
    /// The lane ended in any other way.
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

/// The loss of a lane, for the end that dials it.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// How the lane ended; [`Ended::Otherwise`] of a lane that has stalled.
    pub ended: Ended,
    /// How long the lane was up.
    pub lived: Duration,
    /// Whether the lane has carried chunks, and the peer has acknowledged none of them on it.
    pub is_black_hole: bool,
}

/// The attempts to dial a lane again, over all of its connections.
#[derive(Debug)]
pub struct Redial {
    backoff: Backoff,
    refused: Backoff,
    /// The waits after connections that were barren, one after the other: handshakes that pass show
    /// no path.
    black_hole: Backoff,
    wait: Duration,
}

impl Redial {
    /// A lane that was not lost yet.
    pub fn new() -> Self {
        let (backoff, refused, black_hole) = (Backoff::default(), Backoff::refused(), Backoff::black_hole());
        Self { backoff, refused, black_hole, wait: Duration::ZERO }
    }

    /// Starts the attempts for a lane that was lost. This end dials a lane that the peer's kernel
    /// closed at once, unless that happens again and again.
    pub fn start(&mut self, Loss { ended, lived, is_black_hole }: Loss) {
        let black_hole = if is_black_hole { self.black_hole.clone() } else { Backoff::black_hole() };
        *self = Self { black_hole, ..Self::new() };
        self.wait = match () {
            () if is_black_hole => self.black_hole.next(),
            () if ended == Ended::ByPeer && lived > Backoff::LONGEST => Duration::ZERO,
            () => self.backoff.next(),
        };
    }

    /// How long to wait before the next attempt.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// An attempt failed; `refused` says whether the peer refused it. A listener that does not have
    /// the stream may for a while be another than the intended one.
    pub fn failed(&mut self, refused: Option<Refused>) {
        self.wait = if refused == Some(Refused::Stream) { self.refused.next() } else { self.backoff.next() };
    }

    /// How long one attempt may take, on a path on which the first took `first`.
    ///
    /// TCP repeats a lost SYN after 1 s, and then at growing intervals: a new attempt is no later.
    /// On a slow path an attempt needs longer.
    pub fn longest_attempt(first: Duration, handshake_timeout: Duration) -> Duration {
        (Self::MIN_ATTEMPT + 2 * first).min(handshake_timeout.max(Self::MIN_ATTEMPT))
    }

    /// How long an attempt may take on a path without delay.
    pub const MIN_ATTEMPT: Duration = Duration::from_secs(1);
}

impl Default for Redial {
    fn default() -> Self {
        Self::new()
    }
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

    fn after(ended: Ended, lived: Duration) -> Redial {
        let mut redial = Redial::new();
        redial.start(Loss { ended, lived, is_black_hole: false });
        redial
    }

    #[test]
    fn waits_before_redials() {
        assert_eq!(after(Ended::ByPeer, LONG).wait(), Duration::ZERO);
        for (ended, lived) in [(Ended::Otherwise, LONG), (Ended::ByPeer, Duration::ZERO)] {
            assert_eq!(after(ended, lived).wait(), Backoff::SHORTEST, "{ended:?}");
        }
        let mut redial = after(Ended::ByPeer, LONG);
        let waits =
            [None, Some(Refused::Connection), Some(Refused::Stream), None, Some(Refused::Stream)].map(|refused| {
                redial.failed(refused);
                redial.wait().as_millis()
            });
        assert_eq!(waits, [100, 200, 1000, 400, 2000]);
    }

    /// Handshakes pass, and the lanes carry nothing.
    #[test]
    fn lanes_that_join_in_vain_are_dialled_less_and_less() {
        let mut redial = Redial::new();
        let mut lose = |is_black_hole| {
            redial.start(Loss { ended: Ended::ByPeer, lived: LONG, is_black_hole });
            // An attempt that fails in between changes nothing about that.
            redial.failed(None);
            redial.start(Loss { ended: Ended::Otherwise, lived: LONG, is_black_hole });
            redial.wait().as_millis()
        };
        assert_eq!([true; 5].map(&mut lose), [200, 800, 3200, 8000, 8000]);
        assert_eq!([false, true].map(&mut lose), [100, 200]);
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
