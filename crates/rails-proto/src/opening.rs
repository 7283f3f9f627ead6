//! When lanes are called for the first time, their race to open a stream, and the attempts of each
//! lane.

use crate::backoff::Backoff;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// Decides when the addresses of names are called, as in RFC 8305 ("Happy Eyeballs"), section 5.
/// The first address of each name is called at once; each further one as soon as one of that name
/// has failed, [`Race::DELAY`] after the one before, or when any address has succeeded.
#[derive(Debug)]
pub struct Calls {
    names: Vec<NameCalls>,
    delay: Duration,
}

/// The calls to the addresses of one name.
#[derive(Debug)]
struct NameCalls {
    /// The addresses that were not called yet begin with this one.
    next: usize,
    /// One behind the last address.
    end: usize,
    /// The earliest time of the next call; `None` is at once.
    after: Option<Instant>,
    /// The addresses that were called, and have not failed.
    called: BTreeSet<usize>,
}

/// The next step of a caller of several addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The caller calls the address of that index, and asks again.
    Begin(usize),
    /// The caller asks again at that time, or as soon as a call has failed or succeeded.
    Wait(Instant),
    /// Every address was called.
    Done,
}

impl Calls {
    /// The calls to addresses by index. `is_further` says of each whether it belongs to the name of
    /// the one before.
    pub fn new(is_further: impl IntoIterator<Item = bool>) -> Self {
        let mut names: Vec<NameCalls> = Vec::new();
        let mut count = 0;
        for is_further in is_further {
            match names.last_mut().filter(|_| is_further) {
                Some(name) => name.end += 1,
                None => {
                    names.push(NameCalls { next: count, end: count + 1, after: None, called: BTreeSet::new() });
                }
            }
            count += 1;
        }
        Self { names, delay: Race::delay(count) }
    }

    /// The calls to the addresses of one name.
    pub fn of_name(addresses: usize) -> Self {
        Self::new((0..addresses).map(|index| index > 0))
    }

    /// Decides the next call. `succeeded` says whether an address has succeeded.
    pub fn next(&mut self, now: Instant, succeeded: bool) -> Call {
        let mut wait = Call::Done;
        for name in self.names.iter_mut().filter(|name| name.next < name.end) {
            match name.after.filter(|after| *after > now && !succeeded) {
                Some(after) => wait = Call::Wait(if let Call::Wait(other) = wait { after.min(other) } else { after }),
                None => {
                    let index = name.next;
                    name.next += 1;
                    name.after = Some(now + self.delay);
                    name.called.insert(index);
                    return Call::Begin(index);
                }
            }
        }
        wait
    }

    /// Notes that the attempt at an address has failed. Further failures of it change nothing.
    pub fn failed(&mut self, index: usize) {
        for name in &mut self.names {
            if name.called.remove(&index) {
                name.after = None;
            }
        }
    }
}

/// Decides how long the opening of a stream waits for lanes once the first is up.
#[derive(Debug)]
pub struct Awaited {
    /// The number of the name that each lane leads to.
    names: Vec<usize>,
    /// The lanes that have neither come up nor failed.
    lanes: BTreeSet<usize>,
    /// The names with a lane that is up.
    reached: BTreeSet<usize>,
}

impl Awaited {
    /// Waits for every lane. `is_further` says of each whether it leads to the name of the one
    /// before.
    pub fn new(is_further: impl IntoIterator<Item = bool>) -> Self {
        let mut name = 0;
        let number = |is_further: bool| {
            name += usize::from(!is_further);
            name
        };
        let names: Vec<usize> = is_further.into_iter().map(number).collect();
        Self { lanes: (0..names.len()).collect(), names, reached: BTreeSet::new() }
    }

    /// Notes that a lane is up.
    pub fn up(&mut self, lane: usize) {
        self.lanes.remove(&lane);
        self.reached.insert(self.names[lane]);
    }

    /// Notes the first failure of a lane.
    pub fn failed(&mut self, lane: usize) {
        self.lanes.remove(&lane);
    }

    /// The lanes that have neither come up nor failed.
    pub fn lanes(&self) -> &BTreeSet<usize> {
        &self.lanes
    }

