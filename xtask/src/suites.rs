//! `cargo xtask test`: the plain tests, then those that need root or captured machines.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use rails_lab::captures::{self, CAPTURES};

use crate::fuzz;
use crate::lab;
use crate::shell::{Exit, SUDO, cargo, root, shown, succeeds};
use crate::tally::{Tally, Total};

/// Runs all that can run here; the last line printed is the count.
pub(crate) fn test(filter: &[String], root: bool) -> Result<Exit> {
    let captured = captured()?;
    let mut total = Total::default();
    let mut notes = Vec::new();
    let lstopo = succeeds("lstopo", &["--version"]);

    if filter.is_empty() {
        let guest = lab::ready();
        for suite in SUITES {
            total.add_plain(run(&mut test_command(suite))?);
            if root {
                total.add_later(run(&mut ignored(suite, "netns_"))?);
            }
            if guest.is_ok() {
                total.add_later(lab::suite(suite)?);
            }
            if lstopo {
                total.add_later(run(&mut ignored(suite, "lstopo_"))?);
            }
            if let Some(folder) = &captured {
                total.add_later(run(ignored(suite, "captured_").env(CAPTURES, folder))?);
            }
        }
        total.add_plain(simulate()?);
        match fuzz::smoke() {
            Ok(tally) => total.add_plain(tally),
            Err(error) => {
                println!("FAILED: the fuzz targets did not run: {error:#}");
                total.add_plain(Tally { passed: 0, failed: 1, ignored: 0 });
            }
        }
        if !root {
            notes.push(format!(
                "SKIPPED: tests named netns_* need root (network namespaces); run: {SUDO} cargo xtask test"
            ));
        }
        if let Err(error) = guest {
            notes.push(format!(
                "SKIPPED: tests named guest_* and boots_* need the two-socket guest; run: cargo xtask lab ({error:#})"
            ));
        }
        if !lstopo {
            notes.push(
                "SKIPPED: tests named lstopo_* need lstopo (hwloc's program; Debian's package `hwloc`)".to_owned(),
            );
        }
        if captured.is_none() {
            notes.push(format!(
                "SKIPPED: tests named captured_* need captured machines; set {CAPTURES} to their folder, or put them \
                 into shared/topologies beside the checkout"
            ));
        }
    } else {
        let mut command = cargo(["test", "--no-fail-fast", "--workspace"]);
        command.args(filter);
        if let Some(folder) = &captured {
            command.env(CAPTURES, folder);
        }
        total.add_plain(run(&mut command)?);
        notes.push("FILTERED: one run of the tests that match; the others were not looked at".to_owned());
    }

    println!();
    notes.iter().for_each(|note| println!("{note}"));
    println!("{total}");
    Ok(if total.has_failed() { Exit::FAILURE } else { Exit::SUCCESS })
}

/// The simulated streams from many seeds, in release, as one step: with debug assertions they would take half an hour. A seed that
/// fails is printed by the test, with the command that draws it again.
fn simulate() -> Result<Tally> {
    let mut command = cargo(SIMULATION);
    command.arg("--no-run");
    println!("\n$ {}", shown(&command));
    let status = command.status().with_context(|| format!("cannot run `{}`", shown(&command)))?;
    if !status.success() {
        println!("FAILED: the simulation does not build");
        return Ok(Tally { passed: 0, failed: 1, ignored: 0 });
    }
    // A stream that stands still in a way that the simulation does not see must not hold up the rest.
    let bounded = cargo(SIMULATION);
    let mut command = Command::new("timeout");
    command.arg(MOST_SECONDS).arg(bounded.get_program()).args(bounded.get_args()).args(["--", "properties::"]);
    run(command.env("RAILS_SEEDS", SEEDS).current_dir(root()))
}

/// `None` where there are none; a folder that was named and is not there is an error.
fn captured() -> Result<Option<PathBuf>> {
    if let Some(folder) = captures::named() {
        // The tests run in the folders of their crates, so a relative path would mean another folder there.
        return match folder.canonicalize() {
            Ok(folder) if folder.is_dir() => Ok(Some(folder)),
            Ok(_) => bail!("{CAPTURES} is not a folder: {}", folder.display()),
            Err(error) => Err(error).with_context(|| format!("{CAPTURES} cannot be read: {}", folder.display())),
        };
    }
    Ok(captures::folder().canonicalize().ok().filter(|folder| folder.is_dir()))
}

fn test_command(suite: &[&str]) -> Command {
    let mut command = cargo(["test", "--no-fail-fast"]);
    command.args(suite);
    command
}

/// Runs the tests that are ignored and have this in their name; documentation holds none of those.
fn ignored(suite: &[&str], name: &str) -> Command {
    let mut command = test_command(suite);
    command.args(["--tests", "--", "--ignored", name]);
    command
}

/// Runs the command, passes its lines on as they come, and counts.
///
/// A run that fails without a failed test, because it did not build or a test program died, counts as one.
pub(crate) fn run(command: &mut Command) -> Result<Tally> {
    println!("\n$ {}", shown(command));
    io::stdout().flush()?;
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run `{}`", shown(command)))?;
    let output = child.stdout.take().context("the child has no standard output")?;
    let mut tally = pass_on(BufReader::new(output), &mut io::stdout().lock())?;
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        println!("FAILED: `{}` ended without naming a failed test ({status})", shown(command));
        tally.failed = 1;
    }
    Ok(tally)
}

/// Copies line by line, and adds up the lines that count tests. A test may print any bytes.
fn pass_on(mut from: impl BufRead, to: &mut impl Write) -> io::Result<Tally> {
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

/// What `cargo test` is run for: everything, and the topology reader that stands in where there is no hwloc.
pub(crate) const SUITES: [&[&str]; 2] = [&["--workspace"], &["--package", "rails-topo", "--no-default-features"]];
const SIMULATION: [&str; 6] = ["test", "--release", "--package", "rails-multirail", "--test", "simulation"];
/// What is drawn from in [`simulate`].
const SEEDS: &str = "0..10000";
/// For all of them, as timeout(1) takes it.
const MOST_SECONDS: &str = "900";

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn lines_pass_unchanged_and_are_counted() {
        let text = b"running 1 test\n\xff\xfe\ntest result: ok. 1 passed; 0 failed; 2 ignored; 0 measured\n\
                     test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured\nno newline";
        let mut out = Vec::new();
        let tally = pass_on(&text[..], &mut out).unwrap();
        assert_eq!(out, text);
        assert_eq!(tally, Tally { passed: 4, failed: 1, ignored: 2 });
    }

    #[test]
    fn a_run_that_dies_counts_as_failed() {
        let tally = run(Command::new("sh").args(["-c", "exit 101"])).unwrap();
        assert_eq!(tally, Tally { passed: 0, failed: 1, ignored: 0 });
    }

    #[test]
    fn ignored_tests_are_picked_by_name() {
        let command = ignored(SUITES[1], "netns_");
        let args: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        assert_eq!(
            args.join(" "),
            "test --no-fail-fast --package rails-topo --no-default-features --tests -- --ignored netns_"
        );
    }
}
