//! `cargo xtask lab`: the tests that need the two-socket guest.

use crate::{
    harness::Harness,
    programs::{Program, arguments, build},
    runs,
    setup::{Purpose, setup},
    shell::{Exit, root},
    tally::{Tally, Total},
};
use anyhow::{Context, Result, bail};
use rails_lab::guest::{Guest, GuestBuilder, GuestError};
use std::{
    env,
    io::{self, Write},
    path::PathBuf,
    time::Instant,
};

/// Sets the system up and runs the guest's tests whose name contains one of these, or all.
pub(crate) fn lab(filters: &[String]) -> Result<Exit> {
    ready()?;
    let mut total = Total::default();
    let mut found = false;
    for suite in runs::SUITES {
        let runs = find(&build(suite)?, |test| matches(test, filters))?;
        found |= !runs.is_empty();
        total.add_plain(run_all(&runs, &mut io::stdout())?);
    }
    if !found {
        let such =
            if filters.is_empty() { String::new() } else { format!(" with {} in its name", filters.join(" or ")) };
        bail!("there is no test that needs the guest{such}");
    }
    println!("\n{total}");
    Ok(if total.has_failed() { Exit::FAILURE } else { Exit::SUCCESS })
}

/// Installs the packages that a guest needs, and fetches its kernel.
pub(crate) fn ready() -> Result<()> {
    if path(KERNEL).is_some() != path(MODULES).is_some() {
        bail!("{KERNEL} and {MODULES} name a kernel together, and only one of them is set");
    }
    setup(Purpose::Guest)?;
    if let Some((image, modules)) = named_kernel() {
        println!("the guest's kernel is {} with {}", image.display(), modules.display());
    }
    builder().build()?.prepare().context("the guest cannot be set up")
}

/// Runs the tests of these programs that need the guest, and writes their output; long ones run
/// only on request.
pub(crate) fn of_programs(programs: &[Program], long: bool, out: &mut dyn Write) -> Result<Tally> {
    run_all(&find(programs, |test| long || !takes_long(test))?, out)
}

/// Whether a test's name says that it takes longer than a person waits: `guest_long_*` and
/// `boots_long_*`.
fn takes_long(test: &str) -> bool {
    test.rsplit("::").next().is_some_and(|name| name.starts_with("guest_long_") || name.starts_with("boots_long_"))
}

/// Some tests of one program.
#[derive(Debug)]
struct Run {
    program: Program,
    place: Place,
    tests: Vec<String>,
}

/// Where a test runs, which its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `guest_*`: inside.
    Guest,
    /// `boots_*`: here, booting guests of its own.
    Here,
}

impl Place {
    fn of(test: &str) -> Option<Self> {
        let name = test.rsplit("::").next()?;
        match name {
            _ if name.starts_with("guest_") => Some(Self::Guest),
            _ if name.starts_with("boots_") => Some(Self::Here),
            _ => None,
        }
    }
}

fn find(programs: &[Program], wanted: impl Fn(&str) -> bool) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for program in programs {
        let tests = program.ignored_tests()?;
        for place in [Place::Guest, Place::Here] {
            let tests = pick(&tests, place, &wanted);
            if !tests.is_empty() {
                runs.push(Run { program: program.clone(), place, tests });
            }
        }
    }
    Ok(runs)
}

fn pick(tests: &[String], place: Place, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    tests.iter().filter(|test| Place::of(test) == Some(place) && wanted(test)).cloned().collect()
}

fn matches(test: &str, filters: &[String]) -> bool {
    filters.is_empty() || filters.iter().any(|filter| test.contains(filter))
}

fn run_all(runs: &[Run], out: &mut dyn Write) -> Result<Tally> {
    let mut tally = Tally::default();
    for run in runs {
        tally.add(match run.place {
            Place::Guest => in_guest(run, out)?,
            Place::Here => runs::run_program(&run.program.name(), &mut run.program.ignored(&run.tests), out)?,
        });
    }
    Ok(tally)
}

