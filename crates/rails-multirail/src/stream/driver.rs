//! The runtime that drives a lane.

use crate::{Driver, Rail, RailId, Rails};

impl Driver {
    /// The rail whose runtime drives the lanes of `rail`.
    pub(crate) fn home(self, rails: &Rails, rail: RailId) -> &Rail {
        let own = &rails[rail];
        match self {
            Self::PerCpu => match own.planned().bound_cpu() {
                Some(cpu) => rails.iter().find(|other| other.planned().bound_cpu() == Some(cpu)).unwrap_or(own),
                None => own,
            },
            Self::PerRail => own,
            Self::Single => &rails[RailId(0)],
        }
    }
}
