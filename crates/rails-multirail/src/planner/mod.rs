//! The planner: a pure function from a machine and a request to a plan with reasons.
//!
//! `plan_rails.rs` runs the stages. Each takes values and returns values: `resolve.rs` finds the
//! NICs and devices of requested rails, `lanes.rs` places their lanes, `tasks.rs` their tasks,
//! `addresses.rs` and `exclusive.rs` divide addresses and NICs, and `explain.rs` makes the plan.
//! All stages read `problem.rs`, and none changes it.

mod addresses;
mod capacity;
mod cpus;
mod devices;
mod exclusive;
mod explain;
mod lanes;
mod nics;
mod notes;
mod occupancy;
mod plan_error;
mod plan_rails;
mod problem;
mod rail_plan;
mod rail_request;
mod replan;
mod request_text;
mod requirements;
mod resolve;
mod tasks;

pub use plan_error::PlanError;
pub use plan_rails::plan_rails;
pub use rail_plan::{Capacity, DeviceKind, Expected, PlannedDevice, PlannedRail, RailPlan, RejectedCpus, RejectedNic};
pub use rail_request::{Affinities, Binding, BindingKind, Nearness, Need, Part, RailRequest, RailWish, Which};
pub use rails_net::LocalEnd;
pub use replan::{Replanned, replan_rails};
pub use request_text::ParseRequestError;