/// Boots for this program alone, so that no other can disturb it, nor it any other.
fn in_guest(run: &Run, out: &mut dyn Write) -> Result<Tally> {
    let Run { program, tests, .. } = run;
    let mut builder = builder()
        .working_directory(&program.folder)
        .show(root())
        .show(&program.executable)
        .env("CARGO_MANIFEST_DIR", &program.folder);
    for name in PASSED_ON {
        if let Some(value) = env::var_os(name) {
            builder = builder.env(name, value);
        }
    }
    let words = std::iter::once(program.executable.clone().into_os_string()).chain(arguments(tests));
    writeln!(out, "\n$ (guest) {} --ignored, {} tests", program.executable.display(), tests.len())?;
    let start = Instant::now();
    let mut harness = Harness::default();
    let mut failed = None;
    let answer = builder.build()?.run(words, |line| {
        if let Err(error) = out.write_all(line).and_then(|()| out.flush()) {
            failed = Some(error);
        }
        harness.read(&String::from_utf8_lossy(line));
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    writeln!(out, "(the guest took {:.0} s)", start.elapsed().as_secs_f64())?;
    if let Ok(status) = &answer
        && status.crashed_boots() > 0
    {
        writeln!(out, "(QEMU crashed in {} earlier boots of it)", status.crashed_boots())?;
    }
    let name = program.name();
    let (tally, wrong) = whole(harness.end(&name), &name, tests, &answer.map(|status| status.code()));
    if let Some(wrong) = wrong {
        writeln!(out, "FAILED: {wrong}")?;
    }
    Ok(tally)
}

/// Every test that was asked for counts: one that the program or the guest died before is a failed
/// one.
fn whole(
    mut tally: Tally,
    program: &str,
    tests: &[String],
    answer: &Result<u8, GuestError>,
) -> (Tally, Option<String>) {
    let wrong = match answer {
        Ok(0) => None,
        Ok(code) => Some(format!("the test program ended with status {code}")),
        Err(error) => Some(format!("{error}{}", cause(error))),
    };
    for _ in tally.passed + tally.failed..tests.len() as u64 {
        tally.fail(format!("{program}: a test that did not end in the guest"));
    }
    if let Some(wrong) = wrong.as_ref().filter(|_| tally.failed == 0) {
        tally.fail(format!("{program}: {wrong}"));
    }
    (tally, wrong)
}

fn cause(error: &GuestError) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}

fn builder() -> GuestBuilder {
    // To install irqbalance would have it run on this machine, so the guest has one of its own.
    let builder = Guest::builder().program("irqbalance");
    match named_kernel() {
        Some((image, modules)) => builder.kernel(image, modules),
        None => builder,
    }
}

/// For systems without apt: an image and the folder of its modules, both or none.
fn named_kernel() -> Option<(PathBuf, PathBuf)> {
    Some((path(KERNEL)?, path(MODULES)?))
}

fn path(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

const KERNEL: &str = "RAILS_LAB_KERNEL";
const MODULES: &str = "RAILS_LAB_MODULES";
/// The variables that a person sets to see more.
const PASSED_ON: [&str; 3] = ["RUST_BACKTRACE", "RUST_LOG", "PROPTEST_CASES"];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_name_says_where_a_test_runs() {
        let tests = names(&["guest_a", "m::guest_b", "guest_m::c", "netns_guest_d", "m::boots_e"]);
        let picked = |place, filters: &[&str]| pick(&tests, place, |test| matches(test, &names(filters)));
        assert_eq!(picked(Place::Guest, &[]), ["guest_a", "m::guest_b"]);
        assert_eq!(picked(Place::Here, &[]), ["m::boots_e"]);
        assert_eq!(picked(Place::Guest, &["_b", "x"]), ["m::guest_b"]);
        assert_eq!(picked(Place::Guest, &["x"]), [] as [&str; 0]);
        assert!(takes_long("m::guest_long_f") && takes_long("boots_long_g") && !takes_long("guest_longest"));
    }

    #[test]
    fn every_test_counts_when_a_guest_fails() {
        let tests = names(&["a", "b", "c"]);
        let whole = |passed, failed, answer: Result<u8, GuestError>| {
            let tally = Tally { passed, failed, ..Tally::default() };
            let whole = whole(tally, "p", &tests, &answer).0;
            (whole.passed, whole.failed, whole.failures)
        };
        let lost = || Err(GuestError::NoCache);
        let unended = |count| vec!["p: a test that did not end in the guest".to_owned(); count];
        assert_eq!(whole(3, 0, Ok(0)), (3, 0, vec![]));
        // The program has named that one.
        assert_eq!(whole(2, 1, Ok(101)), (2, 1, vec![]));
        assert_eq!(whole(0, 0, Ok(134)), (0, 3, unended(3)));
        assert_eq!(whole(0, 0, lost()), (0, 3, unended(3)));
        assert_eq!(whole(2, 0, Ok(0)), (2, 1, unended(1)));
        let (passed, failed, failures) = whole(3, 0, lost());
        assert_eq!((passed, failed, failures.len()), (3, 1, 1));
    }
}
