//! `rails-bench undo`

use crate::{
    document::{Contents, Document, Schema},
    exit::Exit,
    journal::JournalArgs,
    print,
};
use anyhow::Result;
use rails_bind::settings::{Change, Host, Journal, Owner, Record, Setting, Undo, Undone, Value};
use serde::Serialize;
use std::{fmt::Write as _, path::Path};

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
    /// Print the changes as JSON (docs/json.md)
    #[arg(long)]
    json: bool,
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
        match args.json {
            true => Document::of(Report::listed(&journal, &records)).print()?,
            false => print::text(list(&journal, &records))?,
        }
        if records.is_empty() {
            args.journal.where_else(&journal).into_iter().for_each(print::note);
        }
        return Ok(Exit::Done);
    }
    let undone = journal.undo(&Host::this(), Undo::AbandonedAndKept, args.force)?;
    match args.json {
        true => Document::of(Report::undone(&journal, &undone)).print()?,
        false => print::text(outcomes(&journal, &undone))?,
    }
    if undone.is_empty() {
        args.journal.where_else(&journal).into_iter().for_each(print::note);
    }
    let all_final = undone.iter().all(|undone| undone.outcome.is_final());
    Ok(if all_final { Exit::Done } else { Exit::Failed })
}

/// A line for each setting.
fn outcomes(journal: &Journal, undone: &[Undone]) -> String {
    if undone.is_empty() {
        return format!("nothing in {} is to be put back\n", journal.folder().display());
    }
    let line = |Undone { owner, setting, outcome, .. }: &Undone| {
        format!("{setting}: {outcome} (process {}, `{}`)\n", owner.pid, owner.command)
    };
    undone.iter().map(line).collect()
}

/// The records of the journal, or the settings that were put back.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Report<'a> {
    /// The journal's folder.
    journal: &'a Path,
    /// With `--list`, the records.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<Vec<Listing<'a>>>,
    /// Without `--list`, the outcome for each setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    undone: Option<Vec<PutBack<'a>>>,
}

impl Contents for Report<'_> {
    const SCHEMA: Schema = Schema::UNDO;
}

/// A record of the journal.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Listing<'a> {
    #[serde(flatten)]
    owner: &'a Owner,
    /// Whether the owner lives, and will put the changes back itself.
    is_live: bool,
    /// Whether the changes were meant to stay.
    is_kept: bool,
    /// The changes.
    changes: Vec<Was<'a>>,
}

/// A change of a record.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Was<'a> {
    #[serde(flatten)]
    change: &'a Change,
    /// The value before the change.
    former: &'a Value,
}

/// The outcome for one setting.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PutBack<'a> {
    #[serde(flatten)]
    owner: &'a Owner,
    #[serde(flatten)]
    setting: &'a Setting,
    /// The outcome, in words.
    outcome: String,
    /// Whether nothing is left to do.
    is_final: bool,
}

impl<'a> Report<'a> {
    fn listed(journal: &'a Journal, records: &'a [Record]) -> Self {
        let records = records.iter().map(|record| Listing {
            owner: &record.owner,
            is_live: record.is_live,
            is_kept: record.is_kept,
            changes: record.changes.iter().map(|(former, change)| Was { change, former }).collect(),
        });
        Self { journal: journal.folder(), records: Some(records.collect()), undone: None }
    }

    fn undone(journal: &'a Journal, undone: &'a [Undone]) -> Self {
        let undone = undone.iter().map(|undone| PutBack {
            owner: &undone.owner,
            setting: &undone.setting,
            outcome: undone.outcome.to_string(),
            is_final: undone.outcome.is_final(),
        });
        Self { journal: journal.folder(), records: None, undone: Some(undone.collect()) }
    }
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
