//! Pipelines over rails on the loopback interface.

mod allocations;
mod devices;
mod endings;
mod file;
mod properties;
mod running;
mod util;
