//! The errors of talking to irqbalance.

use crate::thread::Tid;
use std::{io, path::PathBuf};

/// The error of finding irqbalance, or of banning interrupts there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BalancerError {
    /// The folder of the processes could not be listed.
    #[error("cannot list the processes in {}", directory.display())]
    Unlisted {
        /// The folder.
        directory: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// No visible process is irqbalance, and some processes are hidden.
    #[error("whether irqbalance runs cannot be seen: {why}")]
    Hidden {
        /// The reason why processes are hidden.
        why: &'static str,
    },

    /// irqbalance has ended.
    #[error("irqbalance (process {pid}) has ended")]
    Ended {
        /// The process of irqbalance.
        pid: Tid,
    },

    /// irqbalance listens to user 0 only.
    #[error("irqbalance (process {pid}) listens to user 0 only")]
    NotPermitted {
        /// The process of irqbalance.
        pid: Tid,
        /// The answer of the operating system; `None` if irqbalance itself refused.
        source: Option<io::Error>,
    },

    /// irqbalance has no socket, does not answer, answers something else, or has not taken a ban.
    #[error("irqbalance (process {pid}) cannot be used: {problem}")]
    Unusable {
        /// The process of irqbalance.
        pid: Tid,
        /// The problem.
        problem: String,
    },

    /// A system call on irqbalance's socket failed.
    #[error("{call} failed for the socket of irqbalance (process {pid})")]
    Call {
        /// The system call.
        call: &'static str,
        /// The process of irqbalance.
        pid: Tid,
        /// The answer of the operating system.
        source: io::Error,
    },
}
