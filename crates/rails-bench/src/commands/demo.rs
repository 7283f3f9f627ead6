//! `rails-bench demo`

use crate::{demo::Demo, exit::Exit, size};
use anyhow::Result;
use rails_topo::DataSize;
use std::path::PathBuf;

/// Move a file over this machine's loopback, both ends in this process, and check everything
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs no privilege and no second machine. The file is made up (incompressible, from a seed) unless --file is given, and is sent \
by the same code as `send` and `recv`. It is written below $TMPDIR or /tmp, and removed at the end. The loopback raises no \
interrupts, so that a demo shows two of a rail's three affinities at most.

Examples:
  rails-bench demo
  rails-bench demo --size 8MiB --rails 3
  rails-bench demo --file big.iso")]
pub(crate) struct Args {
    /// Send this file instead of a made-up one
    #[arg(long, value_name = "PATH", conflicts_with_all = ["size", "seed"])]
    file: Option<PathBuf>,
    /// Size of the made-up file, such as 64MiB or 1.5GB [default: 1GiB]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    size: Option<DataSize>,
    /// Rails of each end [default: one for each core that may be used, and at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    rails: Option<u16>,
    /// Seed of the made-up file [default: a random one]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let Args { file, size, rails, seed, quiet } = args;
    Demo { file, size, rails: rails.map(usize::from), seed, quiet }.run()
}
