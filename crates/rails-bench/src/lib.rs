//! The parts of `rails-bench`.
#![forbid(unsafe_code)]

pub mod measure;
