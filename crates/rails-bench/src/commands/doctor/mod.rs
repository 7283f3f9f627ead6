//! `rails-bench doctor`

mod examine;
mod mend;
mod show;
mod subject;

use self::{
    examine::{Examined, examine},
    mend::mend,
    subject::Subject,
};
use crate::{
    document::{Contents, Document, Schema},
    exit::Exit,
    journal::JournalArgs,
    machine::this_machine,
    print,
};
use anyhow::Result;
use rails_bind::{settings::Host, thread::Tid};
use rails_multirail::RailRequest;
use serde::Serialize;
use std::time::Duration;

/// Say whether interrupts, threads and memory are where a NIC is, and how to mend it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Three properties make a rail a rail: the NIC's interrupts are served on the processor that it is attached to, the threads that use it run there
too, and their memory lies beside them. Each is said to hold, to be broken or to be unknown, with what was seen while they were watched,
and with the commands that mend it.

Without --pid, --iface and --rails every NIC is looked at. --fix leaves interrupts alone that another process has claimed.

Examples:
  rails-bench doctor --iface eth0
  rails-bench doctor --pid 4711 --seconds 5
  rails-bench doctor --pid 4711 --fix && rails-bench undo

Exit status: 0 if nothing is broken, 1 otherwise. Looking takes no privilege, but for the memory and the sockets of other users'
processes; --fix takes what the commands take that it shows.")]
pub(crate) struct Args {
    /// Look at a process: its threads, its memory, and the NICs that its sockets use
    #[arg(long, value_name = "PID", value_parser = pid, conflicts_with_all = ["iface", "rails"])]
    pid: Option<Tid>,
    /// Look at a NIC: its interrupts, and where its packets are handed on to
    #[arg(long, value_name = "NAME", conflicts_with = "rails")]
    iface: Option<String>,
    /// Build these rails (as `plan` takes them), and look at each of them
    #[arg(long, value_name = "SPEC")]
    rails: Option<RailRequest>,
    /// How long to watch
    #[arg(long, value_name = "S", default_value = "1", value_parser = super::seconds)]
    seconds: Duration,
    /// Carry the changes out; `rails-bench undo` takes them back
    #[arg(long)]
    fix: bool,
    /// Print the evidence, the verdicts and the mends as JSON (docs/json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    journal: JournalArgs,
}

/// The findings.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Report<'a> {
    /// Each NIC, part of a process or rail that was looked at.
    examined: &'a [Examined],
}

impl Contents for Report<'_> {
    const SCHEMA: Schema = Schema::DOCTOR;
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let host = Host::this();
    let topology = this_machine()?;
    let subject = Subject::of(args.pid, args.iface.as_deref(), args.rails.as_ref(), &topology)?;
    let mut examined = examine(&host, &topology, &subject, args.seconds)?;
    if args.fix {
        let journal = args.journal.open()?;
        let mut mended = Vec::new();
        let now = mend(&host, &journal, &topology, &subject, args.seconds, examined, &mut mended);
        // The changes are reported also after a later error, and beside the JSON.
        if args.json || now.is_err() {
            print::note(show::mended(&mended).trim_end());
        } else {
            print::text(show::mended(&mended))?;
        }
        examined = now?;
    }
    if args.json {
        Document::of(Report { examined: &examined }).print()?;
    } else {
        print::text(show::examined(&examined))?;
    }
    Ok(if examined.iter().any(|one| one.is_broken()) { Exit::Failed } else { Exit::Done })
}

fn pid(text: &str) -> Result<Tid, String> {
    let number = text.parse().ok().and_then(Tid::from_raw);
    number.ok_or_else(|| "a process is named by its number, which is above zero".to_owned())
}
