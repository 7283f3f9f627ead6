//! The turn of a caller, which ends early if the caller stalls and another waits.

use anyhow::Error;
use rails_proto::countdown::Countdown;
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::time::sleep_until;

/// The waits of this end for its peer, as the work for the peer reports them.
#[derive(Debug)]
pub(crate) struct Waits(AtomicU64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    /// The number of times that this end began or ended a wait.
    count: u64,
    goes_on: bool,
}

impl Wait {
    fn of(word: u64) -> Self {
        Self { count: word >> 1, goes_on: word & 1 == 1 }
    }

    fn word(self) -> u64 {
        self.count << 1 | u64::from(self.goes_on)
    }
}

impl Waits {
    /// The waits of an end that waits for the peer's first bytes.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Wait { count: 0, goes_on: true }.word()))
    }

    /// Notes that this end begins a wait, or ends one. One wait may follow another.
    pub(crate) fn tell(&self, goes_on: bool) {
        let next = |word| Some(Wait { count: Wait::of(word).count + 1, goes_on }.word());
        let _ = self.0.fetch_update(Relaxed, Relaxed, next);
    }

    /// Completes when one wait has lasted for `limit`, and another peer waits for the turn
    /// (`has_waiting`).
    pub(crate) async fn last(&self, limit: Duration, has_waiting: impl Fn() -> bool) {
        let wait = || Wait::of(self.0.load(Relaxed));
        let mut timer = WaitTimer::new(Instant::now(), limit, wait());
        loop {
            sleep_until(timer.next_check().into()).await;
            if timer.has_lasted(Instant::now(), wait()) && has_waiting() {
                return;
            }
        }
    }
}

/// Measures how long one wait lasts. Time in which this process is stopped counts for an eighth of
/// the limit at most.
struct WaitTimer {
    wait: Wait,
    limit: Duration,
    left: Countdown,
    checked_at: Instant,
}

impl WaitTimer {
    fn new(now: Instant, limit: Duration, wait: Wait) -> Self {
        Self { wait, limit, left: Countdown::new(now, limit), checked_at: now }
    }

    /// The time of the next [check](Self::has_lasted). Another peer may claim the turn long after
    /// the limit.
    fn next_check(&self) -> Instant {
        if self.left.is_over() { self.checked_at + self.limit / 8 } else { self.left.check_at() }
    }

    /// Whether `wait` is that of the last check, and has lasted for the limit.
    fn has_lasted(&mut self, now: Instant, wait: Wait) -> bool {
        if wait != self.wait || !wait.goes_on {
            *self = Self::new(now, self.limit, wait);
        }
        self.checked_at = now;
        self.left.count(now)
    }
}

/// The turn of a peer ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GaveWay {
    /// The peer stalled, and another waited.
    #[error("nothing came from {peer} for {} s, and it gave way to another", limit.as_secs_f64())]
    Stalled { peer: SocketAddr, limit: Duration },
    /// The sender has begun the batch again.
    #[error("{peer} was cut off, and its sender has begun the batch again")]
    BegunAgain { peer: SocketAddr },
}

impl GaveWay {
    /// Whether this is the reason why the work for a peer was not done.
    pub(crate) fn is_why(error: &Error) -> bool {
        error.chain().any(|cause| cause.is::<Self>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);
    const SECOND: Duration = Duration::from_secs(1);

    /// The seconds after which the limit is over first, for waits as they are in each second.
    fn over_after(wait: impl Fn(u64) -> Wait) -> Option<u64> {
        let begin = Instant::now();
        let mut timer = WaitTimer::new(begin, LIMIT, wait(0));
        (1..60).find(|second| {
            let now = begin + *second as u32 * SECOND;
            now >= timer.next_check() && timer.has_lasted(now, wait(*second))
        })
    }

    #[test]
    fn one_wait_ends_a_turn_and_many_do_not() {
        assert_eq!(over_after(|_| Wait { count: 0, goes_on: true }), Some(8));
        assert_eq!(over_after(|_| Wait { count: 0, goes_on: false }), None, "the receiver works");
        assert_eq!(over_after(|second| Wait { count: second / 5, goes_on: true }), None, "bytes come now and then");
        assert_eq!(over_after(|second| Wait { count: second.min(20), goes_on: true }), Some(28));
    }

    #[test]
    fn a_receiver_that_was_stopped_blames_no_sender() {
        let begin = Instant::now();
        let wait = Wait { count: 3, goes_on: true };
        let mut timer = WaitTimer::new(begin, LIMIT, wait);
        assert!(!timer.has_lasted(begin + 3600 * SECOND, wait));
        while timer.next_check() < begin + 3606 * SECOND {
            assert!(!timer.has_lasted(timer.next_check(), wait), "the sender has had an eighth of its time");
        }
    }

    #[test]
    fn a_turn_that_is_claimed_late_ends_then() {
        let begin = Instant::now();
        let wait = Wait { count: 3, goes_on: true };
        let mut timer = WaitTimer::new(begin, LIMIT, wait);
        let mut now = begin;
        for _ in 0..100 {
            now = timer.next_check();
            timer.has_lasted(now, wait);
        }
        assert!(now > begin + 90 * SECOND && timer.has_lasted(timer.next_check(), wait));
    }
}
