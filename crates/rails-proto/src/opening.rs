//! How the lanes of a stream race to open it, and how often each tries.

use crate::backoff::Backoff;
use std::time::{Duration, Instant};

/// Which lanes try to open a stream, and when: a lane that hears nothing holds the next up for a moment only, as in RFC 8305 ("Happy Eyeballs"),
/// section 5. The first lane through opens the stream, and the others join it.
#[derive(Debug)]
pub struct Race {
    delay: Duration,
    /// How many lanes are trying now.
    trying: usize,
    /// When the latest began.
    latest: Option<Instant>,
}

/// What a lane that has connected does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It tries to open the stream, and says by [`Race::ended`] when it has done so, however that went.
    Open,
    /// It asks again at that time, or as soon as another lane's attempt has ended.
    Wait(Instant),
}

impl Race {
    /// RFC 8305's "Connection Attempt Delay", for few lanes.
    pub const DELAY: Duration = Duration::from_millis(250);
    /// However many lanes there are, the last begins so long after the first: 16 ms apart for the most that a stream has, where the RFC's least is 10 ms.
    pub const SPREAD: Duration = Duration::from_secs(1);

    /// A race of that many lanes.
    pub fn new(lanes: usize) -> Self {
        Self { delay: Self::DELAY.min(Self::SPREAD / lanes.max(1) as u32), trying: 0, latest: None }
    }

    /// What the lane does that asks.
    pub fn turn(&mut self, now: Instant) -> Turn {
        let next = self.latest.filter(|_| self.trying > 0).map_or(now, |latest| latest + self.delay);
        if next > now {
            return Turn::Wait(next);
        }
        self.trying += 1;
        self.latest = Some(now);
        Turn::Open
    }

    /// A lane's attempt has ended.
    pub fn ended(&mut self) {
        self.trying -= 1;
    }
}

/// How an attempt to bring a lane up came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    /// The peer has no room just now, and said so.
    Busy,
    /// What happened may have been on the way: an answer that is no protocol of ours, a connection cut in its handshake.
    Passing,
    /// It took its time, or the connection was refused: the lane goes on trying, and nobody waits for it.
    Plain,
    /// Another attempt would end in the same way.
    Lasting,
}

/// The attempts of one lane while its stream is being opened.
#[derive(Debug, Default)]
pub struct Attempts {
    backoff: Backoff,
    passing: u32,
}

/// What a lane does after an attempt that came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// How long it waits before it tries again; `None`: until another lane has opened the stream.
    pub wait: Option<Duration>,
    /// Whether it counts as a lane that did not come up, so that nobody waits for it.
    pub counts: bool,
}

impl Attempts {
    /// What to do after such a setback, where a lane has opened the stream or not. `jitter` is any random number.
    pub fn after(&mut self, setback: Setback, is_open: bool, jitter: u8) -> Next {
        let counts = match setback {
            Setback::Busy => false,
            Setback::Passing => {
                self.passing += 1;
                self.passing > PATIENCE
            }
            Setback::Plain | Setback::Lasting => true,
        };
        let wait = match setback {
            Setback::Lasting => is_open.then_some(RARELY),
            _ => Some(self.backoff.next_with(jitter)),
        };
        Next { wait, counts }
    }
}

/// So often an answer may be none before the lane counts as failed: for about half a second.
const PATIENCE: u32 = 3;
/// How long a lane waits that would be refused again for a reason that lasts: a peer's operator may remove it.
const RARELY: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mute_lane_holds_the_next_up_for_a_moment() {
        let begin = Instant::now();
        let mut race = Race::new(2);
        assert_eq!(race.turn(begin), Turn::Open);
        assert_eq!(race.turn(begin), Turn::Wait(begin + Race::DELAY));
        assert_eq!(race.turn(begin + Race::DELAY), Turn::Open);
    }

    #[test]
    fn a_lane_that_fails_makes_way_at_once() {
        let begin = Instant::now();
        let mut race = Race::new(3);
        assert_eq!(race.turn(begin), Turn::Open);
        race.ended();
        assert_eq!(race.turn(begin), Turn::Open);
        assert_eq!(race.turn(begin), Turn::Wait(begin + Race::DELAY), "one is trying");
    }

    #[test]
    fn every_lane_has_had_its_turn_within_the_spread() {
        for lanes in 1..=64 {
            let begin = Instant::now();
            let mut race = Race::new(lanes);
            let mut now = begin;
            for _ in 0..lanes {
                while let Turn::Wait(until) = race.turn(now) {
                    now = until;
                }
            }
            assert!(now - begin <= Race::SPREAD, "{lanes} lanes: {:?}", now - begin);
        }
    }

    #[test]
    fn a_busy_peer_is_asked_without_end() {
        let mut attempts = Attempts::default();
        for _ in 0..100 {
            let Next { wait, counts } = attempts.after(Setback::Busy, false, 7);
            assert!(wait.is_some() && !counts);
        }
        let counts: Vec<bool> = (0..5).map(|_| attempts.after(Setback::Passing, false, 7).counts).collect();
        assert_eq!(counts, [false, false, false, true, true]);
        assert_eq!(attempts.after(Setback::Lasting, false, 7), Next { wait: None, counts: true });
        assert_eq!(attempts.after(Setback::Lasting, true, 7), Next { wait: Some(RARELY), counts: true });
        assert!(matches!(attempts.after(Setback::Plain, true, 7), Next { wait: Some(_), counts: true }));
    }
}
