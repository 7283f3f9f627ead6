//! Shows, plans, moves files and measures over rails.

use clap::Parser;
use rails_bench::{Cli, explain};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.log_to_stderr();
    cli.run().map_or_else(|error| explain(&error), ExitCode::from)
}
