//! The spread of the figures of several runs.

use serde::Serialize;
use std::fmt;

/// Median, minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value; of an even number of values the mean of the middle two.
    pub median: f64,
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
}

impl Spread {
    /// The spread of these values; `None` of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { median, min, max })
    }
}

/// The median, and the range in brackets, with three decimals.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}..{:.3}]", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_spread_is_of_odd_and_even_numbers_of_values() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }

    proptest! {
        #[test]
        fn a_median_lies_between_the_least_and_the_most(values in prop::collection::vec(0.0..1e12_f64, 1..50)) {
            let spread = Spread::of(values).unwrap();
            prop_assert!(spread.min <= spread.median && spread.median <= spread.max);
        }
    }
}
