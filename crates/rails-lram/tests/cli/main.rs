//! The program as its users run it: processes, their output and their exit codes.

mod losses;
mod reading;
mod refusals;
mod relay;
mod serving;
mod tracing;
mod util;
