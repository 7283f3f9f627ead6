//! Pipelines over rails on the loopback interface.

mod allocations;
mod devices;
mod endings;
mod properties;
mod running;
mod util;
