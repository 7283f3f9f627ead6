//! Trace events on stderr, with progress bars out of the way.

use crate::bar;
use clap::ValueEnum;
use std::{
    env, fmt,
    io::{self, IsTerminal, Write},
    time::SystemTime,
};
use tracing_subscriber::fmt::{format::Writer, time::FormatTime};

/// The flag of colours.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct ColorArgs {
    /// When lines of the log are coloured; `auto`: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto, display_order = 101)]
    color: Color,
}

/// When lines are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Whether lines are coloured, on a terminal or not, where NO_COLOR is set or not.
    fn is_on(self, is_terminal: bool, no_color: bool) -> bool {
        match self {
            Self::Auto => is_terminal && !no_color,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Prints trace events to stderr, one line each, with the time in UTC as RFC 3339 writes it:
/// warnings, from the rails crates also debugging (`-v`) and tracing (`-vv`).
pub fn to_stderr(verbose: u8, ColorArgs { color }: ColorArgs) {
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
    // no-color.org: "when present and not an empty string".
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let lines = tracing_subscriber::fmt::layer()
        .with_timer(Rfc3339)
        .with_target(verbose > 0)
        .with_ansi(color.is_on(io::stderr().is_terminal(), no_color))
        .with_writer(|| BetweenBars)
        .with_filter(Targets::new().with_default(LevelFilter::WARN).with_target("rails", ours));
    // The call fails if a subscriber is already set, which then serves.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// The time in UTC, to the millisecond.
struct Rfc3339;

impl FormatTime for Rfc3339 {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        write!(line, "{}", humantime::format_rfc3339_millis(SystemTime::now()))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_by_flag_terminal_and_environment() {
        let on = |color: Color| [(true, false), (true, true), (false, false)].map(|(tty, no)| color.is_on(tty, no));
        assert_eq!(on(Color::Auto), [true, false, false]);
        assert_eq!([on(Color::Always), on(Color::Never)], [[true; 3], [false; 3]]);
    }
}
