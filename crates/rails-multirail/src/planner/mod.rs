//! The planner: a pure function from a machine and a request to a plan with reasons.

mod addresses;
mod capacity;
mod cpus;
mod devices;
mod exclusive;
mod nics;
mod plan_error;
mod plan_rails;
mod rail_plan;
mod rail_request;
mod reasons;
mod replan;
mod request_text;
mod requirements;

pub use plan_error::PlanError;
pub use plan_rails::plan_rails;
pub use rail_plan::{Capacity, DeviceKind, Expected, PlannedDevice, PlannedRail, RailPlan, RejectedCpus, RejectedNic};
pub use rail_request::{Affinities, Binding, BindingKind, Nearness, Need, Part, RailRequest, RailWish, Which};
pub use rails_net::LocalEnd;
pub use replan::{Replanned, replan_rails};
pub use request_text::ParseRequestError;
