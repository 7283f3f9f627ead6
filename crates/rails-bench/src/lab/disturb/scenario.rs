//! What happens to a link, and when.

use crate::lab::compare::{ContestError, Link, Testbed};
use clap::ValueEnum;
use rails_lab::{Shape, Side};
use serde::Serialize;
use std::{fmt, time::Duration};

/// What is done to the last link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// Its rate falls to a tenth, and comes back
    Step,
    /// The receiver's interface goes down, and comes up again
    Down,
    /// Whatever arrives at the receiver is dropped in silence, and then no more
    BlackHole,
    /// Whatever comes back to the sender is dropped in silence (not by default)
    BlackHoleBack,
    /// Whatever arrives at either end is dropped in silence (not by default)
    BlackHoleBoth,
    /// Its rate falls to 1 Mbit/s: it is slow, and not gone (not by default)
    Crawl,
}

/// One thing that is done to the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Happening {
    /// Its rate becomes this, in Mbit/s.
    Rate(u64),
    /// The receiver's interface goes down.
    Down,
    /// The receiver's interface comes up.
    Up,
    /// What arrives at some end is dropped.
    BlackHole(DropsAt),
    /// It is so no more.
    BlackHoleOver(DropsAt),
}

/// Which end drops what arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DropsAt {
    /// The receiver: what is sent.
    Receiver,
    /// The sender: what is answered.
    Sender,
    /// Both.
    Both,
}

impl Scenario {
    /// Those that happen where nothing is chosen.
    pub(crate) const USUAL: [Self; 3] = [Self::Step, Self::Down, Self::BlackHole];

    /// What happens to a link of this rate, at a third and at two thirds of the time.
    pub(super) fn happenings(self, mbit: u64) -> [Happening; 2] {
        match self {
            Self::Step => [Happening::Rate((mbit / 10).max(1)), Happening::Rate(mbit)],
            Self::Down => [Happening::Down, Happening::Up],
            Self::BlackHole => black_hole(DropsAt::Receiver),
            Self::BlackHoleBack => black_hole(DropsAt::Sender),
            Self::BlackHoleBoth => black_hole(DropsAt::Both),
            Self::Crawl => [Happening::Rate(1), Happening::Rate(mbit)],
        }
    }
}

impl Happening {
    /// Does it to a link.
    pub(super) fn happen(self, testbed: &Testbed, link: usize) -> Result<(), ContestError> {
        let lab = &testbed.lab;
        match self {
            Self::Rate(mbit) => match testbed.links[link] {
                Link::Veth(_) => lab.set_rate(link, Shape::mbit(mbit))?,
                Link::Wire { rtt, .. } => lab.set_wire(link, Link::wire(mbit, rtt))?,
            },
            Self::Down => lab.set_link_up(Side::B, link, false)?,
            Self::Up => {
                lab.set_link_up(Side::B, link, true)?;
                // What is opened from now on is to be measured alike; the routes have lost it.
                lab.set_congestion_control(&testbed.congestion)?;
            }
            Self::BlackHole(at) => at.sides().iter().try_for_each(|side| lab.set_black_hole(*side, link, true))?,
            Self::BlackHoleOver(at) => at.sides().iter().try_for_each(|side| lab.set_black_hole(*side, link, false))?,
        }
        Ok(())
    }
}

impl DropsAt {
    fn sides(self) -> &'static [Side] {
        match self {
            Self::Receiver => &[Side::B],
            Self::Sender => &[Side::A],
            Self::Both => &Side::BOTH,
        }
    }
}

fn black_hole(at: DropsAt) -> [Happening; 2] {
    [Happening::BlackHole(at), Happening::BlackHoleOver(at)]
}

/// When the happenings are, in a time of this length.
pub(super) fn times(length: Duration) -> [Duration; 2] {
    [length / 3, length * 2 / 3]
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Step => "the rate falls to a tenth and comes back",
            Self::Down => "the receiver's interface goes down and comes up",
            Self::BlackHole => "the receiver drops what arrives, and then no more",
            Self::BlackHoleBack => "the sender drops what comes back, and then no more",
            Self::BlackHoleBoth => "both ends drop what arrives, and then no more",
            Self::Crawl => "the rate falls to 1 Mbit/s and comes back",
        })
    }
}
