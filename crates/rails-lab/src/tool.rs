//! Finding programs, and running `ip` and `tc`.

use crate::{LabError, system::output};
use std::{
    env,
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The paths of `ip` and `tc`.
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
        Ok(output(Command::new(&self.ip).args(arguments)).map(drop)?)
    }

    /// Runs `tc` with these arguments.
    pub(crate) fn tc<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<(), LabError> {
        Ok(output(Command::new(&self.tc).args(arguments)).map(drop)?)
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
}
