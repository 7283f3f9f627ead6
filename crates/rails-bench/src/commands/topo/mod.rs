//! `rails-bench topo`

mod watch;

use crate::{ending::Ending, machine::MachineArgs, print};
use anyhow::Result;

/// Show the machine: packages, NUMA nodes, caches, cores, NICs with their queues and interrupts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rails-bench topo
  rails-bench topo --json | jq '.nics[].name'
  rails-bench topo --watch
  lstopo machine.xml && rails-bench topo --xml machine.xml

What is not known is said to be unknown. Needs no privilege, and changes nothing.")]
pub(crate) struct Args {
    /// Print the whole model as JSON
    #[arg(long)]
    json: bool,
    /// Print what changes, a line for each, until Ctrl-C; with --json one object for each
    #[arg(long, conflicts_with_all = ["xml", "sysfs"])]
    watch: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    if args.watch {
        return watch::run(args.json);
    }
    let topology = args.machine.topology()?;
    if args.json {
        print::result(format_args!("{}\n", serde_json::to_string_pretty(&topology)?))?;
    } else {
        print::result(topology.tree())?;
    }
    Ok(Ending::Done)
}
