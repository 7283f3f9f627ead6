//! The parts of the program `rails-bench`; its `main` parses a [`Cli`], runs it and [`explain`]s
//! errors.
//!
//! `commands` has one file for each command, and the other modules hold the parts that commands
//! share. `measure` sends from memory to memory. `lab`, with the feature of that name, makes
//! network namespaces. The crate `rails-transfer` moves the files; the command line gives it
//! the streams of a session. Without the feature `cli`, the program is the [`demo()`] alone.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
// The demo needs a part of the modules that it shares with the commands.
#![cfg_attr(not(feature = "cli"), allow(dead_code))]

mod batch;
mod config;
mod demo;
mod endpoint;
mod machine;
mod parting;
mod placement;
mod progress;
mod report;
mod side;
mod turn;

#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod commands;
#[cfg(feature = "cli")]
mod conversation;
#[cfg(feature = "cli")]
mod document;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "cli")]
mod journal;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "cli")]
mod measure;
#[cfg(feature = "cli")]
mod peers;
#[cfg(test)]
mod published;
#[cfg(feature = "cli")]
mod retry;
#[cfg(feature = "cli")]
mod service;

#[cfg(feature = "cli")]
pub use cli::Cli;
pub use demo::demo;
pub use rails_cli::exit::{Exit, Signal, explain};
use rails_cli::{bar, exit, print, stop, table, thread};
// The parts that other programs share stand beside those of this one.
#[cfg(feature = "cli")]
use rails_cli::{duration, logs, output_file, rate, secret, size, tls, width};
