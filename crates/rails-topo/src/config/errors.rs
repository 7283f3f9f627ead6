//! The faults of configuration files.

use crate::{CpuSet, NodeId, NodeSet};
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// A configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read `{path}`", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The file exceeds the limit of 256 KiB.
    #[error("`{path}` is longer than {limit} bytes", path = path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The bytes that a file may have.
        limit: u64,
    },
    /// The file has a fault.
    #[error("{at}: {problem}")]
    Wrong {
        /// The position.
        at: Position,
        /// The fault.
        problem: Box<Problem>,
    },
}

/// A place in a configuration file; it prints as `FILE:LINE:COLUMN: KEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Position {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in the line, in characters from 1.
    pub column: usize,
    /// The key, from the outermost table down (`nic.eth0.node`); empty where there is none.
    pub key: String,
}

/// A fault at a position in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file is no TOML, or has an unknown key or a value of the wrong kind.
    #[error("{0}")]
    Malformed(String),
    /// The machine has no device of that name.
    #[error("this machine has no {kind} of that name{}", if *.kind == "network interface" { "; `add = true` adds one" } else { "" })]
    NoSuchDevice {
        /// The kind of the device.
        kind: &'static str,
    },
    /// A key is not the address of a device, or not the number of a node.
    #[error("`{name}` is not {expected}")]
    BadName {
        /// The key.
        name: String,
        /// A description of a good key.
        expected: &'static str,
    },
    /// The interface of an `add` is there already.
    #[error("the machine has this interface already")]
    AlreadyThere,
    /// The machine has no node of that number.
    #[error("there is no node {node}; {}", if .there.is_empty() { "this machine has no NUMA nodes".to_owned() } else { format!("there are: {}", .there) })]
    NoSuchNode {
        /// The node.
        node: NodeId,
        /// The nodes there are.
        there: NodeSet,
    },
    /// CPUs that the machine does not have, or that are offline.
    #[error("CPUs {missing} are not there; online are: {online}")]
    NoSuchCpus {
        /// The CPUs that are missing.
        missing: CpuSet,
        /// The CPUs that are online.
        online: CpuSet,
    },
    /// A list is empty that must not be.
    #[error("the list is empty; leave an unknown list out")]
    Empty,
    /// CPUs are named without a figure for them.
    #[error("no figure is given")]
    NothingGiven,
    /// A lane is hidden, and has other facts as well.
    #[error("line {hidden} hides the interface, so its other facts have no use")]
    HiddenToo {
        /// The line that hides the lane.
        hidden: usize,
    },
    /// A fact is given twice, with two values.
    #[error("it is {here} here and {there} in line {line} (`{other}`)")]
    Contradiction {
        /// The value here.
        here: String,
        /// The value there.
        there: String,
        /// The line of the other place.
        line: usize,
        /// The key of the other place.
        other: String,
    },
    /// None of a device's local CPUs is on its node.
    #[error("none of CPUs {cpus} is on node {node} (line {line}), which has CPUs {of_node}")]
    NotOfNode {
        /// The CPUs.
        cpus: CpuSet,
        /// The node.
        node: NodeId,
        /// The line that gives the node.
        line: usize,
        /// The node's CPUs.
        of_node: CpuSet,
    },
    /// The file gives a node's distance from itself.
    #[error("a node's distance from itself is 10 by definition")]
    DistanceToItself,
    /// The machine gives no distances, and the files do not give all of them.
    #[error(
        "the machine gives no distances, so the files have to give all of them: that from node {from} to node {to} is missing"
    )]
    DistanceMissing {
        /// The node from which the distance is.
        from: NodeId,
        /// The node to which the distance is.
        to: NodeId,
    },
}

impl Position {
    /// The place of the byte at `offset` of the file's text.
    pub(super) fn of(file: &Path, text: &str, offset: usize, key: String) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            key,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)?;
        if self.key.is_empty() { Ok(()) } else { write!(f, ": {}", self.key) }
    }
}