    /// How long to wait after the stream was opened: `grace`, but at most [`Race::DELAY`] if all
    /// names are reached and only further addresses of theirs are left. A name may well have
    /// addresses that lead nowhere.
    pub fn grace(&self, grace: Duration) -> Duration {
        let are_reached = self.lanes.iter().all(|lane| self.reached.contains(&self.names[*lane]));
        if are_reached { grace.min(Race::DELAY) } else { grace }
    }
}

/// Decides which lanes try to open a stream, and when. A lane without an answer delays the next
/// lane only briefly, as in RFC 8305 ("Happy Eyeballs"), section 5. The first lane that succeeds
/// opens the stream, and the others join it.
#[derive(Debug)]
pub struct Race {
    delay: Duration,
    /// The number of lanes that are trying now.
    trying: usize,
    /// When the latest attempt began.
    latest: Option<Instant>,
}

/// The next step of a lane that has connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The lane tries to open the stream, and the caller calls [`Race::ended`] after success or
    /// failure.
    Open,
    /// The lane asks again at that time, or as soon as another lane's attempt has ended.
    Wait(Instant),
}

impl Race {
    /// RFC 8305's "Connection Attempt Delay", for few lanes.
    pub const DELAY: Duration = Duration::from_millis(250);
    /// The longest time from the beginning of the first lane of a stream to that of the last. For
    /// the most lanes, the delay is 16 ms.
    pub const SPREAD: Duration = Duration::from_secs(1);
    /// RFC 8305's "Minimum Connection Attempt Delay", also for more addresses than a stream has
    /// lanes.
    const MIN_DELAY: Duration = Duration::from_millis(10);

    /// Creates a race of `lanes` lanes.
    pub fn new(lanes: usize) -> Self {
        Self { delay: Self::delay(lanes), trying: 0, latest: None }
    }

    fn delay(lanes: usize) -> Duration {
        let share = Self::SPREAD / u32::try_from(lanes.max(1)).unwrap_or(u32::MAX);
        share.clamp(Self::MIN_DELAY, Self::DELAY)
    }

    /// Decides the next step of the lane that asks.
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

/// The reason why an attempt to open a lane failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    /// The peer answered that it is busy.
    Busy,
    /// The cause may lie in the network: an answer in another protocol, or a connection cut in its
    /// handshake.
    Passing,
    /// The attempt timed out, or the connection was refused: the lane goes on trying, and the
    /// stream does not wait for it.
    Plain,
    /// Another attempt would fail in the same way.
    Lasting,
}

/// The attempts of one lane until it is up for the first time.
#[derive(Debug)]
pub struct Attempts {
    backoff: Backoff,
    /// The waits while other lanes are up: the address of this lane may lead nowhere.
    spare: Backoff,
    passing: u32,
}

/// The next step of a lane after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// The wait of the lane before its next attempt; `None` means until another lane has opened the
    /// stream.
    pub wait: Option<Duration>,
    /// Whether the lane counts as one that did not come up, so that the stream does not wait for
    /// it.
    pub counts: bool,
}

impl Attempts {
    /// Decides the next step after a failed attempt. `is_open` says whether a lane has opened the
    /// stream, `is_spare` whether other lanes are up; `jitter` is any random number.
    pub fn after(&mut self, setback: Setback, is_open: bool, is_spare: bool, jitter: u8) -> Next {
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
            Setback::Passing | Setback::Plain if is_spare => Some(self.spare.next_with(jitter)),
            _ => {
                self.spare = Backoff::barren();
                Some(self.backoff.next_with(jitter))
            }
        };
        Next { wait, counts }
    }
}

impl Default for Attempts {
    fn default() -> Self {
        Self { backoff: Backoff::default(), spare: Backoff::barren(), passing: 0 }
    }
}

