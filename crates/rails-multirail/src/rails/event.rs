//! The changes of rails that follow the machine.

use crate::{
    RailId,
    error::with_causes,
    planner::PlannedRail,
    runtime::{MoveError, Placement},
};
use rails_topo::CpuSet;
use std::{fmt, sync::Arc, time::SystemTime};

/// A change of a set of rails that follows the machine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RailEvent {
    /// The time of the change, by the clock on the wall.
    pub at: SystemTime,
    /// The rail; `None` if the change is about all of them.
    pub rail: Option<RailId>,
    /// The change.
    pub kind: RailEventKind,
}

/// The kind of a change of rails.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RailEventKind {
    /// The rail was moved.
    Moved {
        /// The rail's former place.
        from: Arc<PlannedRail>,
        /// The rail's new place.
        to: Arc<PlannedRail>,
        /// The reasons for which the rail left its former place.
        reasons: Vec<String>,
        /// The placement of the rail's thread, as read back.
        placement: Arc<Placement>,
    },
    /// The rail could not be moved. It runs on where it is, and the move is tried again after the
    /// [dwell](crate::FollowOptions::dwell).
    NotMoved {
        /// The place that the rail was to have.
        to: Arc<PlannedRail>,
        /// Why the rail was to move.
        reasons: Vec<String>,
        /// Why the rail did not move.
        error: Arc<MoveError>,
    },
    /// The machine lacks something that the request asks for: there is no other place for the rail.
    /// The rail runs on.
    Unmet {
        /// The part of the request.
        reason: String,
    },
    /// An interrupt that another program had moved was put back.
    InterruptPutBack {
        /// The interrupt's number.
        interrupt: u32,
        /// Where the interrupt was to be served when it was found.
        found: Option<CpuSet>,
        /// Where the interrupt is to be served again.
        cpus: CpuSet,
    },
    /// An interrupt that another program has moved could not be put back.
    InterruptNotPutBack {
        /// The interrupt's number.
        interrupt: u32,
        /// Where the interrupt is to be served.
        found: Option<CpuSet>,
        /// The error, with its causes.
        error: String,
    },
    /// The machine cannot be watched any longer: the rails stay where they are.
    Ended {
        /// The error, with its causes.
        error: String,
    },
}

impl fmt::Display for RailEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rail) = self.rail {
            write!(f, "rail {rail}: ")?;
        }
        match &self.kind {
            RailEventKind::Moved { from, to, reasons, placement } => {
                write!(f, "moved from {} to {} ({})", ShownPlace(from), ShownPlace(to), reasons.join("; "))?;
                placement.unheld().iter().try_for_each(|unheld| write!(f, "; {unheld}"))
            }
            RailEventKind::NotMoved { to, reasons, error } => {
                write!(f, "not moved to {} ({}): {}", ShownPlace(to), reasons.join("; "), with_causes(error))
            }
            RailEventKind::Unmet { reason } => write!(f, "stays where it is: {reason}"),
            RailEventKind::InterruptPutBack { interrupt, found, cpus } => {
                write!(f, "interrupt {interrupt} put back to CPUs {cpus} from {}", ShownCpus(found))
            }
            RailEventKind::InterruptNotPutBack { interrupt, found, error } => {
                write!(f, "interrupt {interrupt} stays on CPUs {}: {error}", ShownCpus(found))
            }
            RailEventKind::Ended { error } => write!(f, "rails stay where they are from now on: {error}"),
        }
    }
}

/// `eth0, CPU 4, node 1`.
pub(crate) struct ShownPlace<'a>(pub(crate) &'a PlannedRail);

impl fmt::Display for ShownPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rail = self.0;
        if let Some(interface) = &rail.interface {
            write!(f, "{interface}, ")?;
        }
        match rail.bound_cpu() {
            Some(_) => write!(f, "CPU {}", rail.cpus())?,
            None => f.write_str("any CPU")?,
        }
        rail.node.iter().try_for_each(|node| write!(f, ", node {node}"))
    }
}

struct ShownCpus<'a>(&'a Option<CpuSet>);

impl fmt::Display for ShownCpus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cpus) => cpus.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}
