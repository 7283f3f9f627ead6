//! What configuration files changed in the model.

use super::Topology;
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// A fact that a configuration file gave: which, what was there before, and where the file says so.
///
/// A fact that several files give has one of these for each, in the order in which they were applied: the last one holds, and the first one's [`old`](Self::old) is
/// what the machine itself said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// The fact, as the files name it: `nic.eth0.node`, `distance.0.1`, `pci."0000:3b:00.0".link`.
    pub fact: String,
    /// What was there before, as text; `None` is unknown.
    pub old: Option<String>,
    /// What is there now, as text; `None` is unknown: a lane that is hidden no more, or a place that another fact contradicts.
    pub new: Option<String>,
    /// The fact that this one follows from, where the file does not give it itself: a new node brings its CPUs along.
    pub follows_from: Option<String>,
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line in it, from 1.
    pub line: usize,
    /// The column in the line, in characters from 1.
    pub column: usize,
}

/// Where it was said, and what it replaced: `/etc/rails/topology.toml:4 (instead of 0)`.
impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)?;
        if let Some(origin) = &self.follows_from {
            write!(f, ", following {origin}")?;
        }
        write!(f, " (instead of {})", self.old.as_deref().unwrap_or("unknown"))
    }
}

impl Topology {
    /// What configuration files changed in all of this, in the order in which they did; empty where none did.
    pub fn overrides(&self) -> &[Override] {
        &self.overrides
    }

    /// Those of one fact: `["nic", "eth0", "node"]`.
    pub fn overrides_of(&self, fact: &[&str]) -> impl DoubleEndedIterator<Item = &Override> {
        let fact = fact.iter().map(|key| quoted(key)).collect::<Vec<_>>().join(".");
        self.overrides.iter().filter(move |told| told.fact == fact)
    }
}

/// A key as files have it: bare where that is allowed (TOML 1.0, "Keys").
pub(crate) fn quoted(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !key.is_empty() && key.bytes().all(is_bare) { key.to_owned() } else { format!("{key:?}") }
}
