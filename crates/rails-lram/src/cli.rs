//! The command line.

use crate::commands::{advise, demo, describe, explain, get, import, ls, serve, status, top, trace, warm};
#[cfg(feature = "lab")]
use crate::lab;
use anyhow::Result;
use clap::{ArgAction, Parser, Subcommand};
use rails_cli::{exit::Exit, logs, stop::Stopped};

/// Reads far arrays as if they were here: serves datasets, reads them, and shows what a site keeps.
///
/// An address is `lram://HOST[:PORT]/DATASET` for a node that serves, or the path of a file. A box
/// is written as numpy's slices: `ozone[0:64, 3, :, 100:250]`.
#[derive(Debug, Parser)]
#[command(name = "lram", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// Say more on stderr: links that come and go (-v), everything (-vv)
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 100)]
    verbose: u8,
    #[command(flatten)]
    color: logs::ColorArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Ls(ls::Args),
    Describe(describe::Args),
    Get(get::Args),
    Status(status::Args),
    Top(top::Args),
    Warm(warm::Args),
    Explain(explain::Args),
    Import(import::Args),
    Trace(trace::Args),
    Advise(advise::Args),
    Demo(demo::Args),
    #[cfg(feature = "lab")]
    Lab(lab::Args),
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    LabReader(lab::ReaderArgs),
}

impl Cli {
    /// Sends warnings, and with `-v` more, to stderr.
    pub fn log_to_stderr(&self) {
        logs::to_stderr(self.verbose, self.color);
    }

    /// Runs the command.
    ///
    /// # Errors
    /// The cause of the failure, for [`explain`](rails_cli::exit::explain).
    pub fn run(self) -> Result<Exit> {
        let ended = match self.command {
            Command::Serve(args) => serve::run(args),
            Command::Ls(args) => ls::run(args),
            Command::Describe(args) => describe::run(args),
            Command::Get(args) => get::run(args),
            Command::Status(args) => status::run(args),
            Command::Top(args) => top::run(args),
            Command::Warm(args) => warm::run(args),
            Command::Explain(args) => explain::run(args),
            Command::Import(args) => import::run(args),
            Command::Trace(args) => trace::run(args),
            Command::Advise(args) => advise::run(args),
            Command::Demo(args) => demo::run(args),
            #[cfg(feature = "lab")]
            Command::Lab(args) => lab::run(&args),
            #[cfg(feature = "lab")]
            Command::LabReader(args) => lab::read(&args),
        };
        ended.or_else(|error| match error.downcast_ref() {
            Some(Stopped(signal)) => Ok(Exit::Signal(*signal)),
            None => Err(error),
        })
    }
}

const AFTER_HELP: &str = "\
First steps:
  lram demo                                 both ends in one process, on this machine
  lram serve plane.nc                       serve a file to this machine
  lram ls lram://localhost                  the datasets that are served there
  lram describe lram://localhost/plane      dimensions, types and attributes
  lram get lram://localhost/plane --box 'u[0:64, 3, :, 100:250]' -o u.nc

Exit codes: 0 done, 1 a failure that is printed, 2 a wrong command line, 128 and its number for a signal.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_page_names_every_visible_command() {
        let page = include_str!("../../../docs/lambdaram.md");
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = format!("`{}`", command.get_name());
            let mut rows = page.lines().filter(|line| line.starts_with("| `"));
            assert!(rows.any(|row| row.split('|').nth(1).is_some_and(|cell| cell.contains(&name))), "{name}");
        }
    }
}
