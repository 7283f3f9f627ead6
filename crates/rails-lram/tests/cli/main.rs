//! The program as its users run it: processes, their output and their exit codes.

mod reading;
mod refusals;
mod serving;
mod tracing;
mod util;
