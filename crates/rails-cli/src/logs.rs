//! Trace events on stderr, with progress bars out of the way.

use crate::bar;
use std::io::{self, IsTerminal, Write};

/// Prints trace events to stderr, one line each: warnings, from the rails crates also debugging
/// (`-v`) and tracing (`-vv`). Environment variables have no effect.
pub fn to_stderr(verbose: u8) {
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
        bar::suspend(|| io::stderr().write_all(line)).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
