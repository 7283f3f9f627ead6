//! The command line.

use crate::{
    commands::{
        demo, doctor, forward, gate, pipe, plan, probe, rails, recv, redirect, run, send, serve, stream, tasks, topo,
        undo,
    },
    config::ConfigArgs,
    exit::Exit,
    logs, peers, print,
    stop::Stopped,
    width,
};
use anyhow::Result;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};
use std::{env, ffi::OsString, process};

/// Shows a machine as rails see it, plans rails on it, and moves files over them.
///
/// A rail is a NIC lane, its interrupt, and the cores and the memory beside it, owned by one pinned
/// thread. One stream of bytes goes over several rails at once.
#[derive(Debug, Parser)]
#[command(name = "rails-bench", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// Say more on stderr: every lane's coming and going (-v), everything (-vv)
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 100)]
    verbose: u8,
    #[command(flatten)]
    color: logs::ColorArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Topo(topo::Args),
    Plan(plan::Args),
    Send(send::Args),
    Recv(recv::Args),
    Serve(serve::Args),
    Stream(stream::Args),
    Probe(probe::Args),
    Demo(demo::Args),
    Doctor(doctor::Args),
    Undo(undo::Args),
    Rails(rails::Args),
    Tasks(tasks::Args),
    Run(run::Args),
    /// Keep the connections of a program whose `run --stripe` was killed
    #[command(hide = true)]
    Keeper,
    Gate(gate::Args),
    Pipe(pipe::Args),
    Forward(forward::Args),
    Redirect(redirect::Args),
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Lab(crate::lab::Command),
}

impl Cli {
    /// The command line of this process. A wrong one ends the process with a message.
    ///
    /// # Errors
    /// The peer that the command line names cannot be taken from the configuration files.
    pub fn of_this_process() -> Result<Self> {
        let args: Vec<OsString> = env::args_os().collect();
        let width = width::width();
        let command = match width {
            Some(width) => Self::command().term_width(width.min(MAX_HELP_WIDTH)),
            None => Self::command(),
        };
        let (mut command, args) = peers::named(command, args)?;
        let matches = command.try_get_matches_from_mut(args);
        matches.and_then(|matches| Self::from_arg_matches(&matches)).map_err(|error| {
            // Usages are lines that clap does not break.
            if width.is_some_and(|width| width < MAX_HELP_WIDTH) && error.kind() == ErrorKind::DisplayHelp {
                let _ = print::text(error.render());
                process::exit(0);
            }
            error.exit()
        })
    }

    /// Sends warnings, and with `-v` more, to stderr.
    pub fn log_to_stderr(&self) {
        logs::to_stderr(self.verbose, self.color);
    }

    /// Runs the command.
    ///
    /// # Errors
    /// The cause of the failure, for [`explain`](crate::explain).
    pub fn run(self) -> Result<Exit> {
        let details = self.verbose > 0;
        self.config.hold();
        let ended = match self.command {
            Command::Topo(args) => topo::run(&args),
            Command::Plan(args) => plan::run(&args),
            Command::Send(args) => send::run(args, details),
            Command::Recv(args) => recv::run(args, details),
            Command::Serve(args) => serve::run(&args, details),
            Command::Stream(args) => stream::run(&args, details),
            Command::Probe(args) => probe::run(&args),
            Command::Demo(args) => demo::run(args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Undo(args) => undo::run(&args),
            Command::Rails(args) => rails::run(&args),
            Command::Tasks(args) => tasks::run(&args),
            Command::Run(args) => run::run(args, details),
            Command::Keeper => run::keeper().map(|()| Exit::Done),
            Command::Gate(args) => gate::run(&args),
            Command::Pipe(args) => pipe::run(&args),
            Command::Forward(args) => forward::run(args),
            Command::Redirect(args) => redirect::run(&args),
            #[cfg(feature = "lab")]
            Command::Lab(command) => command.run(),
        };
        ended.or_else(|error| match error.downcast_ref() {
            Some(Stopped(signal)) => Ok(Exit::Signal(*signal)),
            None => Err(error),
        })
    }
}

/// Help is no wider, as clap has it where nothing else is said.
const MAX_HELP_WIDTH: usize = 100;

const AFTER_HELP: &str = "\
First steps:
  rails-bench demo               move a file over this machine's loopback, and check everything
  rails-bench topo               the machine: packages, nodes, cores, NICs, interrupts
  rails-bench plan --rails auto  what a rail on each NIC would be made of, and why
  rails-bench recv --help        moving files between two machines

Exit codes: 0 all is well, 1 something failed, 2 the command line is wrong, \
129, 130 and 143 ended by SIGHUP, Ctrl-C and SIGTERM; `run` and `lab` end as their command. \
Built with `--features lab`, rails-bench also compares streams with other transports, and makes links and machines.";

#[cfg(test)]
mod tests;
