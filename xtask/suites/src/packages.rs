//! Packages of `rails-bench`: a Debian package, and a program in a single file.

use crate::{
    programs,
    setup::{Purpose, setup},
    shell::{self, Exit},
};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{self, Path},
    process::Command,
};

/// Has `rails-bench` tell its commands to the crates that write man pages and completions: this
/// program does not depend on it.
pub(crate) fn files(folder: &Path) -> Result<Exit> {
    setup(Purpose::Build)?;
    // Cargo runs at the root of the checkout, and the path is one of the caller's folder.
    let folder = path::absolute(folder)?;
    let program = ["--features", "package-files", "--bin", "rails-bench-package-files", "--"];
    let mut command = shell::cargo(["run", "--quiet", "--package", "rails-bench"]);
    let exit = shell::run(command.args(program).arg(&folder))?;
    if exit == Exit::SUCCESS {
        println!("{}", folder.display());
    }
    Ok(exit)
}

/// Makes a Debian package.
pub(crate) fn deb(folder: &Path, profile: &str) -> Result<Exit> {
    if !shell::succeeds("cargo", &["deb", "--version"]) {
        bail!("cargo-deb is not here; run: cargo install cargo-deb --locked");
    }
    // The manifest names this folder.
    let exit = files(&shell::root().join("target/package-files"))?;
    if exit != Exit::SUCCESS {
        return Ok(exit);
    }
    let folder = path::absolute(folder)?;
    let mut command = shell::cargo(["deb", "--package", "rails-bench", "--locked", "--profile", profile, "--output"]);
    shell::run(command.arg(folder.join("")))
}

/// Makes a program that needs no file of the system.
pub(crate) fn one_file(folder: &Path, profile: &str) -> Result<Exit> {
    let folder = path::absolute(folder)?;
    let target = target()?;
    let mut command = shell::cargo(["build", "--package", "rails-bench", "--bin", "rails-bench", "--locked"]);
    command.args(["--profile", profile, "--no-default-features", "--features", FEATURES]);
    // With a target of their own, build scripts and procedural macros go without the flags.
    command.args(["--target", &target]).env("RUSTFLAGS", FLAGS);
    let program = programs::executable(&mut command)?;
    let file = folder.join("rails-bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::copy(&program, &file).with_context(|| format!("cannot write {}", file.display()))?;
    println!("{}", file.display());
    Ok(Exit::SUCCESS)
}

/// The target of this system.
fn target() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run `rustc -vV`")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("`rustc -vV` names no host")?;
    Ok(host.to_owned())
}

/// The C library inside. Its `getrandom` is not found by name then, and an empty folder has no
/// /dev/urandom: random numbers come by the system call.
const FLAGS: &str = "-C target-feature=+crt-static -C strip=symbols --cfg getrandom_backend=\"linux_getrandom\"";

/// All but hwloc, which loads libraries.
const FEATURES: &str = "encryption,files,prometheus,tls";
