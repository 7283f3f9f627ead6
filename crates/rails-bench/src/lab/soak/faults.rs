//! The faults and their times: drawn from a seed, without a clock.

use crate::lab::fault::{Fault, Happening};
use rails_lab::Side;
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng, seq::IndexedRandom};
use std::time::Duration;

/// Draws faults. At any time at least one link is whole, but for an outage now and then: all links
/// are down for less than [`LONGEST_OUTAGE`].
#[derive(Debug)]
pub(super) struct Faults {
    random: ChaCha8Rng,
    /// For each link with a fault, the fault and its end.
    wrong: Vec<Option<(Fault, Duration)>>,
    next: Duration,
}

impl Faults {
    pub(super) fn new(seed: u64, links: usize) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), wrong: vec![None; links], next: QUIET }
    }

    /// The changes that are due now.
    pub(super) fn at(&mut self, now: Duration) -> Vec<Happening> {
        let mut happenings = self.over(|until| until <= now);
        if now < self.next {
            return happenings;
        }
        self.next = now + self.between(50..1_500);
        let whole: Vec<usize> = (0..self.wrong.len()).filter(|link| self.wrong[*link].is_none()).collect();
        let begun = if self.random.random_bool(OUTAGES) {
            let until = now + self.between(100..LONGEST_OUTAGE.as_millis() as u64);
            // The other links have faults of their own, which may last longer.
            whole.iter().map(|link| (*link, Fault::Down(self.side()), until)).collect()
        } else {
            match whole.choose(&mut self.random).filter(|_| whole.len() > 1) {
                Some(link) => vec![(*link, self.draw(), now + self.between(100..3_000))],
                None => Vec::new(),
            }
        };
        for (link, fault, until) in begun {
            self.wrong[link] = Some((fault, until));
            happenings.push(Happening { link, fault, begins: true });
        }
        happenings
    }

    /// The changes that make every link whole again.
    pub(super) fn end(&mut self) -> Vec<Happening> {
        self.over(|_| true)
    }

    fn over(&mut self, due: impl Fn(Duration) -> bool) -> Vec<Happening> {
        let mut happenings = Vec::new();
        for (link, wrong) in self.wrong.iter_mut().enumerate() {
            if let Some((fault, _)) = wrong.take_if(|(_, until)| due(*until)) {
                happenings.push(Happening { link, fault, begins: false });
            }
        }
        happenings
    }

    fn draw(&mut self) -> Fault {
        match self.random.random_range(0..6) {
            0 | 1 => Fault::Rate(*RATES.choose(&mut self.random).expect("there are rates")),
            2 => Fault::Down(self.side()),
            3 => Fault::BlackHole(self.side()),
            4 => Fault::FullBlackHole,
            _ => Fault::Reset,
        }
    }

    fn side(&mut self) -> Side {
        *Side::BOTH.choose(&mut self.random).expect("there are two")
    }

    fn between(&mut self, milliseconds: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(milliseconds))
    }
}

/// From a hundredth of a link's intended rate to several times as much.
const RATES: [u64; 5] = [2, 10, 50, 400, 1_000];
/// The time before the first fault.
const QUIET: Duration = Duration::from_millis(500);
/// The probability that all links fail at once instead of one.
const OUTAGES: f64 = 0.05;
/// The longest time that all links fail: far less than a stream waits.
pub(super) const LONGEST_OUTAGE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_links_but_for_short_outages() {
        let (mut outages, mut count) = (0, 0);
        for seed in 0..50 {
            let mut faults = Faults::new(seed, 3);
            let (mut broken, mut none_since) = ([false; 3], None);
            for now in (0..60_000).step_by(20).map(Duration::from_millis) {
                for Happening { link, begins, .. } in faults.at(now) {
                    assert_ne!(broken[link], begins, "a link changes from one to the other");
                    broken[link] = begins;
                    count += 1;
                }
                if broken.contains(&false) {
                    none_since = None;
                } else if let Some(since) = none_since {
                    assert!(now - since < LONGEST_OUTAGE);
                } else {
                    none_since = Some(now);
                    outages += 1;
                }
            }
            faults.end().iter().for_each(|happening| broken[happening.link] = false);
            assert_eq!(broken, [false; 3]);
        }
        assert!(outages > 50 && count > 30 * 50, "{outages} outages among {count} changes in 50 minutes");
    }

    #[test]
    fn the_same_seed_draws_the_same_faults() {
        let drawn = |seed| {
            let mut faults = Faults::new(seed, 4);
            (0..1_000).flat_map(|tick| faults.at(Duration::from_millis(tick * 20))).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }
}
