//! The disturbances of a link, and their times.

use crate::lab::fault::Fault;
use clap::ValueEnum;
use rails_lab::Side;
use serde::Serialize;
use std::{fmt, time::Duration};

/// A disturbance of the last link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// The link's rate falls to a tenth, and comes back
    Step,
    /// The receiver's interface goes down, and comes up again
    Down,
    /// The receiver drops every packet in silence for a while
    BlackHole,
    /// The sender drops every packet that comes back, in silence (not by default)
    BlackHoleBack,
    /// Both ends drop every packet in silence (not by default)
    BlackHoleBoth,
    /// The link's rate falls to 1 Mbit/s: the link is slow, and not gone (not by default)
    Crawl,
}

impl Scenario {
    /// The disturbances if none is chosen.
    pub(crate) const USUAL: [Self; 3] = [Self::Step, Self::Down, Self::BlackHole];

    /// The fault of a link of this rate, from a third to two thirds of the time.
    pub(super) fn fault(self, mbit: u64) -> Fault {
        match self {
            Self::Step => Fault::Rate((mbit / 10).max(1)),
            Self::Down => Fault::Down(Side::B),
            Self::BlackHole => Fault::BlackHole(Side::B),
            Self::BlackHoleBack => Fault::BlackHole(Side::A),
            Self::BlackHoleBoth => Fault::FullBlackHole,
            Self::Crawl => Fault::Rate(1),
        }
    }
}

/// The times of the events, in a run of this length.
pub(super) fn times(length: Duration) -> [Duration; 2] {
    [length / 3, length * 2 / 3]
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Step => "the rate falls to a tenth and comes back",
            Self::Down => "the receiver's interface goes down and comes up",
            Self::BlackHole => "the receiver drops all arrivals, and then no more",
            Self::BlackHoleBack => "the sender drops all that comes back, and then no more",
            Self::BlackHoleBoth => "both ends drop all arrivals, and then no more",
            Self::Crawl => "the rate falls to 1 Mbit/s and comes back",
        })
    }
}
