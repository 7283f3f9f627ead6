//! The commands, one file each: arguments, and what is done with them.

pub(crate) mod compare;
mod contest;
pub(crate) mod demo;
pub(crate) mod disturb;
pub(crate) mod doctor;
pub(crate) mod lab;
pub(crate) mod latency;
mod ping;
pub(crate) mod plan;
pub(crate) mod recv;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod soak;
pub(crate) mod stream;
pub(crate) mod topo;
pub(crate) mod undo;

use crate::{farewell, print};
use anyhow::{Context, Result, ensure};
use rails_multirail::{Decisions, StreamStats};
use std::{fs, path::Path, time::Duration};

/// Runs a command to its end on the calling thread. A second thread has the signals, so that the program can be ended whatever
/// the first is doing. A third that has begun something long, such as the digest of a large file for a transfer that a signal then ends, keeps the
/// process alive no longer than a peer that is told.
fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("no tokio runtime")?;
    let ended = runtime.block_on(command);
    runtime.shutdown_timeout(farewell::LONGEST);
    ended
}

/// A time in seconds, as the command line gives it.
fn seconds(text: &str) -> Result<Duration> {
    let seconds: f64 = text.parse()?;
    ensure!(seconds > 0.0 && seconds <= 86_400.0, "it is more than 0 and at most 86400");
    Ok(Duration::from_secs_f64(seconds))
}

/// Writes what a stream did where `--prometheus` says, if it does.
fn write_metrics(to: Option<&Path>, stats: Option<&StreamStats>) -> Result<()> {
    let (Some(to), Some(stats)) = (to, stats) else { return Ok(()) };
    let text = stats.to_prometheus(&[]);
    if to == Path::new("-") {
        return Ok(print::result(text)?);
    }
    fs::write(to, text).with_context(|| format!("--prometheus: cannot write {}", to.display()))
}

/// Writes a stream's decisions where `--record-decisions` says, if it does.
fn write_decisions(to: Option<&Path>, decisions: &Decisions) -> Result<()> {
    let (Some(to), Some(record)) = (to, decisions.take()) else { return Ok(()) };
    fs::write(to, record.to_string()).with_context(|| format!("--record-decisions: cannot write {}", to.display()))
}
