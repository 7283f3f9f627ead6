//! `rails-bench rails`

use crate::{
    document::{Contents, Document, Schema},
    exit::{Exit, Help},
    print,
    table::Table,
};
use anyhow::{Context, Result};
use rails_bind::claims::{ClaimError, Claims, Holder};
use serde::Serialize;
use std::path::PathBuf;

/// List the CPUs, interrupts and NIC queues that processes of this host have claimed for themselves
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A process that claims a CPU, an interrupt or a receive queue has it for itself until it ends, however it ends: no other process that asks
gets it, but for root's, which override those of other users. The list has the claims of every user, and claims nothing.

A process of a container is shown with its number as it is seen from here, and as `unseen` where it has none.

Examples:
  rails-bench rails
  rails-bench rails --json

Exit status: 0 also if nothing is claimed, 1 if the claims cannot be read. Needs no privilege.")]
pub(crate) struct Args {
    /// Print the holders as JSON (docs/json.md)
    #[arg(long)]
    json: bool,
    /// Folder in which claims are made [default: /run/lock/rails]
    #[arg(long, value_name = "DIR")]
    claims: Option<PathBuf>,
}

/// The holders.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Report<'a> {
    /// The processes that hold claims.
    holders: &'a [Holder],
}

impl Contents for Report<'_> {
    const SCHEMA: Schema = Schema::RAILS;
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    if let Some(folder) = &args.claims {
        super::ensure_exists("--claims", folder)?;
    }
    let claims = args.claims.as_ref().map_or_else(Claims::machine, Claims::at);
    let holders = list(&claims, args.claims.is_some())?;
    if args.json {
        Document::of(Report { holders: &holders }).print()?;
    } else if holders.is_empty() {
        print::text("no claims on this host\n")?;
    } else {
        print::text(table(&holders))?;
    }
    Ok(Exit::Done)
}

fn list(claims: &Claims, is_named: bool) -> Result<Vec<Holder>> {
    let listed = claims.list();
    // The message of an unusable folder has its remedy.
    let has_remedy = matches!(listed, Err(ClaimError::Folder { .. } | ClaimError::NotAFile { .. }));
    let context = if is_named { "--claims" } else { "the claims cannot be listed" };
    listed.context(context).map_err(|error| match has_remedy {
        true => error,
        false => error.help("root can look at the file, and remove it while nobody holds a claim in it"),
    })
}

/// A line for each process.
fn table(holders: &[Holder]) -> String {
    let mut table = Table::plain(["process", "user", "holds", "command"], [true, true, false, false]);
    for holder in holders {
        let known = |number: Option<u32>, unknown: &str| number.map_or(unknown.to_owned(), |number| number.to_string());
        let command = holder.command.as_deref().unwrap_or(UNKNOWN);
        let (process, user) =
            (known(holder.pid, if holder.is_open_file { UNKNOWN } else { "unseen" }), known(holder.user, UNKNOWN));
        table.add_row([process, user, holder.holds.to_string(), command.to_owned()]);
    }
    format!("{table}\n")
}

const UNKNOWN: &str = "unknown";
