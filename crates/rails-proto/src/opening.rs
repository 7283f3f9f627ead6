//! When addresses are dialled for the first time, the race of lanes to open a stream, and the
//! attempts of each lane.

use crate::backoff::Backoff;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// Decides when the addresses of names are dialled, as in RFC 8305 ("Happy Eyeballs"), section 5.
/// The first address of each name is dialled at once; each further one as soon as one of that name
/// has failed, [`Race::DELAY`] after the one before, or when any address has succeeded.
#[derive(Debug)]
pub struct DialSchedule {
    names: Vec<NameSchedule>,
    delay: Duration,
}

/// The schedule for the addresses of one name.
#[derive(Debug)]
struct NameSchedule {
    /// The first address that was not dialled yet.
    next: usize,
    /// One behind the last address.
    end: usize,
    /// The earliest time of the next attempt; `None` is at once.
    after: Option<Instant>,
    /// The addresses that were dialled, and have not failed.
    dialled: BTreeSet<usize>,
}

/// The next step of a caller that dials several addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialStep {
    /// The caller dials the address of that index, and asks again.
    Dial(usize),
    /// The caller asks again at that time, or as soon as an attempt has failed or succeeded.
    Wait(Instant),
    /// Every address was dialled.
    Done,
}

impl DialSchedule {
    /// A schedule for addresses by index. `is_further` says of each whether it belongs to the name
    /// of the one before.
    pub fn new(is_further: impl IntoIterator<Item = bool>) -> Self {
        let mut names: Vec<NameSchedule> = Vec::new();
        let mut count = 0;
        for is_further in is_further {
            match names.last_mut().filter(|_| is_further) {
                Some(name) => name.end += 1,
                None => {
                    names.push(NameSchedule { next: count, end: count + 1, after: None, dialled: BTreeSet::new() });
                }
            }
            count += 1;
        }
        Self { names, delay: Race::delay(count) }
    }

    /// The schedule for the addresses of one name.
    pub fn of_name(addresses: usize) -> Self {
        Self::new((0..addresses).map(|index| index > 0))
    }

    /// Decides the next attempt. `succeeded` says whether an address has succeeded.
    pub fn next(&mut self, now: Instant, succeeded: bool) -> DialStep {
        let mut wait = DialStep::Done;
        for name in self.names.iter_mut().filter(|name| name.next < name.end) {
            match name.after.filter(|after| *after > now && !succeeded) {
                Some(after) => {
                    wait = DialStep::Wait(if let DialStep::Wait(other) = wait { after.min(other) } else { after })
                }
                None => {
                    let index = name.next;
                    name.next += 1;
                    name.after = Some(now + self.delay);
                    name.dialled.insert(index);
                    return DialStep::Dial(index);
                }
            }
        }
        wait
    }

    /// Notes that the attempt at an address has failed. Further failures of it change nothing.
    pub fn failed(&mut self, index: usize) {
        for name in &mut self.names {
            if name.dialled.remove(&index) {
                name.after = None;
            }
        }
    }
}

/// Decides how long the opening of a stream waits for lanes once the first is up.
#[derive(Debug)]
pub struct AwaitedLanes {
    /// The number of the name that each lane leads to.
    names: Vec<usize>,
    /// The lanes that have neither come up nor failed.
    lanes: BTreeSet<usize>,
    /// The names with a lane that is up.
    reached: BTreeSet<usize>,
}

impl AwaitedLanes {
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
    /// RFC 8305's "Session Attempt Delay", for few lanes.
    pub const DELAY: Duration = Duration::from_millis(250);
    /// The longest time from the beginning of the first lane of a stream to that of the last. For
    /// the most lanes, the delay is 16 ms.
    pub const SPREAD: Duration = Duration::from_secs(1);
    /// RFC 8305's "Minimum Session Attempt Delay", also for more addresses than a stream has
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
    Transient,
    /// The attempt timed out, or the connection was refused: the lane goes on trying, and the
    /// stream does not wait for it.
    Unreachable,
    /// Another attempt would fail in the same way.
    Permanent,
}

/// The attempts of one lane until it is up for the first time.
#[derive(Debug)]
pub struct Attempts {
    backoff: Backoff,
    /// The waits while other lanes are up: the address of this lane may lead nowhere.
    spare: Backoff,
    transient: u32,
}

/// The next step of a lane after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The wait of the lane before its next attempt; `None` means until another lane has opened the
    /// stream.
    pub wait: Option<Duration>,
    /// Whether the lane counts as one that did not come up, so that the stream does not wait for
    /// it.
    pub counts_as_failed: bool,
}

impl Attempts {
    /// Decides the next step after a failed attempt. `is_open` says whether a lane has opened the
    /// stream, `is_spare` whether other lanes are up; `jitter` is any random number.
    pub fn after(&mut self, setback: Setback, is_open: bool, is_spare: bool, jitter: u8) -> Retry {
        let counts_as_failed = match setback {
            Setback::Busy => false,
            Setback::Transient => {
                self.transient += 1;
                self.transient > MAX_TRANSIENT
            }
            Setback::Unreachable | Setback::Permanent => true,
        };
        let wait = match setback {
            Setback::Permanent => is_open.then_some(PERMANENT_WAIT),
            Setback::Transient | Setback::Unreachable if is_spare => Some(self.spare.next_with(jitter)),
            _ => {
                self.spare = Backoff::black_hole();
                Some(self.backoff.next_with(jitter))
            }
        };
        Retry { wait, counts_as_failed }
    }
}

