//! Which journal is meant.

use anyhow::{Context, Result};
use rails_bind::settings::Journal;
use std::path::PathBuf;

/// Where changes of the machine are written down.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct JournalArgs {
    /// Folder in which changes of the machine are written down [default: /run/rails, or $XDG_RUNTIME_DIR/rails for those who may
    /// not write there]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

impl JournalArgs {
    /// The journal, made if it is not there.
    pub(crate) fn open(&self) -> Result<Journal> {
        match &self.journal {
            Some(folder) => Journal::at(folder).context("--journal"),
            None => Journal::standard().context("the journal cannot be used"),
        }
    }
}
