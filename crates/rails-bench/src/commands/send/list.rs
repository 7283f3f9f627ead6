//! The options `--files-from` and `--from0`.

use crate::exit::{Help, Helped};
use anyhow::{Context, Result};
use rails_transfer::FileList;
use std::{
    fs,
    io::{self, Read},
    path::PathBuf,
};

/// The list of the entries to send.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ListArgs {
    /// Send only the entries of FILE, a folder, that this file lists, one a line, relative to it; -
    /// reads stdin
    #[arg(long, value_name = "LIST")]
    files_from: Option<PathBuf>,
    /// Each entry of --files-from ends with a NUL byte, as `find -print0` writes them
    #[arg(short = '0', long, requires = "files_from")]
    from0: bool,
}

impl ListArgs {
    /// Reads the list, for sources of which there must be one, a folder.
    pub(crate) fn read(&self, sources: &[PathBuf]) -> Result<Option<FileList>> {
        let Some(from) = &self.files_from else { return Ok(None) };
        let is_stdin = from.as_os_str() == "-";
        if !matches!(sources, [source] if source.is_dir()) {
            return Err(Helped::usage("--files-from: FILE is one folder", "its entries are named relative to it"));
        }
        let mut text = Vec::new();
        let read = match is_stdin {
            true => io::stdin().lock().read_to_end(&mut text).map(drop),
            false => fs::read(from).map(|read| text = read),
        };
        let named = || format!("--files-from {}", from.display());
        read.with_context(named)?;
        let list = FileList::parse(&text, if self.from0 { 0 } else { b'\n' });
        let list = list.with_context(named).map_err(|error| error.help("nothing was sent: mend the list"))?;
        Ok(Some(list))
    }
}
