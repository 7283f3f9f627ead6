//! `cargo xtask test`: the plain tests, then those that need root, a guest or captured machines,
//! and those that draw from seeds.

use crate::{
    fuzz::{Build, Fuzzer},
    lab,
    programs::{Program, build},
    runs::{HERE, SUITES, WITHOUT_HWLOC, run, run_program},
    setup::{Purpose, setup},
    shell::{self, Exit, SUDO, cargo, root, succeeds},
    tally::{Tally, Total},
};
use anyhow::{Context, Result, bail};
use rails_lab::captures::{self, CAPTURES};
use std::{
    env,
    io::{self, Write},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

/// How many cases the tests that draw from seeds try.
#[derive(Debug)]
pub(crate) struct Tier {
    /// The tests that are drawn from seeds, by their program and module, and the seeds, as
    /// `RAILS_SEEDS` has them.
    drawn: [(&'static str, &'static str, &'static str); 7],
    /// How long each may take, as timeout(1) has it: a stream that stands still in a way that the
    /// simulation does not see must not hold up the rest.
    longest: &'static str,
    /// How the fuzz targets are built, and how long each runs.
    fuzz: (Build, u64),
    /// Whether tests run whose subject takes long.
    is_long: bool,
    /// `RAILS_RUNS`: how often a test that repeats itself does so.
    runs: Option<&'static str>,
    /// How long a stream goes through faults of its links, besides the seconds that a plain test
    /// takes for it.
    soak_minutes: Option<&'static str>,
}

impl Tier {
    /// Decides whether a change may land.
    pub(crate) const NORMAL: Self = Self {
        drawn: [
            ("simulation", "losses::", "0..10000"),
            ("simulation", "properties::", "0..1000"),
            ("simulation", "crowd::", "0..10000"),
            ("lossy_paths", "properties::", "0..20000"),
            ("random_runs", "one_node::", "0..20000"),
            ("random_runs", "two_nodes::", "0..20000"),
            ("rails_lambdaram", "simulation::", "0..2000"),
        ],
        longest: "30m",
        fuzz: (Build::Quick, 1),
        is_long: false,
        runs: None,
        soak_minutes: None,
    };
    /// For hours in which no person waits.
    pub(crate) const LONG: Self = Self {
        drawn: [
            ("simulation", "losses::", "0..100000"),
            ("simulation", "properties::", "0..100000"),
            ("simulation", "crowd::", "0..100000"),
            ("lossy_paths", "properties::", "0..1000000"),
            ("random_runs", "one_node::", "0..1000000"),
            ("random_runs", "two_nodes::", "0..1000000"),
            ("rails_lambdaram", "simulation::", "0..100000"),
        ],
        longest: "4h",
        fuzz: (Build::Optimized, 60),
        is_long: true,
        runs: Some("20"),
        soak_minutes: Some("10"),
    };
}

/// Runs all that can run here; the last line printed is the count.
pub(crate) fn test(tier: &Tier, filter: &[String], root: bool) -> Result<Exit> {
    let captured = captured()?;
    let mut total = Total::default();
    let mut notes = Vec::new();

    if filter.is_empty() {
        everything(tier, root, captured, &mut total, &mut notes)?;
    } else {
        let mut command = cargo(["test", "--no-fail-fast", "--workspace"]);
        command.args(filter);
        if let Some(folder) = &captured {
            command.env(CAPTURES, folder);
        }
        total.add_plain(run(&mut command, &mut io::stdout())?);
        notes.push("FILTERED: one run of the tests that match; the others were not looked at".to_owned());
    }

    println!();
    notes.iter().for_each(|note| println!("{note}"));
    println!("{total}");
    Ok(if total.has_failed() { Exit::FAILURE } else { Exit::SUCCESS })
}

/// Three things at a time, for the processors would be idle else: tests over links wait most of
/// their time, and guests are built of one thread mostly.
///
/// The simulated streams take the time that the others leave, from the first test on. Tests whose
/// links have rates have only that beside them; guests run beside tests that only compute.
fn everything(
    tier: &Tier,
    root: bool,
    captured: Option<PathBuf>,
    total: &mut Total,
    notes: &mut Vec<String>,
) -> Result<()> {
    let lstopo = succeeds("lstopo", &["--version"]);
    let cuda = has_cuda();
    let proofs = setup(Purpose::Proofs);
    let others = root.then(|| setup(Purpose::Programs));
    let guest = lab::ready();
    let (fuzz_build, fuzz_seconds) = tier.fuzz;
    let programs = build(HERE)?;
    // Before the tests: while cargo builds, no other cargo runs tests of the same folder.
    let fuzzer = Fuzzer::build(fuzz_build);
    thread::scope(|scope| -> Result<()> {
        let drawn = scope.spawn(|| buffered(|out| drawn(tier, &programs, out)));
        let out = &mut io::stdout();
        let mut plain = with_runs(tier, test_command(HERE, &["--tests", "--examples"]));
        if env::var_os(THREADS).is_none() {
            // Most of them wait most of their time.
            let at_a_time = 2 * thread::available_parallelism().map_or(1, usize::from);
            plain.env(THREADS, at_a_time.to_string());
        }
        total.add_plain(run(&mut plain, out)?);
        if root {
            total.add_later(run(&mut with_runs(tier, ignored(HERE, "netns_")), out)?);
            if matches!(others, Some(Ok(()))) {
                total.add_later(run(&mut ignored(HERE, "programs_"), out)?);
            }
        }
        let guests =
            guest.is_ok().then(|| scope.spawn(|| buffered(|out| lab::of_programs(&programs, tier.is_long, out))));
        total.add_plain(run(&mut test_command(HERE, &["--doc"]), out)?);
        total.add_plain(run(&mut test_command(WITHOUT_HWLOC, &[]), out)?);
        if proofs.is_ok() {
            total.add_later(run(&mut ignored(HERE, "z3_"), out)?);
        }
        if cuda {
            total.add_later(run(&mut ignored(HERE, "cuda_"), out)?);
        }
        for suite in SUITES {
            if lstopo {
                total.add_later(run(&mut ignored(suite, "lstopo_"), out)?);
            }
            if let Some(folder) = &captured {
                total.add_later(run(ignored(suite, "captured_").env(CAPTURES, folder), out)?);
            }
        }
        match fuzzer.and_then(|fuzzer| fuzzer.run_each(fuzz_seconds)) {
            Ok(tally) => total.add_plain(tally),
            Err(error) => {
                println!("FAILED: the fuzz targets did not run: {error:#}");
                let mut failed = Tally::default();
                failed.fail("cargo xtask fuzz: the targets did not run");
                total.add_plain(failed);
            }
        }
        if let Some(guests) = guests {
            total.add_later(shown_at_last(guests)?);
        }
        if root {
            // After the guests: the rest of these tests is about links.
            total.add_later(run(&mut ignored(WITHOUT_HWLOC, "netns_"), out)?);
        }
        total.add_plain(shown_at_last(drawn)?);
        Ok(())
    })?;
    if tier.is_long {
        for (name, needs, is_there) in packages(root) {
            match is_there {
                true => total.add_later(run(&mut ignored(PACKAGED, name), &mut io::stdout())?),
                false => notes.push(format!("SKIPPED: tests named {name}* need {needs}")),
            }
        }
    }
    if let Some(minutes) = tier.soak_minutes.filter(|_| root) {
        let mut soak = Tally::default();
        match shell::rails_bench("soak", ["--minutes", minutes])? {
            Exit::SUCCESS => soak.passed = 1,
            _ => soak.fail(format!("cargo xtask soak --minutes {minutes}")),
        }
        total.add_plain(soak);
    }

    if !tier.is_long {
        let left_out =
            "LEFT OUT: tests named guest_long_*, boots_long_* and packaged_* run with: cargo xtask test --long";
        notes.push(left_out.to_owned());
    }
    if !root {
        notes
            .push(format!("SKIPPED: tests named netns_* need root (network namespaces); run: {SUDO} cargo xtask test"));
    }
    match others {
        None => notes.push(format!("SKIPPED: tests named programs_* need root; run: {SUDO} cargo xtask test")),
        Some(Err(error)) => {
            notes.push(format!("SKIPPED: tests named programs_* need other people's programs ({error:#})"));
        }
        Some(Ok(())) => {}
    }
    if let Err(error) = guest {
        notes.push(format!(
            "SKIPPED: tests named guest_* and boots_* need the two-socket guest; run: cargo xtask lab ({error:#})"
        ));
    }
    if !lstopo {
        notes.push("SKIPPED: tests named lstopo_* need lstopo (hwloc's program; Debian's package `hwloc`)".to_owned());
    }
    if let Err(error) = proofs {
        notes.push(format!("SKIPPED: tests named z3_* need z3, which checks proofs ({error:#})"));
    }
    if !cuda {
        notes.push(
            "SKIPPED: tests named cuda_* need a CUDA device, and `nvidia-smi -L` names none; docs/pipelines.md#devices \
             tells how to run them on another machine"
                .to_owned(),
        );
    }
    if captured.is_none() {
        notes.push(format!(
            "SKIPPED: tests named captured_* need captured machines; set {CAPTURES} to their folder, or put them \
             into shared/topologies beside the checkout"
        ));
    }
    Ok(())
}

/// The tests of packages by the beginnings of their names, and whether their needs are there.
fn packages(root: bool) -> [(&'static str, &'static str, bool); 3] {
    let deb = succeeds("cargo", &["deb", "--version"])
        && succeeds("dpkg-deb", &["--version"])
        && succeeds("systemd-analyze", &["--version"]);
    [
        ("packaged_file_", "user namespaces (`unshare --user`)", succeeds("unshare", &["--user", "true"])),
        ("packaged_deb_", "cargo-deb, dpkg-deb and systemd-analyze", deb),
        ("packaged_image_", "root and podman", root && succeeds("podman", &["--version"])),
    ]
}

/// Whether NVIDIA's driver names a device: by its program, since nothing here is built against the
/// driver.
fn has_cuda() -> bool {
    let listed = Command::new("nvidia-smi").arg("-L").stdin(Stdio::null()).stderr(Stdio::null()).output();
    listed.is_ok_and(|listed| listed.status.success() && listed.stdout.starts_with(b"GPU "))
}

/// The simulated streams, from many seeds: they ask for processors and not for time.
///
/// A seed that fails is printed by the test, with the command that draws it again.
fn drawn(tier: &Tier, programs: &[Program], out: &mut dyn Write) -> Result<Tally> {
    let mut tally = Tally::default();
    for (name, module, seeds) in tier.drawn {
        let program = programs.iter().find(|program| program.is_called(name));
        let program = program.with_context(|| format!("there is no test program `{name}`"))?;
        let mut command = Command::new("timeout");
        command.arg(tier.longest).arg(&program.executable).arg(module).current_dir(&program.folder);
        tally.add(run_program(&program.name(), idle(&command).env("RAILS_SEEDS", seeds), out)?);
    }
    Ok(tally)
}

/// The command as one that runs only while no other does (sched(7), `SCHED_IDLE`).
fn idle(command: &Command) -> Command {
    let mut idle = Command::new("sh");
    idle.args(["-c", IDLE, "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => idle.env(name, value),
            None => idle.env_remove(name),
        };
    }
    idle.current_dir(command.get_current_dir().unwrap_or(root()));
    idle
}

/// Keeps a run's output, for another one writes meanwhile.
fn buffered(run: impl FnOnce(&mut dyn Write) -> Result<Tally>) -> (Vec<u8>, Result<Tally>) {
    let mut out = Vec::new();
    let tally = run(&mut out);
    (out, tally)
}

/// Waits for a run's end, and prints its output.
fn shown_at_last(run: thread::ScopedJoinHandle<'_, (Vec<u8>, Result<Tally>)>) -> Result<Tally> {
    let (out, tally) = run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    io::stdout().write_all(&out)?;
    tally
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

fn test_command(suite: &[&str], targets: &[&str]) -> Command {
    let mut command = cargo(["test", "--no-fail-fast"]);
    command.args(suite).args(targets);
    command
}

fn with_runs(tier: &Tier, mut command: Command) -> Command {
    command.envs(tier.runs.map(|runs| ("RAILS_RUNS", runs)));
    command
}

/// Runs the tests that are ignored and have this in their name; documentation holds none of those.
fn ignored(suite: &[&str], name: &str) -> Command {
    let mut command = test_command(suite, &["--tests"]);
    command.args(["--", "--ignored", name]);
    command
}

/// The crate with the tests of packages.
const PACKAGED: &[&str] = &["--package", "rails-bench"];
/// How many tests a program runs at a time: by itself one for each processor.
const THREADS: &str = "RUST_TEST_THREADS";
/// Without chrt(1), which util-linux has, the lowest share is all there is.
const IDLE: &str = "chrt --idle 0 true 2>/dev/null && exec chrt --idle 0 \"$@\"; exec nice -n 19 \"$@\"";

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_run_that_dies_counts_as_failed() {
        let tally = run(Command::new("sh").args(["-c", "exit 101"]), &mut Vec::new()).unwrap();
        let named = "sh -c exit 101: it ended without naming a failed test (exit status: 101)";
        assert_eq!((tally.passed, tally.failed, tally.failures), (0, 1, vec![named.to_owned()]));
    }

    #[test]
    fn one_output_of_a_run_beside_the_rest() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo \"$0 $KEPT\"; echo 'test result: ok. 2 passed; 0 failed; 1 ignored' >&2", "a b"]);
        let mut idle = idle(command.env("KEPT", "here"));
        let (out, tally) = buffered(|out| run(&mut idle, out));
        assert_eq!(tally.unwrap(), Tally { passed: 2, ignored: 1, ..Tally::default() });
        assert!(String::from_utf8(out).unwrap().contains("\na b here\ntest result"));
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
