//! What goes wrong, and when: drawn from a seed, without a clock.

use rails_lab::Side;
use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use std::{fmt, time::Duration};

/// What can be wrong with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It carries another rate.
    Rate { mbit: u64 },
    /// One end is down.
    Down(Side),
    /// Its connections are reset; it goes on as before.
    Reset,
}

/// A link changes: to a fault, or back to what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Happening {
    pub(super) link: usize,
    pub(super) fault: Option<Fault>,
}

/// Draws faults. At any time at least one link is whole.
#[derive(Debug)]
pub(super) struct Faults {
    random: ChaCha8Rng,
    /// Of each link that is not whole, when it will be.
    until: Vec<Option<Duration>>,
    next: Duration,
    with_resets: bool,
}

impl Faults {
    pub(super) fn new(seed: u64, links: usize, with_resets: bool) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { random, until: vec![None; links], next: QUIET, with_resets }
    }

    /// What happens now.
    pub(super) fn at(&mut self, now: Duration) -> Vec<Happening> {
        let mut happenings = self.back(|until| until <= now);
        if now >= self.next {
            self.next = now + self.between(50..1_500);
            let whole: Vec<usize> = (0..self.until.len()).filter(|link| self.until[*link].is_none()).collect();
            if let Some(link) = whole.choose(&mut self.random).filter(|_| whole.len() > 1) {
                let fault = self.draw();
                self.until[*link] = Some(now + self.between(100..3_000));
                happenings.push(Happening { link: *link, fault: Some(fault) });
            }
        }
        happenings
    }

    /// What makes every link whole again.
    pub(super) fn end(&mut self) -> Vec<Happening> {
        self.back(|_| true)
    }

    fn back(&mut self, due: impl Fn(Duration) -> bool) -> Vec<Happening> {
        let mut happenings = Vec::new();
        for (link, until) in self.until.iter_mut().enumerate() {
            if until.is_some_and(&due) {
                *until = None;
                happenings.push(Happening { link, fault: None });
            }
        }
        happenings
    }

    fn draw(&mut self) -> Fault {
        match self.random.random_range(0..if self.with_resets { 5 } else { 4 }) {
            0 | 1 => Fault::Rate { mbit: *RATES.choose(&mut self.random).expect("there are rates") },
            2 => Fault::Down(Side::A),
            3 => Fault::Down(Side::B),
            _ => Fault::Reset,
        }
    }

    fn between(&mut self, milliseconds: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(milliseconds))
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}: ", self.link)?;
        match self.fault {
            Some(Fault::Rate { mbit }) => write!(f, "{mbit} Mbit/s"),
            Some(Fault::Down(Side::A)) => f.write_str("down at side A"),
            Some(Fault::Down(Side::B)) => f.write_str("down at side B"),
            Some(Fault::Reset) => f.write_str("connections reset"),
            None => f.write_str("whole again"),
        }
    }
}

/// From a hundredth of what a link should carry to several times as much.
const RATES: [u64; 5] = [2, 10, 50, 400, 1_000];
/// Before the first fault.
const QUIET: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_link_is_always_whole_and_all_are_in_the_end() {
        for seed in 0..50 {
            let mut faults = Faults::new(seed, 3, seed % 2 == 0);
            let mut broken = [false; 3];
            let mut count = 0;
            for milliseconds in (0..60_000).step_by(20) {
                for Happening { link, fault } in faults.at(Duration::from_millis(milliseconds)) {
                    assert_ne!(broken[link], fault.is_some(), "a link changes from one to the other");
                    broken[link] = fault.is_some();
                    count += 1;
                }
                assert!(broken.contains(&false));
            }
            assert!(count > 30, "{count} changes in a minute");
            faults.end().iter().for_each(|happening| broken[happening.link] = false);
            assert_eq!(broken, [false; 3]);
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_faults() {
        let drawn = |seed| {
            let mut faults = Faults::new(seed, 4, true);
            (0..1_000).flat_map(|tick| faults.at(Duration::from_millis(tick * 20))).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }
}
