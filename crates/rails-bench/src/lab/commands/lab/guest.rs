//! `lab guest`: a two-socket machine, emulated.

use crate::{
    exit::{Exit, Help, Helped},
    print,
};
use anyhow::{Result, anyhow};
use rails_lab::guest::{Guest, GuestError};
use std::{
    env,
    io::{self, Write},
    time::Duration,
};

/// A machine of two packages, two memory nodes and four NICs, emulated (needs QEMU, not root)
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The machine runs on this one's root file system, read-only; /run, /tmp and /dev/shm are its own and empty, but for what --show names.
COMMAND runs as root in the folder that this was called in. NICs 52:54:00:00:00:01 and ..:03 are on node 0 and cabled with each other, ..:02 and
..:04 on node 1 likewise. Its kernel is Debian's, fetched once.

Everything is emulated, so it shows where things are, and not how fast they are: remote memory costs nothing extra.

Examples:
  rails-bench lab guest -- rails-bench topo
  rails-bench lab guest -- sh -c 'rails-bench doctor; cat /proc/interrupts'

Exit status: that of COMMAND; 1 if the machine did not come up.")]
pub(crate) struct Args {
    /// Cores of each node
    #[arg(long, value_name = "N", default_value_t = 2)]
    cores: u32,
    /// Memory of each node in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: u32,
    /// How long all of it may take
    #[arg(long, value_name = "S", default_value = "600", value_parser = crate::commands::seconds)]
    limit: Duration,
    /// Keep a path below /tmp or /run visible inside
    #[arg(long, value_name = "PATH")]
    show: Vec<std::path::PathBuf>,
    /// The command to run in it
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<std::ffi::OsString>,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let builder = Guest::builder()
        .cores_per_node(args.cores)
        .memory_per_node_mib(args.memory)
        .time_limit(args.limit)
        .working_directory(env::current_dir()?);
    let guest = args.show.into_iter().fold(builder, |builder, path| builder.show(path)).build().map_err(explained)?;
    let mut unheard = None;
    let status = guest.run(args.command, |line| {
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(line).and_then(|()| out.flush()) {
            unheard = Some(error);
        }
    });
    let status = status.map_err(explained)?;
    if status.crashed_boots() > 0 {
        print::note(format_args!("QEMU crashed in {} boots before this one", status.crashed_boots()));
    }
    match (status, unheard) {
        // A reader that has closed the pipe does not want further output.
        (_, Some(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        (status, _) if status.is_success() => Ok(Exit::Done),
        (status, _) => Ok(Exit::Command(status.code())),
    }
}

fn explained(error: GuestError) -> anyhow::Error {
    let help = match &error {
        GuestError::Missing { .. } => {
            "install these packages, e.g. `apt-get install qemu-system-x86 busybox-static kmod`"
        }
        GuestError::NoKernel { .. } => "on Debian, `apt-get update` refreshes apt's lists of kernels",
        GuestError::TimedOut { .. } => "give it more time with --limit",
        GuestError::OutOfRange { .. } => return Helped::usage(error, "change --cores, --memory or --limit"),
        GuestError::RelativePath { .. } => return Helped::usage(error, "give absolute paths to --show"),
        _ => return error.into(),
    };
    anyhow!(error).help(help)
}
