//! Foreign programs.

use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The first executable of this name along `PATH`.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

pub(super) fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The first line that a command prints, as its version.
pub(super) fn first_line(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?} cannot be run: {error}"))?;
    let line = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().map(|line| line.trim().to_owned());
    match line(&output.stdout) {
        Some(line) if output.status.success() => Ok(line),
        _ => Err(format!("{command:?} failed: {}", line(&output.stderr).unwrap_or_else(|| output.status.to_string()))),
    }
}
