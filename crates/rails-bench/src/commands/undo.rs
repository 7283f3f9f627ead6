//! `rails-bench undo`

use crate::{exit::Exit, journal::JournalArgs, print};
use anyhow::Result;
use rails_bind::settings::{Host, Journal, Record, Undo};
use std::fmt::Write as _;

/// Undo the changes of dead processes, and of `doctor --fix`, to this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Programs that move interrupts or steer packets put everything back when they end. One that was killed could not; what it had changed is
in the journal, and is put back by this, or when the next program changes something. What `doctor --fix` changed stays until this.

What a living process holds is left alone, and so is what somebody else has changed since (but for --force), and what a process that was
killed had not changed yet.

Examples:
  rails-bench undo --list
  rails-bench undo

Exit status: 0 if nothing is left to put back, 1 otherwise. Needs what the changes needed: in most cases root.")]
pub(crate) struct Args {
    /// Only show the recorded changes
    #[arg(long)]
    list: bool,
    /// Undo also where somebody else has changed the value since
    #[arg(long, conflicts_with = "list")]
    force: bool,
    #[command(flatten)]
    journal: JournalArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    if let Some(folder) = args.journal.named() {
        super::ensure_exists("--journal", folder)?;
    }
    let journal = args.journal.open()?;
    if args.list {
        let records = journal.records()?;
        print::result(list(&journal, &records))?;
        if records.is_empty() {
            args.journal.where_else(&journal).into_iter().for_each(print::note);
        }
        return Ok(Exit::Done);
    }
    let undone = journal.undo(&Host::this(), Undo::AbandonedAndKept, args.force)?;
    let mut text = String::new();
    for undone in &undone {
        let owner = &undone.owner;
        let _ = writeln!(text, "{}: {} (process {}, `{}`)", undone.setting, undone.outcome, owner.pid, owner.command);
    }
    if undone.is_empty() {
        let _ = writeln!(text, "nothing in {} is to be put back", journal.folder().display());
    }
    print::result(text)?;
    if undone.is_empty() {
        args.journal.where_else(&journal).into_iter().for_each(print::note);
    }
    let all_final = undone.iter().all(|undone| undone.outcome.is_final());
    Ok(if all_final { Exit::Done } else { Exit::Failed })
}

/// The records of the journal, one after the other.
fn list(journal: &Journal, records: &[Record]) -> String {
    if records.is_empty() {
        return format!("nothing is written down in {}\n", journal.folder().display());
    }
    let mut text = String::new();
    for record in records {
        let state = match (record.is_live, record.is_kept) {
            (true, _) => "lives, and will put it back",
            (false, true) => "was meant to stay",
            (false, false) => "ended without putting it back",
        };
        let _ = writeln!(text, "process {} (`{}`) {state}:", record.owner.pid, record.owner.command);
        for (former, change) in &record.changes {
            let _ = writeln!(text, "  {}: {}, before {former}", change.setting, change.value);
        }
    }
    text
}
