//! `rails-bench topo`

mod explain;

use crate::{ending::Ending, machine::MachineArgs, print};
use anyhow::Result;

/// Show the machine: packages, NUMA nodes, caches, cores, NICs with their queues and interrupts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rails-bench topo
  rails-bench topo --json | jq '.nics[].name'
  lstopo machine.xml && rails-bench topo --xml machine.xml
  rails-bench topo --explain --config facts.toml

What is not known is said to be unknown. Needs no privilege, and changes nothing.")]
pub(crate) struct Args {
    /// Print the whole model as JSON
    #[arg(long)]
    json: bool,
    /// Say of each fact that decides where rails go where it comes from: a file of the kernel, hwloc, or a line of a configuration file
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let topology = args.machine.topology()?;
    if args.json {
        print::result(format_args!("{}\n", serde_json::to_string_pretty(&topology)?))?;
    } else if args.explain {
        print::result(explain::Explanation::of(&topology)?)?;
    } else {
        print::result(topology.tree())?;
    }
    Ok(Ending::Done)
}
