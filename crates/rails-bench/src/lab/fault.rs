//! Faults of links, for `disturb` and `soak`.

use super::compare::Link;
use rails_lab::{LabError, LinkLab, Side};
use serde::Serialize;
use std::fmt;

/// A fault of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    /// The link carries another rate, in Mbit/s.
    Rate(u64),
    /// The interface of one end is down.
    Down(Side),
    /// One end drops all arrivals in silence.
    BlackHole(Side),
    /// Both ends drop all arrivals.
    FullBlackHole,
    /// The link's connections are reset; the link goes on as before.
    Reset,
}

/// The beginning or the end of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Happening {
    /// The link's number.
    pub(crate) link: usize,
    /// The fault.
    pub(crate) fault: Fault,
    /// Whether the fault begins; otherwise it ends.
    pub(crate) begins: bool,
}

impl Happening {
    /// Changes the link, whose settings without a fault are `whole`.
    pub(crate) fn happen(self, lab: &LinkLab, whole: Link) -> Result<(), LabError> {
        let Self { link, fault, begins } = self;
        match fault {
            Fault::Rate(mbit) => match whole {
                Link::Veth(shape) => lab.set_rate(link, if begins { shape.at(mbit) } else { shape }),
                Link::Emulated { mbit: usual, rtt, lost_per_million } => {
                    lab.set_emulated(link, Link::emulated(if begins { mbit } else { usual }, rtt, lost_per_million))
                }
            },
            Fault::Down(side) => lab.set_link_up(side, link, !begins),
            Fault::BlackHole(side) => lab.set_black_hole(side, link, begins),
            Fault::FullBlackHole => Side::BOTH.into_iter().try_for_each(|side| lab.set_black_hole(side, link, begins)),
            Fault::Reset if begins => lab.reset_connections(link),
            Fault::Reset => Ok(()),
        }
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}: ", self.link)?;
        match self.fault {
            _ if !self.begins => f.write_str("whole again"),
            Fault::Rate(mbit) => write!(f, "{mbit} Mbit/s"),
            Fault::Down(side) => write!(f, "down at side {side:?}"),
            Fault::BlackHole(side) => write!(f, "a black hole towards side {side:?}"),
            Fault::FullBlackHole => f.write_str("a black hole both ways"),
            Fault::Reset => f.write_str("connections reset"),
        }
    }
}
