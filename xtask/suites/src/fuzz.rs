//! `cargo xtask fuzz`: arbitrary bytes for every decoder, chosen by the branches that they reach.
//!
//! The program is built with the compiler's own coverage passes, which the stable toolchain has as
//! well; the flags (`fuzz/with-coverage.sh`) are those that cargo-fuzz gives, without the
//! sanitizers, which only a nightly one has. There is no unsafe code where these decoders are.

use crate::{
    setup::{Purpose, setup},
    shell::{Exit, cargo, root, shown},
    tally::Tally,
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// How the targets are built.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Build {
    /// As the tests are, with which they share all that is built of other crates: a fifth of the
    /// inputs a second.
    Quick,
    /// Optimized, for long runs.
    Optimized,
}

impl Build {
    fn profile(self) -> &'static str {
        match self {
            Self::Quick => "dev",
            Self::Optimized => "fuzz",
        }
    }

    /// The folder of the profile below cargo's, which for this one has another name.
    fn folder(self) -> &'static str {
        match self {
            Self::Quick => "debug",
            Self::Optimized => "fuzz",
        }
    }
}

/// Runs the targets of these names, or all, each for so many seconds.
pub(crate) fn fuzz(names: &[String], seconds: u64, jobs: Option<usize>) -> Result<Exit> {
    let fuzzer = Fuzzer::build(Build::Optimized)?;
    let targets = fuzzer.targets(names)?;
    let tally = fuzzer.run_all(&targets, seconds, jobs);
    println!(
        "\n{} targets held, {} broke; their inputs are kept in {}",
        tally.passed,
        tally.failed,
        fuzzer.corpus.display()
    );
    Ok(if tally.failed > 0 { Exit::FAILURE } else { Exit::SUCCESS })
}

/// Runs one input through a target, with all that it says.
pub(crate) fn replay(target: &str, input: &Path) -> Result<Exit> {
    let fuzzer = Fuzzer::build(Build::Optimized)?;
    ensure!(fuzzer.names()?.contains(target), "there is no target {target}");
    let input = input.canonicalize().with_context(|| format!("cannot read {}", input.display()))?;
    crate::shell::run(fuzzer.command(target).env("RUST_BACKTRACE", "1").arg(input))
}

fn target_dir() -> PathBuf {
    root().join("target")
}

/// The program with all targets, and where its inputs lie.
pub(crate) struct Fuzzer {
    program: PathBuf,
    /// The inputs that reach something new; kept from run to run.
    corpus: PathBuf,
    /// The first inputs of the targets.
    seeds: PathBuf,
    crashes: PathBuf,
}

impl Fuzzer {
    /// Installs the tools of the targets, and builds them.
    pub(crate) fn build(build: Build) -> Result<Self> {
        setup(Purpose::Fuzz)?;
        let package = ["build", "--package", "rails-fuzz", "--features", "fuzzing", "--profile", build.profile()];
        let mut command = cargo(package);
        command.arg("--target-dir").arg(target_dir());
        command.env("RUSTC_WORKSPACE_WRAPPER", root().join("fuzz/with-coverage.sh"));
        println!("\n$ {} (with coverage)", shown(&command));
        let status = command.status().with_context(|| format!("cannot run `{}`", shown(&command)))?;
        ensure!(status.success(), "the fuzz targets do not build");
        let kept = target_dir().join("fuzz");
        let fuzzer = Self {
            program: target_dir().join(build.folder()).join("rails-fuzz"),
            corpus: kept.join("corpus"),
            seeds: kept.join("seeds"),
            crashes: kept.join("crashes"),
        };
        fs::create_dir_all(&fuzzer.crashes)?;
        // The files of a former version may belong to targets that are gone.
        if fuzzer.seeds.exists() {
            fs::remove_dir_all(&fuzzer.seeds)?;
        }
        let mut command = Command::new(&fuzzer.program);
        let status =
            command.env("RAILS_FUZZ_SEEDS", &fuzzer.seeds).status().context("the fuzz targets do not start")?;
        ensure!(status.success(), "the fuzz targets have no seeds");
        Ok(fuzzer)
    }

    /// Some seconds of every target, as part of the tests: each counts as one. One at a time, for a
    /// guest runs beside them.
    pub(crate) fn run_each(&self, seconds: u64) -> Result<Tally> {
        let targets = self.targets(&[])?;
        let tally = self.run_all(&targets, seconds, Some(1));
        println!("\nfuzz result: {} targets held, {} broke, {seconds} s each", tally.passed, tally.failed);
        Ok(tally)
    }

