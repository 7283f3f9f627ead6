//! Guesses from the first few reads, before there is evidence of a pattern.

use crate::pattern::window::{Edges, Vector, Window};
use rails_array::{Region, Shape};
use std::collections::VecDeque;

/// A guess that the latest reads are the beginning of one loop, which ends at the edge of the
/// array, or of a loop of two or three reads.
///
/// One distance is no evidence, so a guess that fails twice is not made again until it is
/// [trusted](Self::trust) anew. It suits those who can bring too much at little cost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Guess {
    edges: Edges,
    /// The latest read comes first.
    reads: VecDeque<Window>,
    /// The read that was guessed to come next.
    expected: Option<Region>,
    failures: u32,
}

impl Guess {
    pub(crate) fn new(array: &Shape) -> Self {
        Self { edges: Edges::new(array), reads: VecDeque::new(), expected: None, failures: 0 }
    }

    /// Takes the next read.
    pub(crate) fn observe(&mut self, read: &Region) {
        let Some(window) = self.edges.window(read) else { return };
        if self.reads.front() == Some(&window) {
            return;
        }
        self.failures += u32::from(self.expected.take().is_some_and(|expected| expected != *read));
        self.reads.truncate(MAX_READS - 1);
        self.reads.push_front(window);
    }

    /// Reads follow patterns after all: guesses may fail anew.
    pub(crate) fn trust(&mut self) {
        self.failures = 0;
        self.expected = None;
    }

    /// The regions that may be read next, at most `max`, the next one first.
    pub(crate) fn next(&mut self, max: usize) -> Vec<Region> {
        if self.failures >= MAX_FAILURES {
            return Vec::new();
        }
        let mut guess = self.by_period(1, max);
        if guess.is_empty() {
            guess = self.by_row(max);
        }
        for period in 2..=MAX_PERIOD {
            if guess.is_empty() {
                guess = self.by_period(period, max);
            }
        }
        self.expected = guess.first().cloned();
        guess
    }

    /// The regions after a loop of that many reads, each of which is as far from the one a period
    /// before it as every other.
    fn by_period(&self, period: usize, max: usize) -> Vec<Region> {
        let pairs = || self.reads.iter().zip(self.reads.iter().skip(period));
        let Some((latest, before)) = pairs().next() else { return Vec::new() };
        let step = latest.start.minus(&before.start);
        let is_alike = |(read, before): (&Window, &Window)| {
            read.start.minus(&before.start) == step && read.extents == before.extents
        };
        if step.iter().all(|part| *part == 0) || !pairs().all(is_alike) {
            return Vec::new();
        }
        let mut run: Vec<Window> = self.reads.iter().take(period).rev().cloned().collect();
        let regions = (0..max).map_while(|number| {
            let read = &mut run[number % period];
            read.start = read.start.plus(&step);
            self.edges.cut(&read.start, &read.extents)
        });
        let mut regions: Vec<Region> = regions.collect();
        if period == 1 {
            self.add_rows(&step, max, &mut regions);
        }
        regions
    }

    /// The regions of a loop that has ended and begins anew at the latest read.
    fn by_row(&self, max: usize) -> Vec<Region> {
        let mut steps = self.reads.iter().skip(1).zip(self.reads.iter().skip(2));
        let step = steps.next().map(|(read, before)| read.start.minus(&before.start));
        let (Some(latest), Some(step)) = (self.reads.front(), step) else { return Vec::new() };
        let is_loop = self.reads.len() > 3 && steps.all(|(read, before)| read.start.minus(&before.start) == step);
        if !is_loop || self.reads.iter().any(|read| read.extents != latest.extents) {
            return Vec::new();
        }
        let mut start = latest.start.clone();
        let regions = (0..max).map_while(|_| {
            start = start.plus(&step);
            self.edges.cut(&start, &latest.extents)
        });
        regions.collect()
    }

