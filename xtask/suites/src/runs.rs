//! One run of tests, whose lines are passed on and counted.

use crate::{shell::shown, tally::Tally};
use anyhow::{Context, Result};
use std::{
    io::{self, BufRead, BufReader, Write},
    process::{Command, Stdio},
};

/// Runs the command, passes its lines on as they come, and counts.
///
/// A run that fails without a failed test, because it did not build or a test program died, counts
/// as one.
pub(crate) fn run(command: &mut Command, out: &mut dyn Write) -> Result<Tally> {
    writeln!(out, "\n$ {}", shown(command))?;
    out.flush()?;
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run `{}`", shown(command)))?;
    let output = child.stdout.take().context("the child has no standard output")?;
    let mut tally = pass_on(BufReader::new(output), out)?;
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        writeln!(out, "FAILED: `{}` ended without naming a failed test ({status})", shown(command))?;
        tally.failed = 1;
    }
    Ok(tally)
}

/// Copies line by line, and adds up the lines that count tests. A test may print any bytes.
fn pass_on(mut from: impl BufRead, to: &mut dyn Write) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        if let Some(one) = Tally::parse(String::from_utf8_lossy(&line).trim_end()) {
            tally.add(one);
        }
        line.clear();
    }
    Ok(tally)
}

/// The suites of `cargo test`: everything, and the topology reader that stands in where there is no
/// hwloc.
pub(crate) const SUITES: [&[&str]; 2] = [HERE, WITHOUT_HWLOC];
pub(crate) const HERE: &[&str] = &["--workspace"];
pub(crate) const WITHOUT_HWLOC: &[&str] = &["--package", "rails-topo", "--no-default-features"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_pass_unchanged_and_are_counted() {
        let text = b"running 1 test\n\xff\xfe\ntest result: ok. 1 passed; 0 failed; 2 ignored; 0 measured\n\
                     test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured\nno newline";
        let mut out = Vec::new();
        let tally = pass_on(&text[..], &mut out).unwrap();
        assert_eq!(out, text);
        assert_eq!(tally, Tally { passed: 4, failed: 1, ignored: 2 });
    }
}
