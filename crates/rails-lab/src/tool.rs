//! Running `ip` and `tc`, with errors that hold the whole command and its answer.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::LabError;

/// Where the programs are that a lab is built with.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    pub(crate) ip: PathBuf,
    tc: PathBuf,
}

impl Tools {
    /// Finds both programs along `PATH` and where distributions keep them for root.
    pub(crate) fn find() -> Result<Self, LabError> {
        let path = env::var_os("PATH").unwrap_or_default();
        Ok(Self { ip: find("ip", "iproute2", &path)?, tc: find("tc", "iproute2", &path)? })
    }

    /// Runs `ip` with these arguments.
    pub(crate) fn ip<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<(), LabError> {
        run(Command::new(&self.ip).args(arguments))
    }

    /// Runs `tc` with these arguments.
    pub(crate) fn tc<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<(), LabError> {
        run(Command::new(&self.tc).args(arguments))
    }
}

/// The first executable file of this name along `path`, then in [`SYSTEM_FOLDERS`].
pub(crate) fn find(tool: &'static str, package: &'static str, path: &OsStr) -> Result<PathBuf, LabError> {
    env::split_paths(path)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(tool))
        .find(|file| is_executable(file))
        .ok_or(LabError::ToolMissing { tool, package })
}

/// Whether there is such a program where [`find`] looks.
pub(crate) fn is_installed(tool: &str, path: &OsStr) -> bool {
    let folders = env::split_paths(path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.into_iter().any(|folder| is_executable(&folder.join(tool)))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Runs to the end; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), LabError> {
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(|source| LabError::Spawn { command: command_line(command), source })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(LabError::Command { command: command_line(command), status: output.status, stderr })
}

/// The command as one would type it; nothing here holds blanks, so nothing is quoted.
fn command_line(command: &Command) -> String {
    let words: Vec<OsString> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_owned).collect();
    words.join(OsStr::new(" ")).to_string_lossy().into_owned()
}

/// A root shell's `PATH` may lack these: su(1) keeps the caller's.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = find("no-such-program", "iproute2", OsStr::new("/usr/bin")).unwrap_err();
        assert!(matches!(error, LabError::ToolMissing { tool: "no-such-program", package: "iproute2" }));
        assert_eq!(error.to_string(), "`no-such-program` is not installed; it comes with the package iproute2");
    }

    #[test]
    fn a_program_is_found_along_the_path() {
        assert!(find("sh", "dash", OsStr::new("/nowhere:/bin")).unwrap().ends_with("sh"));
    }

    #[test]
    fn a_failure_keeps_command_status_and_stderr() {
        let error = run(Command::new("sh").args(["-c", "echo no such link >&2; exit 3"])).unwrap_err();
        let LabError::Command { command, status, stderr } = error else { panic!("{error}") };
        assert_eq!(command, "sh -c echo no such link >&2; exit 3");
        assert_eq!(status.code(), Some(3));
        assert_eq!(stderr, "no such link");
    }

    #[test]
    fn a_program_that_cannot_start_is_not_a_failed_one() {
        let error = run(&mut Command::new("/nowhere/ip")).unwrap_err();
        assert!(matches!(error, LabError::Spawn { command, .. } if command == "/nowhere/ip"));
    }
}
