//! The commands. Each file has the arguments of one command and runs it.

pub(crate) mod demo;
pub(crate) mod doctor;
#[cfg(test)]
mod documents;
mod door;
pub(crate) mod forward;
pub(crate) mod gate;
mod metrics;
pub(crate) mod ping;
pub(crate) mod pipe;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod rails;
pub(crate) mod recv;
pub(crate) mod redirect;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod tasks;
pub(crate) mod topo;
pub(crate) mod undo;

use crate::{exit::Help, measure::latency::LONGEST, output_file, size};
use anyhow::{Context, Result, ensure};
use rails_multirail::Decisions;
use std::{path::Path, time::Duration};

/// Reads the length of a message of round trips.
pub(crate) fn message(text: &str) -> Result<u32, String> {
    let size = size::parse(text)?.as_bytes();
    let fitting = u32::try_from(size).ok().filter(|bytes| (1..=LONGEST).contains(bytes));
    fitting.ok_or_else(|| format!("a message has 1 to {LONGEST} bytes"))
}

/// A time in seconds, as the command line gives it.
pub(crate) fn seconds(text: &str) -> Result<Duration> {
    let seconds: f64 = text.parse()?;
    ensure!(seconds > 0.0 && seconds <= 86_400.0, "it is more than 0 and at most 86400");
    Ok(Duration::from_secs_f64(seconds))
}

/// The time between reports, in seconds, as the command line gives it.
fn report_interval(text: &str) -> Result<Duration> {
    let time = seconds(text)?;
    ensure!(time >= Duration::from_millis(100), "it is at least 0.1");
    Ok(time)
}

/// An error if the folder that a flag names does not exist: a misspelt one would seem to be empty.
fn ensure_exists(flag: &str, folder: &Path) -> Result<()> {
    let found = folder.metadata().with_context(|| format!("{flag}: cannot open `{}`", folder.display()));
    found.map(drop).map_err(|error| error.help(format!("{flag} can be left out for the usual folder")))
}

/// Writes a stream's decisions to the file of `--record-decisions`, if it was given.
fn write_decisions(to: Option<&Path>, decisions: &Decisions) -> Result<()> {
    let (Some(to), Some(record)) = (to, decisions.take()) else { return Ok(()) };
    output_file::write(to, record.to_string())
        .with_context(|| format!("--record-decisions: cannot write {}", to.display()))
}
