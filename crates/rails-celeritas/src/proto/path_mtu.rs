//! The path's MTU, found by probes: DPLPMTUD (RFC 8899).
//!
//! Sizes are those of a segment's payload. A probe is a padded packet without data, so that the
//! loss of one delays nothing and tells nothing about congestion.
//!
//! ```text
//!            most sizes answered, or none              600 s
//!  Searching -----------------------------> Complete ---------> Searching
//!    ^                                         |
//!    |            nothing large arrives        v
//!    +-------------------------------------- Suspect ---> Complete (nothing is answered)
//!      an answer to the present size; or
//!      to the base alone: from there
//! ```

use super::grace::Grace;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The search for the largest payload that the path carries.
#[derive(Debug)]
pub struct PathMtu {
    /// The payload that tells a path that is too small from a dead one; `None` where no smaller
    /// packet may be sent.
    floor: Option<u32>,
    base: u32,
    max: u32,
    /// The bytes of an IP packet around the payload.
    overhead: u32,
    current: u32,
    state: SearchState,
    /// The sizes of probes that are to be sent.
    wanted: VecDeque<u32>,
    sent: Vec<Probe>,
    /// The probes of earlier rounds, whose answers may be late.
    late: VecDeque<Probe>,
    /// When the probes of this round have had their time.
    ends_at: Option<Instant>,
    grace: Grace,
    is_second_try: bool,
    /// The suspicions in a row that nothing was heard of: the path may have become a longer one.
    silent: u32,
    is_too_small: bool,
}

/// A probe under way.
#[derive(Debug, Clone, Copy)]
struct Probe {
    packet: u64,
    size: u32,
}

#[derive(Debug, Clone, Copy)]
enum SearchState {
    /// The largest payload is at least the first, and below the second.
    Searching {
        low: u32,
        high: u32,
    },
    Complete {
        raise_at: Option<Instant>,
    },
    /// Whether the base has been answered, and a smaller packet.
    Suspect {
        base: bool,
        floor: bool,
    },
}

impl PathMtu {
    /// Begins with payloads of `base` bytes, which nearly every path carries, and searches up to
    /// `max`. `overhead` are the bytes of an IP packet around the payload.
    pub fn new(base: u32, max: u32, overhead: u32, floor: Option<u32>) -> Self {
        let base = base.min(max);
        let mut mtu = Self {
            floor: floor.filter(|floor| *floor < base),
            base,
            max,
            overhead,
            current: base,
            state: SearchState::Complete { raise_at: None },
            wanted: VecDeque::new(),
            sent: Vec::new(),
            late: VecDeque::new(),
            ends_at: None,
            grace: Grace::default(),
            is_second_try: false,
            silent: 0,
            is_too_small: false,
        };
        mtu.search(base, max + 1);
        mtu
    }

    /// The payload that the path is known to carry, or taken to.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// The payload with which the search began.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Whether the path has carried smaller packets than the base since one of the base has
    /// arrived.
    pub fn is_too_small(&self) -> bool {
        self.is_too_small
    }

    /// Whether no probe is under way or to be sent.
    pub fn is_done(&self) -> bool {
        matches!(self.state, SearchState::Complete { .. })
    }

    /// Whether the present size is in question.
    pub fn is_suspect(&self) -> bool {
        matches!(self.state, SearchState::Suspect { .. })
    }

    /// The next probe is too large for a search: it looks below.
    pub fn skip(&mut self, now: Instant) {
        if let (SearchState::Searching { low, .. }, Some(size)) = (self.state, self.wanted.pop_front()) {
            self.settle(now, low, size.max(low + 1));
        }
    }

    /// The size of the next probe.
    pub fn next_probe(&self) -> Option<u32> {
        self.wanted.front().copied()
    }

    /// Takes the next probe, which leaves now as that packet. An answer takes at most `timeout`, or
    /// longer if nothing was heard of the last ones.
    pub fn take_probe(&mut self, now: Instant, packet: u64, timeout: Duration) -> Option<u32> {
        let size = self.wanted.pop_front()?;
        self.sent.push(Probe { packet, size });
        self.ends_at = Some(now + timeout * (1 << self.silent.min(MAX_DOUBLED)));
        Some(size)
    }

