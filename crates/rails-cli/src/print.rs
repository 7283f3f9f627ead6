//! Writing to the terminal: results to stdout, everything else to stderr, with progress bars out of
//! the way.

use crate::{bar, table::Table, width};
use anyhow::{Context, Result};
use comfy_table::Row;
use rails_net::Repeated;
use std::{
    env, fmt,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Instant,
};

/// Writes a text for people to stdout, as wide as their terminal.
///
/// # Errors
/// As [`result`].
pub fn text(text: impl fmt::Display) -> Result<()> {
    let text = text.to_string();
    result(width::width().map(|width| width::fitted(&text, width)).unwrap_or(text))
}

/// Writes a result to stdout, as it is.
///
/// # Errors
/// The operating system's error. A reader that is gone (`rails-bench topo | head -1`) is no error.
pub fn result(text: impl fmt::Display) -> Result<()> {
    more(text).map(drop)
}

/// Writes one of many results to stdout, and returns whether a reader is still there.
///
/// # Errors
/// As [`result`].
pub fn more(text: impl fmt::Display) -> Result<bool> {
    let written = bar::suspend(|| {
        let mut out = io::stdout().lock();
        write!(out, "{text}")?;
        out.flush()
    });
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("cannot write to stdout"),
    }
}

/// Writes a line to stderr. A failure is ignored, because there is no other place to report it.
pub fn note(line: impl fmt::Display) {
    // One call for all of it: stderr has no buffer, and other processes write there too.
    let line = format!("{line}\n");
    bar::suspend(|| {
        let _ = io::stderr().write_all(line.as_bytes());
    });
}

/// Writes a line to stderr, once a minute per text at most: others decide how often it comes.
pub fn note_seldom(line: &str) {
    if NOTED.due(Instant::now(), line).is_some() {
        note(line);
    }
}

/// The lines that were written seldom.
static NOTED: Repeated = Repeated::new();

/// The name of the program, as it was started.
pub fn program() -> String {
    let path = env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_name);
    name.map_or_else(|| "the program".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A table whose first `names` columns name a case, and whose others have figures.
pub fn table(names: usize, header: impl Into<Row>) -> Table {
    Table::of_figures(names, header)
}
