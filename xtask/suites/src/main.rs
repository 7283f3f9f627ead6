//! The commands of this checkout: each installs missing packages, then builds and runs.
//!
//! The program depends on nothing that needs a C library, so that it builds on a machine that still
//! lacks all of them.
#![forbid(unsafe_code)]

mod circles;
mod fuzz;
mod harness;
mod lab;
mod packages;
mod plan;
mod programs;
mod python;
mod runs;
mod setup;
mod shell;
mod suites;
mod tally;

use crate::{
    setup::Purpose,
    shell::{Exit, rails_bench},
    suites::Tier,
};
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// Install missing packages, then build and run this checkout
///
/// Every command first looks for pkg-config, hwloc 2.8 or newer, libudev and a C compiler (and for
/// iproute2 where network namespaces are made, for QEMU, busybox and kmod where a guest is booted,
/// z3 for proofs, a C++ compiler for codecs and fuzzing). As root, or where sudo asks for no
/// password, it installs missing packages by apt-get, dnf, pacman or zypper; otherwise it prints
/// the command and stops.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100, after_help = DEMO)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every test that can run here, and say which could not
    ///
    /// Plain tests always run, with and without hwloc. Tests named netns_* make network namespaces
    /// and run as root only. Tests named guest_* and boots_* need the two-socket guest, as
    /// `lab` does. Tests named captured_* read captured machines, from the folder that
    /// RAILS_CAPTURES names or else from shared/topologies beside the checkout. Tests named z3_*
    /// have z3 check proofs. Tests named cuda_* need a CUDA device. At the end, a line `FAILED:
    /// PROGRAM: TEST` names each failed test, and the last line is `N passed, N failed, N skipped`.
    Test {
        /// Repeat more of the randomised tests: 100,000 seeds, a minute for each fuzz target, a
        /// soak of ten minutes, and RAILS_RUNS=20 for the tests that heed it. It takes
        /// hours
        #[arg(long)]
        long: bool,
        /// Passed to `cargo test --workspace` as a filter; then this one run is all that happens
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Boot a two-socket machine in QEMU and run the tests that need it (no root needed)
    ///
    /// Tests named guest_* run inside, each test program in a guest of its own; tests named boots_*
    /// run here and boot guests. The guest's kernel is Debian's, fetched once by apt-get into
    /// ~/.cache/rails-lab; elsewhere, RAILS_LAB_KERNEL names an image and RAILS_LAB_MODULES the
    /// folder of its modules (.../lib/modules/RELEASE). The last line is `N passed, N failed, N
    /// skipped`.
    Lab {
        /// Run only the tests whose name contains one of these
        tests: Vec<String>,
    },
    /// Feed every decoder of outside bytes with arbitrary ones, chosen by the branches that they
    /// reach (needs a C++ compiler)
    ///
    /// Built once more, with coverage, into target/fuzz, by the stable compiler. Inputs that reach
    /// new code are kept in target/fuzz/corpus, where the next run starts. An input that breaks
    /// a target is kept in target/fuzz/crashes, its path and the command that runs it again are
    /// printed, and the exit code is 1.
    Fuzz {
        /// The targets to run [default: all]
        targets: Vec<String>,
        /// How long each target runs
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
        seconds: u64,
        /// How many run at a time [default: one for each CPU]
        #[arg(long, value_name = "N")]
        jobs: Option<usize>,
        /// Run this one input through the one target that is named
        #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "jobs"])]
        replay: Option<PathBuf>,
    },
    /// Stream for a long time over links that come, go and change, and compare every byte (needs
    /// root)
    Soak {
        /// Passed to `rails-bench soak`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Print the source files of each crate that depend on each other in a circle, with the imports
    /// that make it
    ///
    /// A file may name the items of the modules that hold it; re-exports and tests do not count.
    /// The exit code is 1 if there is a circle.
    Circles,
    /// Write the man pages of `rails-bench`, and its completions for bash, zsh and fish
    ///
    /// They lie as below /usr/share, and are of the commands that its default features bring.
    PackageFiles {
        /// The folder to write them below
        #[arg(value_name = "DIR", default_value = "target/package-files")]
        folder: PathBuf,
    },
    /// Make a Debian package of `rails-bench`, with its pages, completions and services
    ///
    /// Needs cargo-deb (`cargo install cargo-deb --locked`). The package is of this system: it
    /// depends on the versions of the libraries that are here.
    PackageDeb {
        /// The folder to write it to
        #[arg(value_name = "DIR", default_value = "target/debian")]
        folder: PathBuf,
        /// The profile of Cargo that the program is built with
        #[arg(long, value_name = "NAME", default_value = "release")]
        profile: String,
    },
    /// Make `rails-bench` a single file that needs no library, for containers and for systems with
    /// others
    ///
    /// The file has the C library of this system's GNU target inside, and no hwloc: rails-bench
    /// then reads the machine from the kernel's files. docs/packaging.md says what it cannot
    /// do, and packaging/Containerfile makes an image of it.
    PackageStatic {
        /// The folder to write it to
        #[arg(value_name = "DIR", default_value = "target/static")]
        folder: PathBuf,
        /// The profile of Cargo that the program is built with
        #[arg(long, value_name = "NAME", default_value = "release")]
        profile: String,
    },
    /// Build the Python package, and run its tests
    ///
    /// Needs Python 3.10 or newer, and PyPI or a mirror for pip. The environment of its own lies in
    /// target/python; `PYTHON` names the interpreter that it is made of. Without one, nothing is
    /// tested, which is said loudly.
    Python {
        /// Passed to pytest
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure rails against its rivals over shaped links (needs root: it makes network namespaces)
    Bench {
        /// Passed to `rails-bench compare`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<Exit> {
    match command {
        Command::Test { long, args } => {
            let root = shell::is_root()?;
            setup::setup(if root { Purpose::Namespaces } else { Purpose::Build })?;
            suites::test(if long { &Tier::LONG } else { &Tier::NORMAL }, &args, root)
        }
        Command::Lab { tests } => lab::lab(&tests),
        Command::Fuzz { targets, replay: Some(input), .. } => match targets.as_slice() {
            [target] => fuzz::replay(target, &input),
            _ => anyhow::bail!("--replay takes one target: the one that the input is for"),
        },
        Command::Fuzz { targets, seconds, jobs, replay: None } => fuzz::fuzz(&targets, seconds, jobs),
        Command::Circles => circles::circles(),
        Command::PackageFiles { folder } => packages::files(&folder),
        Command::PackageDeb { folder, profile } => packages::deb(&folder, &profile),
        Command::PackageStatic { folder, profile } => packages::one_file(&folder, &profile),
        Command::Python { args } => python::python(&args),
        Command::Soak { args } => as_root("soak", "soak", args),
        Command::Bench { args } => as_root("bench", "compare", args),
    }
}

const DEMO: &str = "\
`cargo xtask demo` moves a file over this machine's loopback rails (no root needed, and no package). Its arguments are
those of `rails-bench demo`, and take some more crates to build. `cargo xtask demo lambdaram` reads far arrays.";

/// Runs a command that makes network namespaces.
fn as_root(command: &str, subcommand: &str, args: Vec<String>) -> Result<Exit> {
    if !shell::is_root()? {
        anyhow::bail!(
            "cargo xtask {command} makes network namespaces and needs root; run: {} cargo xtask {command}",
            shell::SUDO
        );
    }
    setup::setup(Purpose::Namespaces)?;
    rails_bench(subcommand, args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_after_the_command_pass_through_unread() {
        let cli = Cli::parse_from(["cargo xtask", "soak", "--rate", "400", "-v", "--", "x"]);
        let Command::Soak { args } = cli.command else { panic!("{cli:?}") };
        assert_eq!(args, ["--rate", "400", "-v", "--", "x"]);
    }
}
