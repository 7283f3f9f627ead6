//! What the program `rails-bench` is made of; its `main` parses a [`Cli`], runs it and [`explain`]s what went wrong.
//!
//! [`transfer`] moves files and folders over one ordered byte stream; the command line gives it a striped stream, its tests
//! give it a pipe in memory. [`measure`] sends from memory to memory and compares. Everything else is the command line: one
//! file for each command, and one for each thing that commands have in common.

#![forbid(unsafe_code)]

mod admission;
mod batch;
mod cli;
mod commands;
mod config;
mod duration;
mod endpoint;
mod exit;
mod farewell;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod journal;
mod links;
mod machine;
pub mod measure;
mod print;
mod progress;
mod purpose;
mod rate;
mod report;
mod secret;
mod size;
mod soak;
mod stop;
mod tls;
pub mod transfer;

pub use cli::Cli;
pub use exit::{Exit, Signal, explain};