    /// A loop that has come to the edge of the array begins anew, one box further along the axis
    /// before its own.
    fn add_rows(&self, step: &Vector, max: usize, regions: &mut Vec<Region>) {
        let moving = step.iter().position(|part| *part != 0).expect("a step leads somewhere");
        let Some(outer) = moving.checked_sub(1) else { return };
        let ahead = regions.iter().filter_map(|region| self.edges.window(region));
        let mut row: Vec<Window> = self.reads.iter().rev().cloned().chain(ahead).collect();
        while regions.len() < max {
            for read in &mut row {
                read.start[outer] = read.start[outer].saturating_add(read.extents[outer]);
            }
            let cut: Vec<Region> = row.iter().map_while(|read| self.edges.cut(&read.start, &read.extents)).collect();
            if cut.is_empty() {
                return;
            }
            regions.extend(cut.into_iter().take(max - regions.len()));
        }
    }
}

/// Two failures cost two guesses in the life of a reader without a pattern.
const MAX_FAILURES: u32 = 2;
const MAX_PERIOD: usize = 3;
/// The reads that have to agree with a guess.
const MAX_READS: usize = 2 * MAX_PERIOD;

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: [u64; 2]) -> Region {
        Region::new(start, Shape::new([1, 5]).unwrap()).unwrap()
    }

    fn after(reads: &[[u64; 2]]) -> Vec<Region> {
        let mut guess = Guess::new(&Shape::new([10, 100]).unwrap());
        reads.iter().for_each(|read| guess.observe(&region(*read)));
        guess.next(3)
    }

    #[test]
    fn one_distance_is_enough() {
        assert_eq!(after(&[[0, 0]]), []);
        assert_eq!(after(&[[0, 0], [2, 10]]), [[4, 20], [6, 30], [8, 40]].map(region));
        assert_eq!(after(&[[5, 0], [7, 10]]), [[9, 20]].map(region));
    }

    #[test]
    fn a_loop_at_the_edge_begins_anew() {
        assert_eq!(after(&[[0, 30], [0, 90]]), [[1, 30], [1, 90], [2, 30]].map(region));
        assert_eq!(after(&[[8, 0], [8, 40]]), [[8, 80], [9, 0], [9, 40]].map(region));
        assert_eq!(after(&[[9, 50], [9, 90]]), []);
    }

    #[test]
    fn a_loop_that_goes_on_elsewhere_is_the_same() {
        assert_eq!(after(&[[4, 0], [6, 0], [8, 0], [1, 50]]), [[3, 50], [5, 50], [7, 50]].map(region));
        assert_eq!(after(&[[3, 0], [4, 0], [6, 0], [8, 0], [1, 50]]), []);
    }

    #[test]
    fn two_levels_at_each_step_are_guessed() {
        assert_eq!(after(&[[0, 30], [0, 90], [1, 30]]), [[1, 90], [2, 30], [2, 90]].map(region));
        assert_eq!(after(&[[0, 30], [0, 90], [1, 30], [1, 90]]), [[2, 30], [2, 90], [3, 30]].map(region));
    }

    #[test]
    fn guesses_that_fail_twice_end() {
        let mut guess = Guess::new(&Shape::new([10, 100]).unwrap());
        let mut guessed = 0;
        for number in 0..20_u64 {
            guess.observe(&region([number.pow(3) % 7, number.pow(4) % 83]));
            guessed += usize::from(!guess.next(1).is_empty());
        }
        assert_eq!(guessed, 2);
        guess.trust();
        [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0], [5, 0]].into_iter().for_each(|read| guess.observe(&region(read)));
        assert_eq!(guess.next(1), [region([6, 0])]);
    }

    #[test]
    fn repeated_reads_are_no_distance() {
        assert_eq!(after(&[[0, 0], [0, 0], [2, 10]]).len(), 3);
        assert_eq!(after(&[[0, 0], [2, 10], [2, 10]]).len(), 3);
    }
}
