//! Programs that are run and files that are read, with errors that hold the whole command or the
//! path.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

/// A program or a file that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// A program could not be started.
    #[error("cannot run `{command}`")]
    Spawn {
        /// The whole command line.
        command: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The whole command line.
        command: String,
        /// The program's exit status.
        status: ExitStatus,
        /// The program's standard error, without the last newline.
        stderr: String,
    },
    /// A file could not be made, read or written.
    #[error("{call} failed for {}", path.display())]
    File {
        /// The call that failed.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Runs the command to its end, and returns its standard output; any status but success is an
/// error.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, SystemError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| SystemError::Spawn { command: command_line(command), source })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(SystemError::Command { command: command_line(command), status: output.status, stderr })
}

/// Makes an error of the kernel's answer to a call on a file.
pub(crate) fn file_error(call: &'static str, path: impl AsRef<Path>) -> impl Fn(io::Error) -> SystemError {
    let path = path.as_ref().to_owned();
    move |source| SystemError::File { call, path: path.clone(), source }
}

/// The command as typed in a shell; no word here has blanks, so none is quoted.
fn command_line(command: &Command) -> String {
    let words: Vec<OsString> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_owned).collect();
    words.join(OsStr::new(" ")).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_command_status_and_stderr() {
        let error = output(Command::new("sh").args(["-c", "echo no such link >&2; exit 3"])).unwrap_err();
        let SystemError::Command { command, status, stderr } = error else { panic!("{error}") };
        assert_eq!(command, "sh -c echo no such link >&2; exit 3");
        assert_eq!(status.code(), Some(3));
        assert_eq!(stderr, "no such link");
    }

    #[test]
    fn a_program_that_cannot_start_is_not_a_failed_one() {
        let error = output(&mut Command::new("/nowhere/ip")).unwrap_err();
        assert!(matches!(error, SystemError::Spawn { command, .. } if command == "/nowhere/ip"));
    }
}
