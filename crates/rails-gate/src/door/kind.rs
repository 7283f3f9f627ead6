//! The kinds of doors.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum DoorKind {
    /// The standard streams of a process.
    Pipe,
    /// A port of this host for one destination.
    Forward,
    /// SOCKS5.
    Socks,
    /// A program started under a seccomp filter.
    Stripe,
    /// The programs of a cgroup, by BPF.
    Redirect,
}

impl fmt::Display for DoorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pipe => "pipe",
            Self::Forward => "forward",
            Self::Socks => "socks",
            Self::Stripe => "stripe",
            Self::Redirect => "redirect",
        })
    }
}
