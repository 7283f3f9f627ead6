//! `lram`: serves, reads and measures arrays that are far away.

#[cfg(feature = "lab")]
mod lab;

use clap::Parser;
use std::process::ExitCode;

/// Arrays that are far away, read as if they were here
#[derive(Debug, Parser)]
#[command(name = "lram", version)]
enum Command {
    #[cfg(feature = "lab")]
    Lab(lab::Args),
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    LabReader(lab::ReaderArgs),
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    LabServer(lab::ServerArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    match Command::parse() {
        #[cfg(feature = "lab")]
        Command::Lab(args) => lab::run(&args),
        #[cfg(feature = "lab")]
        Command::LabReader(args) => lab::read(&args),
        #[cfg(feature = "lab")]
        Command::LabServer(args) => lab::serve(&args),
    }
}
