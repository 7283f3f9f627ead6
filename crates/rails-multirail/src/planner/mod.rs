//! The planner: a pure function from a machine and a request to a plan with reasons.

mod plan_error;
mod plan_rails;
mod rail_plan;
mod rail_request;
mod reasons;

pub use plan_error::PlanError;
pub use plan_rails::plan_rails;
pub use rail_plan::{PlannedRail, RailPlan};
pub use rail_request::{LaneWish, ParseRequestError, RailRequest};
pub use rails_net::LocalEnd;
