//! The commands of this checkout.
//!
//! The demo is a first look: this program depends on nothing, and builds no more than the demo
//! takes. Every other command is one of `xtask-suites`, which is built for it.
#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a folder of the checkout");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Relative paths among the arguments are those of the caller's folder.
    cargo.arg("run").arg("--manifest-path").arg(root.join("Cargo.toml"));
    match args.as_slice() {
        [demo] if demo == "demo" => cargo.args(PROFILE).args(DEMO),
        [demo, which, rest @ ..] if demo == "demo" && which == "lambdaram" => {
            cargo.args(PROFILE).args(LAMBDARAM).args(["--", "demo"]).args(rest)
        }
        // Flags take the command line, which a first look is built without.
        [demo, ..] if demo == "demo" => cargo.args(PROFILE).args(DEMO).args(["--features", "cli", "--"]).args(&args),
        _ => cargo.args(SUITES).args(&args),
    };
    // `exec` returns only where cargo cannot be run.
    let error = cargo.exec();
    eprintln!("error: cannot run {}: {error}", Path::new(cargo.get_program()).display());
    ExitCode::FAILURE
}

const PROFILE: [&str; 2] = ["--profile", "demo"];

/// Without the command line, hwloc, TLS, encryption and files of machines: a first look needs none
/// of them.
const DEMO: [&str; 3] = ["--package", "rails-bench", "--no-default-features"];

/// The demo of far arrays takes neither TLS, encryption nor Zarr.
const LAMBDARAM: [&str; 3] = ["--package", "rails-lram", "--no-default-features"];

const SUITES: [&str; 4] = ["--quiet", "--package", "xtask-suites", "--"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_first_look_waits_for_few_crates() {
        let mut tree = Command::new(env!("CARGO"));
        tree.args(["tree", "--offline", "--edges", "normal,build", "--prefix", "none"]).args(DEMO);
        let output = tree.output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tree = String::from_utf8(output.stdout).expect("cargo prints UTF-8");
        let crates: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
        assert!(crates.len() <= 110, "{} crates: {crates:?}", crates.len());
    }
}
