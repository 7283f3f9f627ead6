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
    match args.split_first() {
        Some((first, rest)) if first == "demo" => cargo.args(DEMO).args(rest),
        _ => cargo.args(SUITES).args(&args),
    };
    // `exec` returns only where cargo cannot be run.
    let error = cargo.exec();
    eprintln!("error: cannot run {}: {error}", Path::new(cargo.get_program()).display());
    ExitCode::FAILURE
}

/// Without hwloc, TLS, encryption and files of machines: a first look needs none of them.
const DEMO: [&str; 7] = ["--profile", "demo", "--package", "rails-bench", "--no-default-features", "--", "demo"];

const SUITES: [&str; 4] = ["--quiet", "--package", "xtask-suites", "--"];