impl Default for Attempts {
    fn default() -> Self {
        Self { backoff: Backoff::default(), spare: Backoff::black_hole(), transient: 0 }
    }
}

/// After more [`Setback::Transient`] failures than this, a lane counts as failed: after about half
/// a second.
const MAX_TRANSIENT: u32 = 3;
/// How long a lane waits after a lasting refusal: a peer's operator may remove the cause.
const PERMANENT_WAIT: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_names_are_dialled_one_by_one() {
        let (begin, delay) = (Instant::now(), Race::DELAY);
        // A name of two addresses, and an address.
        let mut schedule = DialSchedule::new([false, true, false]);
        assert_eq!([schedule.next(begin, false), schedule.next(begin, false)], [DialStep::Dial(0), DialStep::Dial(2)]);
        assert_eq!(schedule.next(begin, false), DialStep::Wait(begin + delay));
        schedule.failed(2);
        assert_eq!(schedule.next(begin, false), DialStep::Wait(begin + delay), "the other name has failed");
        assert_eq!(
            [schedule.next(begin + delay, false), schedule.next(begin + delay, false)],
            [DialStep::Dial(1), DialStep::Done]
        );
    }

    #[test]
    fn the_next_address_is_dialled_once_one_fails() {
        let now = Instant::now();
        let mut schedule = DialSchedule::of_name(4);
        assert_eq!(
            [schedule.next(now, false), schedule.next(now, false)],
            [DialStep::Dial(0), DialStep::Wait(now + Race::DELAY)]
        );
        schedule.failed(0);
        assert_eq!(
            [schedule.next(now, false), schedule.next(now, false)],
            [DialStep::Dial(1), DialStep::Wait(now + Race::DELAY)]
        );
        schedule.failed(0);
        assert_eq!(schedule.next(now, false), DialStep::Wait(now + Race::DELAY), "it has failed before");
    }

    #[test]
    fn many_mute_addresses_are_dialled_10_ms_apart() {
        let mut now = Instant::now();
        let mut schedule = DialSchedule::of_name(2000);
        for index in 0..2000 {
            assert_eq!(schedule.next(now, false), DialStep::Dial(index));
            let next = now + Duration::from_millis(10);
            assert!(index == 1999 || schedule.next(now, false) == DialStep::Wait(next));
            now = next;
        }
        assert_eq!(schedule.next(now, false), DialStep::Done);
    }

    #[test]
    fn all_addresses_are_dialled_once_one_succeeds() {
        let now = Instant::now();
        let mut schedule = DialSchedule::of_name(3);
        assert_eq!(schedule.next(now, false), DialStep::Dial(0));
        let rest = [(); 3].map(|()| schedule.next(now, true));
        assert_eq!(rest, [DialStep::Dial(1), DialStep::Dial(2), DialStep::Done]);
    }

    #[test]
    fn further_addresses_of_a_name_get_a_moment() {
        let grace = Duration::from_secs(1);
        // A name of three addresses, and an address.
        let mut awaited = AwaitedLanes::new([false, true, true, false]);
        awaited.up(1);
        assert_eq!(awaited.grace(grace), grace, "the address is awaited");
        awaited.failed(3);
        assert_eq!(awaited.grace(grace), Race::DELAY);
        assert_eq!(awaited.grace(Duration::ZERO), Duration::ZERO);
        assert!(awaited.lanes().iter().eq(&[0, 2]));
        let mut awaited = AwaitedLanes::new([false, true, false]);
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
            let Retry { wait, counts_as_failed } = attempts.after(Setback::Busy, false, false, 7);
            assert!(wait.is_some() && !counts_as_failed);
        }
        let counts_as_failed: Vec<bool> =
            (0..5).map(|_| attempts.after(Setback::Transient, false, false, 7).counts_as_failed).collect();
        assert_eq!(counts_as_failed, [false, false, false, true, true]);
        assert_eq!(attempts.after(Setback::Permanent, false, false, 7), Retry { wait: None, counts_as_failed: true });
        assert_eq!(
            attempts.after(Setback::Permanent, true, true, 7),
            Retry { wait: Some(PERMANENT_WAIT), counts_as_failed: true }
        );
        assert!(matches!(
            attempts.after(Setback::Unreachable, true, true, 7),
            Retry { wait: Some(_), counts_as_failed: true }
        ));
    }

    #[test]
    fn a_spare_lane_is_dialled_less_and_less() {
        let mut attempts = Attempts::default();
        let mut waits = |is_spare: bool, count: usize| -> Vec<u128> {
            let wait = |_| attempts.after(Setback::Unreachable, true, is_spare, u8::MAX).wait.unwrap().as_millis();
            (0..count).map(wait).collect()
        };
        assert_eq!(waits(true, 9), [100, 200, 400, 800, 1600, 3200, 6400, 8000, 8000]);
        assert_eq!(waits(false, 4), [100, 200, 400, 400], "no other lane is up");
        assert_eq!(waits(true, 2), [100, 200]);
    }
}
