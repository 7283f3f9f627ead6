//! The parts of the program `rails-bench`; its `main` parses a [`Cli`], runs it and [`explain`]s
//! errors.
//!
//! `commands` has one file for each command, and the other modules hold the parts that commands
//! share. `measure` measures streams from memory to memory. `lab`, with the feature of that name,
//! makes network namespaces. The crate `rails-transfer` moves the files; the command line gives it
//! a striped stream.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod admission;
mod batch;
mod cli;
mod commands;
mod config;
mod duration;
mod endpoint;
mod exit;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod journal;
#[cfg(feature = "lab")]
mod lab;
mod machine;
mod measure;
mod placement;
mod print;
mod progress;
mod purpose;
mod rate;
mod report;
mod reset;
mod secret;
mod size;
mod stop;
mod thread;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod turn;

pub use cli::Cli;
pub use exit::{Exit, Signal, explain};
