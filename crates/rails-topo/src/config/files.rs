//! The files, in the order in which they are applied.

use super::{Config, ConfigError, Position, Problem};
use crate::bounded_file::read_within;
use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

/// The file of the system.
pub const SYSTEM_FILE: &str = "/etc/rails/topology.toml";

/// The file of the user: `rails/topology.toml` below `$XDG_CONFIG_HOME`, or below `.config` in the
/// home directory where that is unset, empty or relative (XDG Base Directory Specification). `None`
/// where neither variable leads anywhere.
///
/// The arguments are the variables `XDG_CONFIG_HOME` and `HOME`; a library reads no environment.
pub fn user_file(config_home: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let absolute = |path: Option<&OsStr>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute(config_home).or_else(|| Some(absolute(home)?.join(".config")))?;
    Some(folder.join("rails/topology.toml"))
}

/// Reads the files in the order in which they are applied: first those that may be missing, then
/// the named ones.
///
/// # Errors
/// [`ConfigError`]: a file is there and cannot be read, is longer than 256 KiB, or is wrong in itself; one that was
/// named is missing. A file that may be missing counts as missing where its folder may not be
/// searched.
pub fn layers(may_be_missing: &[PathBuf], named: &[PathBuf]) -> Result<Vec<Config>, ConfigError> {
    let mut layers = Vec::new();
    for path in may_be_missing {
        match Config::read(path) {
            Err(ConfigError::Read { source, .. }) if is_missing(path, &source) => {}
            read => layers.push(read?),
        }
    }
    for path in named {
        layers.push(Config::read(path)?);
    }
    Ok(layers)
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`]: it cannot be read, is longer than 256 KiB, or [`Config::parse`] refuses it.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self, ConfigError> {
        let path = path.into();
        let bytes = read(&path)?;
        match String::from_utf8(bytes) {
            Ok(text) => Self::parse(path, &text),
            Err(error) => {
                let good = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
                let at = Position::of(&path, &good, good.len(), String::new());
                let problem = Problem::Malformed("this is not text in UTF-8".to_owned()).into();
                Err(ConfigError::Wrong { at, problem })
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let path = path.to_owned();
    read_within(&path, MAX_BYTES).map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => ConfigError::TooLong { path, limit: MAX_BYTES },
        _ => ConfigError::Read { path, source },
    })
}

/// Whether the file or its folder does not exist, or is hidden by a folder that may not be searched
/// (a `HOME` of another user).
fn is_missing(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => path.symlink_metadata().is_err(),
        _ => false,
    }
}

/// The bytes that a file may have; more are an error.
pub const MAX_BYTES: u64 = 256 << 10;
