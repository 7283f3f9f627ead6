//! One run of tests, whose lines are passed on and counted.

use crate::{harness::Harness, shell::shown, tally::Tally};
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
    let name = shown(command);
    run_program(&name, command, out)
}

/// As [`run`], for a test program of this name.
pub(crate) fn run_program(name: &str, command: &mut Command, out: &mut dyn Write) -> Result<Tally> {
    writeln!(out, "\n$ {}", shown(command))?;
    out.flush()?;
    // One output of both, for cargo names a failed program on its standard error.
    let (output, said) = io::pipe()?;
    command.stdout(said.try_clone()?).stderr(said);
    let child = command.spawn();
    // The command has copies of the pipe's writing end, which has to be closed with the child's.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.with_context(|| format!("cannot run `{}`", shown(command)))?;
    let mut tally = pass_on(BufReader::new(output), out)?.end(name);
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        writeln!(out, "FAILED: `{}` ended without naming a failed test ({status})", shown(command))?;
        tally.fail(format!("{name}: it ended without naming a failed test ({status})"));
    }
    Ok(tally)
}

/// Copies line by line, and reads the lines about tests. A test may print any bytes.
fn pass_on(mut from: impl BufRead, to: &mut dyn Write) -> io::Result<Harness> {
    let mut harness = Harness::default();
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        harness.read(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(harness)
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
        let tally = pass_on(&text[..], &mut out).unwrap().end("a program");
        assert_eq!(out, text);
        assert_eq!((tally.passed, tally.failed, tally.ignored), (4, 1, 2));
    }

    #[test]
    fn both_outputs_are_read() {
        let script = "printf 'failures:\\n    bad\\n\\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\\n'
            echo 'error: test failed, to rerun pass `-p x --lib`' >&2; exit 101";
        let tally = run(Command::new("sh").args(["-c", script]), &mut Vec::new()).unwrap();
        assert_eq!((tally.failed, tally.failures), (1, vec!["-p x --lib: bad".to_owned()]));
    }
}
