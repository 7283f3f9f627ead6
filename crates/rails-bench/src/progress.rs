//! The progress of a transfer: a bar on a terminal, otherwise a line for each file.

use crate::{
    bar::{self, Bar},
    print,
    turn::Waits,
};
use rails_topo::DataSize;
use rails_transfer::{Change, LackingGuarantee, Observer, Outcome, Printable, Reason, RelPath, Totals};
use std::{
    collections::BTreeMap,
    io::IsTerminal,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Shows the progress of a transfer. Failures, files left out and guarantees that are lacking are
/// printed in any case.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Bar,
    show: Show,
    /// Whether files that were there already have lines too.
    details: bool,
    /// Files under way.
    open: Mutex<BTreeMap<String, File>>,
    /// The waits of a receiver.
    pub(crate) waits: Waits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Bar,
    Lines,
    Nothing,
}

/// A file under way, in bytes.
#[derive(Debug, Clone, Copy)]
struct File {
    done: u64,
    size: u64,
}

impl Progress {
    /// A bar if stderr is a terminal, else a line for each file that moves, and with `details` for
    /// each that need not; nothing if `quiet`.
    pub(crate) fn new(quiet: bool, details: bool) -> Self {
        let show = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Show::Nothing,
            (false, true) => Show::Bar,
            (false, false) => Show::Lines,
        };
        Self { details, ..Self::showing(show) }
    }

    /// A bar if stderr is a terminal; nothing otherwise, or if `quiet`.
    pub(crate) fn bar_only(quiet: bool) -> Self {
        Self::showing(if !quiet && std::io::stderr().is_terminal() { Show::Bar } else { Show::Nothing })
    }

    fn showing(show: Show) -> Self {
        let bar = if show == Show::Bar { bar::shown() } else { Bar::hidden() };
        Self { bar, show, details: false, open: Mutex::default(), waits: Waits::new() }
    }

    /// A bar over `size` bytes; nothing without a terminal.
    pub(crate) fn of(what: &'static str, size: u64, quiet: bool) -> Bar {
        let progress = Self::bar_only(quiet);
        progress.bar.set_length(size);
        progress.bar.set_message(what);
        progress.bar
    }

    /// Begins another try of the same batch.
    #[cfg(feature = "cli")]
    pub(crate) fn begin_again(&self) {
        self.open().clear();
        self.bar.reset();
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// The unfinished files, with their progress.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let told = |(path, file): (&String, &File)| {
            format!("{path} ({} of {})", DataSize::bytes(file.done), DataSize::bytes(file.size))
        };
        self.open().iter().map(told).collect()
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, File>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names a change that a dry run leaves undone, also beside a progress bar: the user has asked
    /// for these lines.
    fn would(&self, path: &RelPath, bytes: DataSize, change: Change) {
        if self.show != Show::Nothing {
            print::note(match change {
                Change::Send { resumed_at: 0 } => format!("would send    {path} ({bytes})"),
                Change::Send { resumed_at } => {
                    format!("would send    {path} ({bytes}), from {} on", DataSize::bytes(resumed_at))
                }
                Change::Update => format!("would update  {path}"),
                Change::Make => format!("would make    {path}"),
                Change::Remove => format!("would remove  {path}"),
            });
        }
    }

    fn line(&self, word: &str, text: impl std::fmt::Display) {
        if self.show == Show::Lines {
            print::note(format_args!("{word:<9} {text}"));
        }
    }
}

impl Observer for Progress {
    fn waits(&self, goes_on: bool) {
        self.waits.tell(goes_on);
    }

    fn totals(&self, totals: &Totals) {
        self.bar.set_length(totals.bytes);
    }

    fn started(&self, path: &RelPath, size: u64, resumed_at: u64) {
        self.bar.inc(resumed_at);
        self.bar.set_message(path.to_string());
        let before = self.open().insert(path.to_string(), File { done: resumed_at, size });
        // A file that changed while it was read starts again, and its bytes are counted twice.
        if let Some(before) = before {
            self.bar.inc_length(before.done);
        }
        if resumed_at > 0 {
            self.line("resuming", format_args!("{path} at {}", DataSize::bytes(resumed_at)));
        }
    }

    fn moved(&self, path: &RelPath, bytes: u64) {
        // Of a file that has failed, bytes may come late: they count no more.
        if let Some(file) = self.open().get_mut(&path.to_string()) {
            file.done += bytes;
            self.bar.inc(bytes);
        }
    }

    fn finished(&self, path: &RelPath, size: u64, outcome: Outcome<'_>) {
        let done = self.open().remove(&path.to_string()).map_or(0, |file| file.done);
        let bytes = DataSize::bytes(size);
        match outcome {
            Outcome::Stored(_) => self.line("stored", format_args!("{path} ({bytes})")),
            Outcome::AlreadyThere => {
                self.bar.inc(size - done.min(size));
                if self.details {
                    self.line("unchanged", format_args!("{path} ({bytes})"));
                }
            }
            Outcome::Failed(reason) => {
                // Bytes that will not be sent any more are subtracted, so that the bar can reach its end.
                let total = self.bar.length().unwrap_or(0);
                self.bar.set_length(total.saturating_sub(size.saturating_sub(done)));
                print::note(format_args!("failed    {path}: {reason}"));
            }
            Outcome::Made => {}
            Outcome::Removed => self.line("removed", path),
            Outcome::Would(change) => self.would(path, bytes, change),
        }
    }

    fn skipped(&self, source: &Path, reason: &Reason) {
        print::note(format_args!("left out  {}: {reason}", Printable(source)));
    }

    fn unreadable(&self, reason: &Reason) {
        print::note(format_args!("failed    {reason}"));
    }

    fn fewer_streams(&self, streams: usize, reason: &Reason) {
        let over = match streams {
            0 => "the stream of their messages".to_owned(),
            1 => "1 stream".to_owned(),
            _ => format!("{streams} streams"),
        };
        print::note(format_args!("warning: the files go over {over}: {reason}"));
    }

    fn lacking(&self, lacking: &LackingGuarantee) {
        print::note(format_args!("warning: {lacking}"));
    }
}