    /// The names of all targets: each has a folder of seeds.
    fn names(&self) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.seeds)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn targets(&self, wanted: &[String]) -> Result<Vec<String>> {
        let names = self.names()?;
        if let Some(unknown) = wanted.iter().find(|name| !names.contains(*name)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            bail!("there is no target {unknown}; there are {}", names.join(", "));
        }
        Ok(if wanted.is_empty() { names.into_iter().collect() } else { wanted.to_vec() })
    }

    /// Several at a time: a target has one thread.
    fn run_all(&self, targets: &[String], seconds: u64, jobs: Option<usize>) -> Tally {
        let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
        thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, targets.len().max(1)) {
                scope.spawn(|| {
                    while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = self.run(target, seconds);
                        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                        match outcome {
                            Ok(line) => {
                                tally.passed += 1;
                                println!("fuzz {target:<18} ok      {line}");
                            }
                            Err(error) => {
                                tally.fail(format!("cargo xtask fuzz {target}"));
                                println!("fuzz {target:<18} FAILED  {error:#}");
                            }
                        }
                        // A closed output is no reason to stop.
                        let _ = std::io::stdout().flush();
                    }
                });
            }
        });
        tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sums the run up in a line.
    fn run(&self, target: &str, seconds: u64) -> Result<String> {
        let corpus = self.corpus.join(target);
        fs::create_dir_all(&corpus)?;
        let mut command = self.command(target);
        command.arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
        // A dictionary without words is an error to libFuzzer, so a target without words has none.
        let words = self.seeds.join(format!("{target}.dict"));
        if words.exists() {
            command.arg(format!("-dict={}", words.display()));
        }
        command.arg(corpus).arg(self.seeds.join(target)).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot run `{}`", shown(&command)))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            return Ok(summary(&said));
        }
        let lines: Vec<&str> = said.lines().collect();
        let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n    ");
        let again = artifact(&said).map(|path| format!("\n  again: cargo xtask fuzz {target} --replay {path}"));
        bail!("({})\n    {end}{}", output.status, again.unwrap_or_default())
    }

    fn command(&self, target: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("RAILS_FUZZ_TARGET", target);
        command.arg(format!("-artifact_prefix={}/{target}-", self.crashes.display()));
        command.args([format!("-rss_limit_mb={MAX_MEMORY}"), format!("-timeout={MAX_SECONDS}")]);
        command
    }
}

/// libFuzzer's last lines: `stat::number_of_executed_units: 7` and, before it, lines with `cov: 7
/// ft: 9 corp: 3/7b`.
fn summary(said: &str) -> String {
    let stat = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name))?;
        line.trim_start_matches(':').trim().parse::<u64>().ok()
    };
    let reached = said.lines().rev().find_map(|line| line.split_once("cov: ")?.1.split(' ').next());
    format!(
        "{:>9} inputs, {:>5} branches reached, {:>4} MiB",
        stat("number_of_executed_units").unwrap_or(0),
        reached.unwrap_or("?"),
        stat("peak_rss_mb").unwrap_or(0)
    )
}

/// The file with the input that broke the target.
fn artifact(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.split_once("Test unit written to ").map(|(_, path)| path.trim()))
}

/// For one input, in seconds.
const MAX_SECONDS: u64 = 10;
/// In MiB, the fuzzer's own memory included.
const MAX_MEMORY: u64 = 1024;
/// Lines shown of the output of a target that broke.
const SHOWN: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuzzer_s_last_words_are_read() {
        let said = "#9\tNEW    cov: 11 ft: 11 corp: 4/22b\n#12\tDONE   cov: 12 ft: 12 corp: 5/25b lim: 4096\n\
                    stat::number_of_executed_units: 49012193\nstat::peak_rss_mb:              27\n";
        assert_eq!(summary(said), " 49012193 inputs,    12 branches reached,   27 MiB");
        assert_eq!(summary(""), "        0 inputs,     ? branches reached,    0 MiB");
    }

    #[test]
    fn the_input_that_broke_a_target_is_found() {
        let said = "artifact_prefix='x/'; Test unit written to x/frame-crash-01\nBase64: AA==";
        assert_eq!(artifact(said), Some("x/frame-crash-01"));
        assert_eq!(artifact("Done 7 runs"), None);
    }
}
