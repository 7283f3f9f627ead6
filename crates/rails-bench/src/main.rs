//! Shows, plans, moves files and measures over rails.

use anyhow::Result;
use rails_bench::{Exit, explain};
use std::process::ExitCode;

fn main() -> ExitCode {
    run().map_or_else(|error| explain(&error), ExitCode::from)
}

#[cfg(feature = "cli")]
fn run() -> Result<Exit> {
    let cli = rails_bench::Cli::of_this_process()?;
    cli.log_to_stderr();
    cli.run()
}

#[cfg(not(feature = "cli"))]
fn run() -> Result<Exit> {
    anyhow::ensure!(
        std::env::args_os().len() < 2,
        "this build has no command line (feature `cli`): it is the demo alone"
    );
    rails_bench::demo()
}