    /// The peer has received a probe. An answer to a probe that is not under way changes nothing.
    /// Returns whether the path carries the base by this answer.
    pub fn handle_answer(&mut self, now: Instant, packet: u64) -> bool {
        let of_packet = |probe: &Probe| probe.packet == packet;
        if let Some(index) = self.sent.iter().position(of_packet) {
            let size = self.sent.swap_remove(index).size;
            self.handle_size(now, size);
            return size >= self.base;
        }
        let late = self.late.iter().position(of_packet).and_then(|index| self.late.remove(index));
        let carried = late.map(|probe| probe.size).filter(|size| *size >= self.base);
        if let Some(size) = carried.filter(|size| *size > self.current && !self.is_suspect()) {
            // The search goes on above it.
            self.current = size;
            self.search(size, self.max + 1);
        }
        carried.is_some()
    }

    /// Segments arrive: the path is neither a dead one nor too small.
    pub fn handle_arrivals(&mut self) {
        (self.silent, self.is_too_small) = (0, false);
    }

    /// Notes that the path carries packets of that size.
    fn handle_size(&mut self, now: Instant, size: u32) {
        self.silent = 0;
        self.is_too_small &= size < self.base;
        match &mut self.state {
            SearchState::Searching { low, high } => {
                *low = size.max(*low);
                let (low, high) = (*low, *high);
                self.current = self.current.max(low);
                self.sent.retain(|probe| probe.size > low);
                self.wanted.retain(|wanted| *wanted > low);
                if self.sent.is_empty() && self.wanted.is_empty() || high - low <= PRECISION {
                    self.settle(now, low, high);
                }
            }
            // The suspicion may have interrupted a search.
            SearchState::Suspect { .. } if size >= self.current => self.settle(now, self.current, self.max + 1),
            SearchState::Suspect { base, floor } => {
                *(if size >= self.base { base } else { floor }) = true;
            }
            SearchState::Complete { .. } => {}
        }
    }

    /// A probe could not be sent: the interface takes no packet of that size.
    pub fn handle_refused(&mut self, now: Instant, packet: u64) {
        let Some(index) = self.sent.iter().position(|probe| probe.packet == packet) else { return };
        let size = self.sent.swap_remove(index).size;
        if let SearchState::Searching { low, .. } = self.state {
            self.settle(now, low, size.max(low + 1));
        }
    }

    /// Nothing larger than the base arrives any more, or nothing at all: the present size is
    /// checked.
    pub fn suspect(&mut self) {
        if self.is_suspect() {
            return;
        }
        self.state = SearchState::Suspect { base: false, floor: false };
        self.begin([Some(self.current), Some(self.base), self.floor].into_iter().flatten());
    }

    /// Excuses a time in which this end did not run: answers may have come. The round waits for
    /// them until the end of a pause, as long as it has grace.
    pub fn excuse(&mut self, now: Instant, time: Duration, pause: Duration) {
        self.ends_at = self.ends_at.map(|ends_at| self.grace.extend(ends_at + time, now, pause));
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            SearchState::Complete { raise_at } => raise_at,
            _ if self.wanted.is_empty() => self.ends_at,
            _ => None,
        }
    }

    /// Serves the timer. A call that comes early does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return;
        }
        let smallest = self.sent.iter().map(|probe| probe.size).min();
        match self.state {
            SearchState::Complete { .. } => self.search(self.current, self.max + 1),
            // One loss tells nothing. Two more probes at once are enough: a wrong result is a smaller one, for a while.
            SearchState::Searching { .. } if !self.is_second_try => {
                self.is_second_try = true;
                self.wanted.extend(smallest.into_iter().cycle().take(2));
            }
            SearchState::Searching { low, high } => self.settle(now, low, smallest.unwrap_or(high)),
            SearchState::Suspect { base, floor } if !self.is_second_try => {
                self.is_second_try = true;
                let again = [Some(self.current), (!base).then_some(self.base), self.floor.filter(|_| !floor)];
                self.wanted.extend(again.into_iter().flatten().cycle().take(6));
            }
            SearchState::Suspect { base: true, .. } if self.current > self.base => {
                let failed = std::mem::replace(&mut self.current, self.base);
                self.late.clear();
                self.search(self.base, failed);
            }
            SearchState::Suspect { base: false, floor: true } => {
                self.is_too_small = true;
                self.done(now);
            }
            SearchState::Suspect { base, floor } => {
                self.silent += u32::from(!base && !floor);
                // The suspicion may have interrupted a search.
                self.settle(now, self.current, self.max + 1);
            }
        }
    }

    /// The largest payload is at least `low` and below `high`.
    fn settle(&mut self, now: Instant, low: u32, high: u32) {
        if high - low <= PRECISION { self.done(now) } else { self.search(low, high) }
    }

    fn search(&mut self, low: u32, high: u32) {
        if high - low <= 1 {
            self.state = SearchState::Complete { raise_at: None };
            return self.begin([]);
        }
        self.state = SearchState::Searching { low, high };
        self.begin(candidates(low, high, self.max, self.overhead));
    }

    fn done(&mut self, now: Instant) {
        let can_rise = self.max - self.current > PRECISION;
        self.state = SearchState::Complete { raise_at: can_rise.then(|| now + RAISE_AFTER) };
        self.begin([]);
    }

    /// Begins a round with these probes.
    fn begin(&mut self, sizes: impl IntoIterator<Item = u32>) {
        self.wanted = sizes.into_iter().collect();
        self.wanted.make_contiguous().sort_unstable();
        self.wanted = self.wanted.iter().copied().rev().collect();
        self.late.extend(self.sent.drain(..));
        self.late.drain(..self.late.len().saturating_sub(MAX_LATE));
        (self.ends_at, self.grace, self.is_second_try) = (None, Grace::default(), false);
    }
}

