//! Pipelines over rails on the loopback interface.

mod allocations;
mod endings;
mod properties;
mod running;
mod util;
