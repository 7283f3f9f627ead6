//! `rails-bench topo`

#[cfg(feature = "files")]
mod capture;
mod explain;
#[cfg(feature = "files")]
mod svg;
mod watch;
#[cfg(test)]
pub(super) use self::watch::Line;
use crate::{
    document::{Contents, Document, Schema},
    exit::Exit,
    machine::MachineArgs,
    print,
};
use anyhow::Result;
use rails_topo::Topology;

/// Show the machine: packages, NUMA nodes, caches, cores, NICs with their queues and interrupts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rails-bench topo
  rails-bench topo --json | jq '.nics[].name'
  rails-bench topo capture machine.tar.gz && rails-bench topo --topology machine.tar.gz
  lstopo machine.xml && rails-bench topo --topology machine.xml
  rails-bench topo --of xml > machine.xml && lstopo -i machine.xml
  rails-bench topo --explain --config facts.toml
  rails-bench topo --svg machine.svg --rails auto
  rails-bench topo --watch

Captures, XML and pictures take the cargo feature `files`, which is on by default.
What is not known is said to be unknown. Needs no privilege, and changes nothing.")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[cfg(feature = "files")]
    #[command(subcommand)]
    command: Option<Command>,
    /// Print the whole model as JSON (docs/json.md)
    #[arg(long, conflicts_with = "of")]
    json: bool,
    /// Print the machine in this format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    of: Format,
    /// Say of each fact that decides where rails go where it comes from: a file of the kernel,
    /// hwloc, or a line of a configuration file
    #[arg(long, conflicts_with_all = ["json", "of"])]
    explain: bool,
    /// Print each change, a line for each, until Ctrl-C; with --json one object for each
    #[arg(long, conflicts_with_all = ["topology", "config", "of", "explain"])]
    #[cfg_attr(feature = "files", arg(conflicts_with = "svg"))]
    watch: bool,
    #[cfg(feature = "files")]
    #[command(flatten)]
    svg: svg::SvgArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

#[cfg(feature = "files")]
#[derive(Debug, clap::Subcommand)]
enum Command {
    Capture(capture::Args),
}

/// The form in which a machine is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A tree to be read.
    Text,
    /// The whole model, for --topology.
    Json,
    /// hwloc's XML, which lstopo reads: as much of the model as it has a place for.
    #[cfg(feature = "files")]
    Xml,
}

impl Contents for Topology {
    const SCHEMA: Schema = Schema::TOPO;
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    #[cfg(feature = "files")]
    if let Some(Command::Capture(args)) = &args.command {
        return capture::run(args);
    }
    if args.watch {
        return watch::run(args.json);
    }
    let topology = args.machine.topology()?;
    #[cfg(feature = "files")]
    if args.svg.draw(&args.machine, &topology)? {
        return Ok(Exit::Done);
    }
    if args.explain {
        print::text(explain::Explanation::of(&topology)?)?;
        return Ok(Exit::Done);
    }
    match if args.json { Format::Json } else { args.of } {
        Format::Text => print::text(topology.tree())?,
        Format::Json => Document::of(&topology).print()?,
        #[cfg(feature = "files")]
        Format::Xml => print::result(format_args!("{}\n", topology.to_hwloc_xml()))?,
    }
    Ok(Exit::Done)
}
