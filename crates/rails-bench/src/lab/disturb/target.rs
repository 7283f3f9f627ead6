//! The measures, and their targets.

use super::Scenario;
use serde::Serialize;
use std::fmt;

/// A measure of each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    /// Seconds from the change until the rate is within 5 % of the new ceiling.
    SettledAfterChange,
    /// Seconds from the end of the change until the rate is within 5 % of the ceiling at that time.
    SettledAfterReturn,
    /// The longest time in seconds, from the change on, in which the application read nothing.
    LongestGap,
    /// Seconds from the end of the change until the link carries a quarter of its rate.
    UsedAgain,
    /// Bytes that were written and not read, or read and not written.
    LostOrDoubled,
}

impl Measure {
    /// All measures.
    pub(crate) const ALL: [Self; 5] =
        [Self::SettledAfterChange, Self::SettledAfterReturn, Self::LongestGap, Self::UsedAgain, Self::LostOrDoubled];

    /// The limit for a stream, in seconds or bytes; `None` without a target.
    pub(crate) fn target(self, scenario: Scenario) -> Option<f64> {
        use Scenario::{BlackHole, BlackHoleBack, BlackHoleBoth, Crawl, Down, Step};
        match (self, scenario) {
            (Self::SettledAfterChange | Self::SettledAfterReturn, Step) => Some(0.5),
            (Self::LongestGap, Down) => Some(0.1),
            (Self::LongestGap, BlackHole | BlackHoleBack | BlackHoleBoth) => Some(0.3),
            (Self::UsedAgain, Down | BlackHole | BlackHoleBack | BlackHoleBoth | Crawl) => Some(2.0),
            (Self::LostOrDoubled, _) => Some(0.0),
            _ => None,
        }
    }

    /// A value of the measure, as text.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::LostOrDoubled => format!("{value:.0}"),
            _ => format!("{:.0}", value * 1e3),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SettledAfterChange => "within 5 % of the new ceiling after the change, ms",
            Self::SettledAfterReturn => "within 5 % of the ceiling after the return, ms",
            Self::LongestGap => "longest receive gap, ms",
            Self::UsedAgain => "link used again after its return, ms",
            Self::LostOrDoubled => "bytes lost or doubled",
        })
    }
}
