//! The facts of the model that configuration files have changed.

use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// A fact from a configuration file, with its old value and its position in the file.
///
/// A fact that several files give has one of these for each, in the order in which the files were
/// applied: the last one holds, and the [`old`](Self::old) of the first is the machine's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Override {
    /// The fact, as the files name it: `nic.eth0.node`, `distance.0.1`, `pci."0000:3b:00.0".link`.
    pub fact: String,
    /// The value before, as text; `None` is unknown.
    pub old: Option<String>,
    /// The new value, as text; `None` is unknown: a lane that is no longer hidden, or a locality
    /// that another fact contradicts.
    pub new: Option<String>,
    /// The fact that this one follows from, where the file does not give it itself: a new node
    /// brings its CPUs along.
    pub follows_from: Option<String>,
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line in the file, from 1.
    pub line: usize,
    /// The column in the line, in characters from 1.
    pub column: usize,
}

/// The position in the file, and the replaced value: `/etc/rails/topology.toml:4 (instead of 0)`.
impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)?;
        if let Some(origin) = &self.follows_from {
            write!(f, ", following {origin}")?;
        }
        write!(f, " (instead of {})", self.old.as_deref().unwrap_or("unknown"))
    }
}

/// A key as files have it: bare where that is allowed (TOML 1.0, "Keys").
pub(crate) fn quoted(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !key.is_empty() && key.bytes().all(is_bare) { key.to_owned() } else { format!("{key:?}") }
}
