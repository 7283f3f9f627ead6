//! Blocks that cannot be had.

use rails_cache::{BlockId, Fault};
use std::sync::Arc;

/// Why a request was not served whole.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The block that could not be had, if it was a block.
    pub(crate) block: Option<BlockId>,
    pub(crate) fault: Fault,
    /// The words of the source, which name file and chunk where there are any.
    pub(crate) text: Arc<str>,
}

/// The words for a fault of which the source says no more.
pub(crate) fn words_of(fault: Fault) -> &'static str {
    match fault {
        Fault::Missing => "the source has no such bytes",
        Fault::Corrupt => "the bytes are not those that the source stored",
        Fault::Unreachable => "no upstream answers",
        Fault::Denied => "the reader may not read the dataset",
        Fault::Changed => "the source has changed",
        _ => "the block cannot be had",
    }
}
