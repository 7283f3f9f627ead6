//! The answers of detectors.

use rails_array::Region;

/// A pattern of access, by the name that the thesis gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pattern {
    /// Boxes that adjoin each other along an axis.
    Sequential,
    /// Boxes at a constant distance.
    Stride,
    /// A stride within a stride: two to four nested loops, as of a program that reads row by row,
    /// level by level and time step by time step.
    Nest,
    /// Boxes that overlap or touch each other around a moving point of interest.
    Neighbourhood,
    /// A list of regions that the program has told.
    Apriori,
    /// The box of a rank becomes that of its neighbour.
    Consecutive,
    /// No order that could be foretold.
    Random,
}

/// A region that is likely to be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// The region: within the array, never empty, and another one than was just read.
    pub region: Region,
    /// The pattern that foretells it.
    pub pattern: Pattern,
}

/// The regions that are likely to be read next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Predictions {
    /// The regions, the next one first. None is there twice.
    pub next: Vec<Prediction>,
    /// How much of the depth these predictions deserve.
    pub confidence: Confidence,
}

/// A factor of 1, 1/2, 1/4 and so on: how much of the depth a detector's predictions deserve.
///
/// Two misses in a row halve it, four hits in a row restore it. A miss is a read that was not
/// foretold while something was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Confidence {
    halvings: u8,
    hits: u8,
    misses: u8,
}

impl Confidence {
    /// The factor 1.
    pub const FULL: Self = Self { halvings: 0, hits: 0, misses: 0 };

    /// How often the factor was halved: it is 1 / 2^halvings.
    pub fn halvings(self) -> u8 {
        self.halvings
    }

    /// That part of an amount, rounded down.
    pub fn of(self, amount: u64) -> u64 {
        amount >> self.halvings
    }

    pub(crate) fn hit(&mut self) {
        self.misses = 0;
        self.hits = (self.hits + 1).min(HITS_THAT_RESTORE);
        if self.hits == HITS_THAT_RESTORE {
            self.halvings = 0;
        }
    }

    pub(crate) fn miss(&mut self) {
        self.hits = 0;
        self.misses += 1;
        if self.misses == MISSES_THAT_HALVE {
            self.misses = 0;
            self.halvings = (self.halvings + 1).min(MAX_HALVINGS);
        }
    }
}

const HITS_THAT_RESTORE: u8 = 4;
const MISSES_THAT_HALVE: u8 = 2;
/// The smallest factor is 1/256, which leaves no block of any usual depth.
const MAX_HALVINGS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_misses_in_a_row_halve() {
        let mut confidence = Confidence::FULL;
        for _ in 0..8 {
            confidence.miss();
            confidence.hit();
        }
        assert_eq!(confidence.of(100), 100);
        confidence.miss();
        assert_eq!(confidence.of(100), 100);
        confidence.miss();
        assert_eq!(confidence.of(100), 50);
        confidence.miss();
        assert_eq!(confidence.of(100), 50);
        confidence.miss();
        assert_eq!(confidence.of(100), 25);
    }

    #[test]
    fn four_hits_in_a_row_restore() {
        let mut confidence = Confidence::FULL;
        for _ in 0..100 {
            confidence.miss();
        }
        assert_eq!((confidence.halvings(), confidence.of(511)), (8, 1));
        for _ in 0..3 {
            confidence.hit();
        }
        assert_eq!(confidence.halvings(), 8);
        confidence.hit();
        assert_eq!(confidence.halvings(), 0);
    }

    #[test]
    fn a_miss_interrupts_a_run_of_hits() {
        let mut confidence = Confidence::FULL;
        confidence.miss();
        confidence.miss();
        for _ in 0..3 {
            confidence.hit();
        }
        confidence.miss();
        confidence.hit();
        assert_eq!(confidence.halvings(), 1);
    }
}
