//! When to look next.

use std::time::Duration;

/// The pace of looks: quick at first, once a second while things change, once in five while they do
/// not, and never so often that looks take more than a share of a core.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
}

impl Pace {
    /// The pace of a program that begins.
    pub(crate) fn new() -> Self {
        Self { interval: FIRST }
    }

    /// The time to the first look.
    pub(crate) fn first(&self) -> Duration {
        self.interval
    }

    /// The time from the end of a look to the next one. `cost` is the CPU time of the look;
    /// `has_changed` says whether it saw anything new.
    pub(crate) fn next(&mut self, cost: Duration, has_changed: bool) -> Duration {
        let grown = self.interval * 2;
        self.interval = if has_changed { grown.min(BUSY) } else { grown.min(QUIET) };
        self.interval.max(cost * ONE_IN).min(SLOWEST)
    }
}

/// Threads of a program are there soon after it begins.
const FIRST: Duration = Duration::from_millis(125);
const BUSY: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_secs(5);
/// Looks take this part of a core at most, half of the limit of a thousandth: waking up and waiting
/// cost something as well.
const ONE_IN: u32 = 2000;
const SLOWEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn looks_slow_down_and_speed_up_again() {
        let mut pace = Pace::new();
        let quiet: Vec<u64> =
            (0..8).map(|_| pace.next(Duration::ZERO, false).as_millis().try_into().expect("small")).collect();
        assert_eq!(quiet, [250, 500, 1000, 2000, 4000, 5000, 5000, 5000]);
        assert_eq!(pace.next(Duration::ZERO, true), BUSY);
    }

    proptest! {
        #[test]
        fn looks_never_take_more_than_their_share(looks in prop::collection::vec((0_u64..20_000, any::<bool>()), 1..50)) {
            let mut pace = Pace::new();
            for (micros, has_changed) in looks {
                let cost = Duration::from_micros(micros);
                let next = pace.next(cost, has_changed);
                prop_assert!(next >= cost * ONE_IN && next <= SLOWEST, "{next:?}");
            }
        }
    }
}