/// After more [`Setback::Passing`] failures than this, a lane counts as failed: after about half a
/// second.
const PATIENCE: u32 = 3;
/// How long a lane waits after a lasting refusal: a peer's operator may remove the cause.
const RARELY: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_names_are_called_one_by_one() {
        let (begin, delay) = (Instant::now(), Race::DELAY);
        // A name of two addresses, and an address.
        let mut calls = Calls::new([false, true, false]);
        assert_eq!([calls.next(begin, false), calls.next(begin, false)], [Call::Begin(0), Call::Begin(2)]);
        assert_eq!(calls.next(begin, false), Call::Wait(begin + delay));
        calls.failed(2);
        assert_eq!(calls.next(begin, false), Call::Wait(begin + delay), "the other name has failed");
        assert_eq!([calls.next(begin + delay, false), calls.next(begin + delay, false)], [Call::Begin(1), Call::Done]);
    }

    #[test]
    fn the_next_address_is_called_once_one_has_failed() {
        let now = Instant::now();
        let mut calls = Calls::of_name(4);
        assert_eq!([calls.next(now, false), calls.next(now, false)], [Call::Begin(0), Call::Wait(now + Race::DELAY)]);
        calls.failed(0);
        assert_eq!([calls.next(now, false), calls.next(now, false)], [Call::Begin(1), Call::Wait(now + Race::DELAY)]);
        calls.failed(0);
        assert_eq!(calls.next(now, false), Call::Wait(now + Race::DELAY), "it has failed before");
    }

    #[test]
    fn many_mute_addresses_are_called_10_ms_apart() {
        let mut now = Instant::now();
        let mut calls = Calls::of_name(2000);
        for index in 0..2000 {
            assert_eq!(calls.next(now, false), Call::Begin(index));
            let next = now + Duration::from_millis(10);
            assert!(index == 1999 || calls.next(now, false) == Call::Wait(next));
            now = next;
        }
        assert_eq!(calls.next(now, false), Call::Done);
    }

    #[test]
    fn all_addresses_are_called_once_one_has_succeeded() {
        let now = Instant::now();
        let mut calls = Calls::of_name(3);
        assert_eq!(calls.next(now, false), Call::Begin(0));
        let rest = [(); 3].map(|()| calls.next(now, true));
        assert_eq!(rest, [Call::Begin(1), Call::Begin(2), Call::Done]);
    }

    #[test]
    fn further_addresses_of_a_name_get_a_moment() {
        let grace = Duration::from_secs(1);
        // A name of three addresses, and an address.
        let mut awaited = Awaited::new([false, true, true, false]);
        awaited.up(1);
        assert_eq!(awaited.grace(grace), grace, "the address is awaited");
        awaited.failed(3);
        assert_eq!(awaited.grace(grace), Race::DELAY);
        assert_eq!(awaited.grace(Duration::ZERO), Duration::ZERO);
        assert!(awaited.lanes().iter().eq(&[0, 2]));
        let mut awaited = Awaited::new([false, true, false]);
        awaited.up(2);
        awaited.failed(0);
        assert_eq!(awaited.grace(grace), grace, "the name is not reached");
    }

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
        assert_eq!(race.turn(begin), Turn::Wait(begin + Race::DELAY), "a lane is trying");
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
            let Next { wait, counts } = attempts.after(Setback::Busy, false, false, 7);
            assert!(wait.is_some() && !counts);
        }
        let counts: Vec<bool> = (0..5).map(|_| attempts.after(Setback::Passing, false, false, 7).counts).collect();
        assert_eq!(counts, [false, false, false, true, true]);
        assert_eq!(attempts.after(Setback::Lasting, false, false, 7), Next { wait: None, counts: true });
        assert_eq!(attempts.after(Setback::Lasting, true, true, 7), Next { wait: Some(RARELY), counts: true });
        assert!(matches!(attempts.after(Setback::Plain, true, true, 7), Next { wait: Some(_), counts: true }));
    }

    #[test]
    fn a_spare_lane_is_dialled_less_and_less() {
        let mut attempts = Attempts::default();
        let mut waits = |is_spare: bool, count: usize| -> Vec<u128> {
            let wait = |_| attempts.after(Setback::Plain, true, is_spare, u8::MAX).wait.unwrap().as_millis();
            (0..count).map(wait).collect()
        };
        assert_eq!(waits(true, 9), [100, 200, 400, 800, 1600, 3200, 6400, 8000, 8000]);
        assert_eq!(waits(false, 4), [100, 200, 400, 400], "no other lane is up");
        assert_eq!(waits(true, 2), [100, 200]);
    }
}
