//! Errors of a guest.

use super::tools::Tool;
use crate::SystemError;
use std::{ffi::OsString, fmt, path::PathBuf, time::Duration};

/// A failure to build, prepare or run a guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// The guest shares its owner's root file system, and emulates x86_64 only.
    #[error("the guest is an x86_64 machine on the root file system of its owner, which is {found}")]
    Architecture {
        /// The owner's architecture.
        found: &'static str,
    },
    /// Programs that the guest is built with are not installed.
    #[error("the guest needs programs that are not installed: {}", Tool::list(missing))]
    Missing {
        /// The missing programs.
        missing: Vec<Tool>,
    },
    /// A value of the builder is out of its range.
    #[error("a guest cannot have {value} {what}: {range} are possible")]
    OutOfRange {
        /// The setting.
        what: &'static str,
        /// The value as given.
        value: u64,
        /// The values that are possible.
        range: &'static str,
    },
    /// The name of an environment variable is not valid in a shell.
    #[error("the environment variable {name:?} cannot be passed to the guest")]
    BadVariable {
        /// The name as given.
        name: String,
    },
    /// A path is relative, and so cannot be the same in the guest.
    #[error("the path {} is not absolute", path.display())]
    RelativePath {
        /// The path as given.
        path: PathBuf,
    },
    /// The command has no words, or one with a byte of value zero.
    #[error("the guest cannot run the command line {words:?}")]
    BadCommand {
        /// The words as given.
        words: Vec<OsString>,
    },
    /// Neither the caller nor the environment names a cache folder.
    #[error("no cache folder: neither was one set, nor do XDG_CACHE_HOME or HOME name an absolute path")]
    NoCache,
    /// No kernel is available.
    #[error("no kernel for the guest: {reason}")]
    NoKernel {
        /// The missing part, and a remedy.
        reason: String,
    },
    /// A program is neither installed nor available as a package.
    #[error("no program {program} for the guest; it is not installed, and its package cannot be fetched")]
    NoProgram {
        /// The program.
        program: String,
        /// The failure.
        source: Box<GuestError>,
    },
    /// The kernel has no such module, neither loadable nor built in.
    #[error("the kernel in {} has no module {module}, which the guest needs", folder.display())]
    NoModule {
        /// The module.
        module: String,
        /// The folder of its kernel's modules.
        folder: PathBuf,
    },
    /// A program or a file failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The guest did not start the command.
    #[error("the guest did not come up: {reason}{console}")]
    NotUp {
        /// The failure, as far as it is known.
        reason: String,
        /// The last lines of the console.
        console: Console,
    },
    /// The emulator crashed in each boot, before the guest started the command.
    #[error("QEMU crashed in each of {boots} boots, the last time by signal {signal}, and said {stderr:?}")]
    EmulatorCrashed {
        /// The signal's number.
        signal: i32,
        /// The boots that were tried.
        boots: u8,
        /// The emulator's standard error of the last boot.
        stderr: String,
    },
    /// The guest's kernel panicked.
    #[error("the guest's kernel panicked{console}")]
    Panicked {
        /// The lines of the console around the panic.
        console: Console,
    },
    /// The guest exceeded its time limit.
    #[error("the guest was ended at its time limit of {limit:?}, {}{console}", if *up { "its command running" } else { "before it came up" })]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// Whether the command had been started.
        up: bool,
        /// The last lines of the console.
        console: Console,
    },
    /// The machine ended while the command ran (it was powered off from inside, or QEMU was
    /// killed).
    #[error("the guest ended before its command did{console}")]
    Lost {
        /// The last lines of the console.
        console: Console,
    },
}

/// Lines of a guest's console, each on a line of its own after a heading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Console(String);

impl Console {
    /// Keeps the last lines of the output.
    pub(crate) fn tail(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).replace('\r', "");
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        Self(lines[lines.len().saturating_sub(LINES)..].join("\n"))
    }

    /// Keeps the lines from the one that holds `beginning` on, and some before it, as call traces
    /// have any length.
    pub(crate) fn around(bytes: &[u8], beginning: &str) -> Self {
        let text = String::from_utf8_lossy(bytes).replace('\r', "");
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let at = lines.iter().position(|line| line.contains(beginning)).unwrap_or(lines.len());
        let end = lines.len().min(at + LINES);
        Self(lines[at.saturating_sub(LINES_BEFORE)..end].join("\n"))
    }

    /// The lines alone.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Console {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return formatter.write_str("; its console is empty");
        }
        write!(formatter, "; the last lines of its console:")?;
        self.0.lines().try_for_each(|line| write!(formatter, "\n    {line}"))
    }
}

/// About the number of lines of a panic report, with registers and call trace.
const LINES: usize = 40;
/// The kernel prints the cause of a panic right before it.
const LINES_BEFORE: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_panic_with_a_long_trace() {
        let lines = |from: usize, to: usize| (from..to).map(|line| format!("line {line}\r\n")).collect::<String>();
        let written = format!("{}Kernel panic: why\r\n{}", lines(0, 30), lines(30, 200));
        let console = Console::around(written.as_bytes(), "Kernel panic");
        let kept: Vec<&str> = console.text().lines().collect();
        assert_eq!((kept[0], kept[10], kept.len()), ("line 20", "Kernel panic: why", 50));
        assert_eq!(Console::around(b"short\nKernel panic: why\n", "Kernel panic").text(), "short\nKernel panic: why");
    }

    #[test]
    fn the_last_lines_are_kept() {
        let long: String = (0..100).map(|line| format!("line {line}\r\n\r\n")).collect();
        let console = Console::tail(long.as_bytes());
        assert_eq!(console.text().lines().count(), LINES);
        assert!(console.text().ends_with("line 98\nline 99"), "{}", console.text());
    }

    #[test]
    fn an_empty_console_is_said() {
        let error = GuestError::Lost { console: Console::tail(b"\r\n") };
        assert_eq!(error.to_string(), "the guest ended before its command did; its console is empty");
    }
}
