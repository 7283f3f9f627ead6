//! Writing to the terminal: results to stdout, everything else to stderr, with progress bars out of
//! the way.

use comfy_table::{CellAlignment, Row, Table, presets::UTF8_HORIZONTAL_ONLY};
use indicatif::MultiProgress;
use std::{
    fmt,
    io::{self, IsTerminal, Write},
    sync::LazyLock,
};

/// All progress bars, so that lines can be written between them.
pub(crate) static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Writes a result to stdout.
///
/// # Errors
/// The operating system's error. A reader that is gone (`rails-bench topo | head -1`) is no error.
pub(crate) fn result(text: impl fmt::Display) -> io::Result<()> {
    let written = BARS.suspend(|| {
        let mut out = io::stdout().lock();
        write!(out, "{text}")?;
        out.flush()
    });
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a line to stderr. A failure is ignored, because there is no other place to report it.
pub(crate) fn note(line: impl fmt::Display) {
    BARS.suspend(|| {
        let _ = writeln!(io::stderr(), "{line}");
    });
}

/// A table whose first `names` columns name a case, and whose others have figures.
pub(crate) fn table(names: usize, header: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    table.column_iter_mut().skip(names).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// Prints trace events to stderr, one line each: warnings, from the rails crates also debugging
/// (`-v`) and tracing (`-vv`). Environment variables have no effect.
pub(crate) fn traces(verbose: u8) {
    use tracing_subscriber::{
        Layer,
        filter::{LevelFilter, Targets},
        layer::SubscriberExt,
        util::SubscriberInitExt,
    };
    let ours = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt::layer()
        .without_time()
        .with_target(verbose > 0)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(|| BetweenBars)
        .with_filter(Targets::new().with_default(LevelFilter::WARN).with_target("rails", ours));
    // The call fails if a subscriber is already set, which then serves.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// Stderr, with the bars cleared while a line is written.
struct BetweenBars;

impl Write for BetweenBars {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        BARS.suspend(|| io::stderr().write_all(line)).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
