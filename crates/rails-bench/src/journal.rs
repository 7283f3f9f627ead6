//! The choice of a journal.

use crate::exit::Help;
use anyhow::{Context, Result};
use rails_bind::settings::Journal;
use std::path::{Path, PathBuf};

/// The flag for the journal of changes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct JournalArgs {
    /// Folder in which changes of the machine are written down [default: /run/rails, or
    /// $XDG_RUNTIME_DIR/rails for those who may not write there]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

impl JournalArgs {
    /// The journal in that folder, or the usual one.
    pub(crate) fn at(journal: Option<PathBuf>) -> Self {
        Self { journal }
    }

    /// The folder that the flag names.
    pub(crate) fn named(&self) -> Option<&Path> {
        self.journal.as_deref()
    }

    /// The journal, made if it does not exist.
    pub(crate) fn open(&self) -> Result<Journal> {
        let journal = match &self.journal {
            Some(folder) => Journal::at(folder).context("--journal"),
            None => Journal::standard().context("the journal cannot be used"),
        };
        journal.map_err(|error| error.help("`--journal DIR` names a folder that nobody else can write to"))
    }

    /// A note about an empty journal: a user who may not read the machine's has another journal.
    pub(crate) fn where_else(&self, journal: &Journal) -> Option<String> {
        let machine = Path::new(Journal::MACHINE);
        let is_another = self.journal.is_none() && journal.folder() != machine && machine.exists();
        is_another.then(|| format!("root's changes are recorded in {}, which root alone can read", machine.display()))
    }
}
