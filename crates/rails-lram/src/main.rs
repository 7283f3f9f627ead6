//! The command line of LambdaRAM.

use clap::Parser;
use rails_cli::exit::explain;
use rails_lram::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.log_to_stderr();
    cli.run().map_or_else(|error| explain(&error), ExitCode::from)
}
