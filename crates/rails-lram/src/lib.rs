//! The parts of the program `lram`; its `main` parses a [`Cli`] and runs it.
//!
//! `commands` has one file for each command, and the other modules hold the parts that commands
//! share: `site` opens addresses, `slabs` cuts a selection into pieces that fit in memory, `output`
//! writes files, `text` shows what a file says, and `traced` reads traces. `demo_data` has the file
//! of the demo.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod demo_data;
#[cfg(feature = "lab")]
mod lab;
mod output;
mod site;
mod slabs;
mod slow_path;
mod text;
mod traced;

pub use cli::Cli;