/// The sizes to try of those above `low` and below `high`: the largest of all, and of the others
/// the quartiles, or MTUs of common links near them.
fn candidates(low: u32, high: u32, max: u32, overhead: u32) -> Vec<u32> {
    let part = (high - low) / 4;
    let near = |quarter: u32| {
        let middle = low + quarter * (high - low) / 4;
        let common = COMMON.iter().map(|mtu| mtu.saturating_sub(overhead));
        let near = common.filter(|size| size.abs_diff(middle) <= part && low < *size && *size < high);
        near.min_by_key(|size| size.abs_diff(middle)).unwrap_or(middle)
    };
    let mut sizes: Vec<u32> = (1..4).map(near).filter(|size| low < *size && *size < high).collect();
    if high > max {
        sizes.push(max);
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The search ends when the largest payload is known within this number of bytes.
const PRECISION: u32 = 32;
/// When a larger size is tried again: PMTU_RAISE_TIMER of RFC 8899, section 5.1.1.
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// The most probes that a late answer is awaited for: those of two rounds.
const MAX_LATE: usize = 16;
/// The time for an answer doubles at most this often.
const MAX_DOUBLED: u32 = 6;
/// MTUs of links: Ethernet with jumbo frames, with a VXLAN inside them, FDDI, Ethernet, PPPoE,
/// 6in4, VXLAN, WireGuard, tunnels.
const COMMON: [u32; 9] = [9000, 8950, 4352, 1500, 1492, 1480, 1450, 1420, 1400];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const AROUND: u32 = 68;

    /// A path that carries IP packets up to `mtu`, and loses some of the rest.
    struct Path {
        mtu: u32,
        lost: Vec<bool>,
    }

    /// Runs until the search is done. Returns the time that it took, and the number of probes.
    fn run(path: &Path, mtu: &mut PathMtu, begin: Instant) -> (Duration, usize) {
        // No number is used twice.
        let first = mtu.late.back().map_or(0, |probe| probe.packet + 1);
        let (mut now, mut packet, mut answers) = (begin, first, VecDeque::new());
        let mut lost = path.lost.iter().cycle();
        while !mtu.is_done() {
            while mtu.next_probe().is_some() {
                let size = mtu.take_probe(now, packet, 45 * MS).unwrap();
                if size + AROUND <= path.mtu && !lost.next().unwrap() {
                    answers.push_back((now + 19 * MS, packet));
                }
                packet += 1;
            }
            let timeout = mtu.poll_timeout();
            match answers.front().copied().filter(|(at, _)| timeout.is_none_or(|timeout| *at <= timeout)) {
                Some((at, packet)) => {
                    answers.pop_front();
                    now = now.max(at);
                    mtu.handle_answer(now, packet);
                }
                None => {
                    now = now.max(timeout.expect("the search goes on"));
                    mtu.handle_timeout(now);
                }
            }
            assert!(packet < first + 500, "{mtu:?}");
        }
        (now - begin, (packet - first) as usize)
    }

    fn of(max: u32) -> PathMtu {
        PathMtu::new(1280 - AROUND, max - AROUND, AROUND, Some(576 - AROUND))
    }

    #[test]
    fn common_paths_are_found_exactly_and_soon() {
        for (path, max, round_trips) in [(1500, 1500, 1), (9000, 9000, 1), (1500, 9000, 60), (1280, 1500, 60)] {
            let mut mtu = of(max);
            let (time, probes) = run(&Path { mtu: path, lost: vec![false] }, &mut mtu, Instant::now());
            println!("{path} of {max}: {} after {time:?} and {probes} probes", mtu.current() + AROUND);
            assert_eq!(mtu.current() + AROUND, path);
            assert!(time <= round_trips * 19 * MS, "{path} of {max}: {time:?}");
        }
    }

    proptest! {
        #[test]
        fn every_path_is_found_closely(path in 1280..9000u32, max in 1281..9001u32) {
            let mut mtu = of(max);
            let (time, _) = run(&Path { mtu: path, lost: vec![false] }, &mut mtu, Instant::now());
            let best = path.min(max) - AROUND;
            prop_assert!((best - PRECISION..=best).contains(&mtu.current()), "{} of {best}", mtu.current());
            prop_assert!(time < 2000 * MS, "{time:?}");
        }

        /// The result is never larger than the path, and a later search finds the rest.
        #[test]
        fn losses_make_it_smaller_at_most(
            path in 1280..9000u32, lost in proptest::collection::vec(proptest::bool::weighted(0.2), 50),
        ) {
            let (mut mtu, begin) = (of(9000), Instant::now());
            run(&Path { mtu: path, lost }, &mut mtu, begin);
            prop_assert!(mtu.current() + AROUND <= path);
            if let Some(at) = mtu.poll_timeout() {
                prop_assert!(at >= begin + RAISE_AFTER);
                mtu.handle_timeout(at);
                run(&Path { mtu: path, lost: vec![false] }, &mut mtu, at);
            }
            prop_assert!(mtu.current() + AROUND + PRECISION >= path);
        }

        #[test]
        fn changed_path_is_found_again(before in 1400..9000u32, after in 1280..9000u32) {
            let (mut mtu, now) = (of(9000), Instant::now());
            run(&Path { mtu: before, lost: vec![false] }, &mut mtu, now);
            mtu.suspect();
            run(&Path { mtu: after, lost: vec![false] }, &mut mtu, now);
            let best = after - AROUND;
            prop_assert!((best - PRECISION..=best).contains(&mtu.current()), "{} of {best}", mtu.current());
        }
    }

    #[test]
    fn answers_that_were_not_asked_for() {
        let (mut mtu, now) = (of(9000), Instant::now());
        assert!((1000..1100).all(|packet| !mtu.handle_answer(now, packet)));
        assert_eq!(mtu.current(), mtu.base());
        run(&Path { mtu: 1500, lost: vec![false] }, &mut mtu, now);
        let known = mtu.current();
        assert!((1000..1100).all(|packet| !mtu.handle_answer(now, packet)));
        assert_eq!(mtu.current(), known);
    }

    /// The peer was busy.
    #[test]
    fn late_answer_corrects_the_search() {
        let (mut mtu, now) = (of(1500), Instant::now());
        mtu.take_probe(now, 1_000_000, MS);
        run(&Path { mtu: 0, lost: vec![false] }, &mut mtu, now);
        assert_eq!(mtu.current(), mtu.base());
        mtu.handle_answer(now, 1_000_000);
        assert_eq!(mtu.current() + AROUND, 1500);
    }

    /// The sender's process was stopped. The answers have come, and were not read yet.
    #[test]
    fn absence_of_this_end_loses_no_probe() {
        let (mut mtu, begin) = (of(1500), Instant::now());
        while mtu.take_probe(begin, 0, 45 * MS).is_some() {}
        let now = begin + 20_000 * MS;
        mtu.excuse(now, 19_955 * MS, 300 * MS);
        mtu.handle_timeout(now + 299 * MS);
        assert!(mtu.next_probe().is_none());
        mtu.handle_timeout(now + 300 * MS);
        assert!(mtu.next_probe().is_some(), "they are lost");
    }

    #[test]
    fn suspicion_without_cause_changes_nothing() {
        let (mut mtu, now) = (of(1500), Instant::now());
        let path = Path { mtu: 1500, lost: vec![true, false] };
        run(&path, &mut mtu, now);
        mtu.suspect();
        run(&path, &mut mtu, now);
        assert_eq!((mtu.current() + AROUND, mtu.is_too_small()), (1500, false));
    }

    #[test]
    fn small_path_is_told_from_a_dead_one() {
        for (path, is_too_small) in [(1000, true), (0, false)] {
            let (mut mtu, now) = (of(1500), Instant::now());
            mtu.suspect();
            run(&Path { mtu: path, lost: vec![false] }, &mut mtu, now);
            assert_eq!(mtu.is_too_small(), is_too_small, "{path}");
        }
    }

    #[test]
    fn interface_that_refuses_ends_the_probe_at_once() {
        let (mut mtu, now) = (of(9000), Instant::now());
        let size = mtu.take_probe(now, 0, MS).unwrap();
        assert_eq!(size + AROUND, 9000);
        mtu.handle_refused(now, 0);
        assert!(mtu.next_probe().unwrap() < size);
    }
}
