//! The terms of any contest.

use std::path::PathBuf;

/// The terms of any contest.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// Rounds that count.
    pub(crate) rounds: usize,
    /// The seed of the order.
    pub(crate) seed: u64,
    /// Congestion control of all sockets.
    pub(crate) congestion: String,
    /// The program whose `serve` and `stream` are run: this one.
    pub(crate) program: PathBuf,
}
