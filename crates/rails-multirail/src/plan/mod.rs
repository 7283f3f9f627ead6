//! What would be placed where, and why: a pure function from a machine and a wish to a plan.

mod planner;
mod request;

pub use planner::{PlanError, PlannedRail, RailPlan, plan};
pub use request::{LaneEnd, LaneWish, ParseRequestError, RailRequest};

use serde::{Deserialize, Serialize};
use std::fmt;

/// A rail's number within its set, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RailId(pub usize);

impl fmt::Display for RailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
