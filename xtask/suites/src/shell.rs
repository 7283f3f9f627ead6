//! Running other programs, and who we are.

use anyhow::{Context, Result};
use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitCode, ExitStatus, Stdio},
};

/// How this program shall end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const FAILURE: Self = Self(1);
}

impl From<ExitStatus> for Exit {
    /// A signal becomes 128 and its number, as in a shell.
    fn from(status: ExitStatus) -> Self {
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        Self(u8::try_from(code).unwrap_or(1))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// The cargo that runs us, at the root of the checkout.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("it lies two folders deep in the checkout")
}

/// Runs to the end with our own input and outputs.
pub(crate) fn run(command: &mut Command) -> Result<Exit> {
    let status = command.status().with_context(|| format!("cannot run `{}`", shown(command)))?;
    Ok(status.into())
}

/// Runs a subcommand of `rails-bench` with its laboratory through `cargo run`, which knows the
/// target folder and builds first.
pub(crate) fn rails_bench<S: AsRef<OsStr>>(subcommand: &str, args: impl IntoIterator<Item = S>) -> Result<Exit> {
    let mut command = cargo(["run", "--release", "--package", "rails-bench", "--features", "lab", "--", subcommand]);
    command.args(args);
    run(&mut command)
}

/// Whether the program is there and ends well. Its output is dropped.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words: Vec<_> = std::iter::once(program).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// Whether the effective user is root.
pub(crate) fn is_root() -> Result<bool> {
    let text = fs::read_to_string(STATUS).with_context(|| format!("cannot read {STATUS}"))?;
    let euid = effective_uid(&text).with_context(|| format!("{STATUS} has no readable line `Uid:`"))?;
    Ok(euid == 0)
}

/// The second number of the line `Uid:`: real, effective, saved set, file system
/// (proc_pid_status(5)).
fn effective_uid(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

const STATUS: &str = "/proc/self/status";

/// How to become root and still find cargo: sudo replaces PATH by its own `secure_path` on most
/// systems.
pub(crate) const SUDO: &str = "sudo -E env \"PATH=$PATH\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_uid_counts() {
        assert_eq!(effective_uid("Name:\tx\nUid:\t1000\t0\t0\t1000\n"), Some(0));
        assert_eq!(effective_uid("Uid:\t0\t1000\t0\t0\n"), Some(1000));
        assert_eq!(effective_uid("Gid:\t0\t0\t0\t0\n"), None);
        assert_eq!(effective_uid("Uid:\t0\n"), None);
    }

    #[test]
    fn exits_are_passed_on_as_a_shell_does() {
        assert_eq!(Exit::from(ExitStatus::from_raw(7 << 8)), Exit(7));
        assert_eq!(Exit::from(ExitStatus::from_raw(9)), Exit(137));
        assert_eq!(Exit::from(ExitStatus::from_raw(0)), Exit::SUCCESS);
    }
}
