//! The parts of `rails-bench` that are worth testing and using without its command line.
//!
//! [`transfer`] moves files and folders over one ordered byte stream; the program `rails-bench` gives it a
//! striped stream, its tests give it a pipe in memory. The command line itself, and everything that prints,
//! lives in the program.

#![forbid(unsafe_code)]

pub mod measure;
pub mod transfer;
