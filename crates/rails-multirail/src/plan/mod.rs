//! What would be placed where, and why: a pure function from a machine and a wish to a plan.

mod planner;
mod request;

pub use planner::{PlanError, PlannedRail, RailPlan, plan};
pub use request::{LaneEnd, LaneWish, ParseRequestError, RailRequest};
