//! The outcome of a request.

use serde::{Deserialize, Serialize};

/// The outcome of a request to the kernel, as read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<T> {
    /// The value that was read back is the requested one.
    Applied(T),
    /// The kernel took the request and set another value; of CPUs and nodes, it kept those that the
    /// thread's cpuset allows.
    Partial {
        /// The request.
        wanted: T,
        /// The value that was read back.
        got: T,
    },
}

impl<T> Outcome<T> {
    /// The value that was read back.
    pub fn got(&self) -> &T {
        match self {
            Self::Applied(got) | Self::Partial { got, .. } => got,
        }
    }

    /// Whether the whole request is in effect.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }
}

impl<T: PartialEq> Outcome<T> {
    /// Compares a request with the value that was read back.
    pub(crate) fn compare(wanted: T, got: T) -> Self {
        if wanted == got { Self::Applied(got) } else { Self::Partial { wanted, got } }
    }
}
