//! What became of a request.

use serde::{Deserialize, Serialize};

/// What the kernel made of a request, known by reading back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<T> {
    /// What was read back is what was asked for.
    Applied(T),
    /// The kernel took the request and did something else; with CPUs and nodes, it kept what the thread's cpuset
    /// allows.
    Partial {
        /// What was asked for.
        wanted: T,
        /// What was read back.
        got: T,
    },
}

impl<T> Outcome<T> {
    /// What holds now.
    pub fn got(&self) -> &T {
        match self {
            Self::Applied(got) | Self::Partial { got, .. } => got,
        }
    }

    /// Whether all of the request holds.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }
}

impl<T: PartialEq> Outcome<T> {
    /// Compares a request with what was read back.
    pub(crate) fn compare(wanted: T, got: T) -> Self {
        if wanted == got { Self::Applied(got) } else { Self::Partial { wanted, got } }
    }
}
