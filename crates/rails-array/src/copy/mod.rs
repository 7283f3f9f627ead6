//! Copy plans: from the memory of a region into the memory of a selection's result.
//!
//! - `runs`: loops over runs of bytes, one by one, and cut at the borders of slots;
//! - `plan`: [`CopyPlan`], loops over runs that are as long as both sides allow;
//! - `execute`: [`copy`] and its siblings carry a plan out.

mod execute;
mod plan;
mod runs;
#[cfg(test)]
mod tests;

pub use execute::{CopyError, copy, copy_from_slots, copy_into_slots};
pub use plan::{CopyPlan, PlanError};
pub use runs::{Run, Runs, SlotRun, SlotRuns};
