//! How a caller watches a transfer.

use crate::{
    guarantee::Lacking,
    message::{Digest, Totals},
    path::RelPath,
    reason::Reason,
};
use std::path::Path;

/// Watches a transfer: progress bars, counters, logs.
///
/// The calls come from the transfer's task and from its disk thread, and hold it up while they
/// last. Files overlap: a file's `started` may come before the `finished` of the one before it.
/// Every method does nothing unless it is written.
pub trait Observer: Send + Sync {
    /// The receiver has done all that has come, and waits for the sender (`true`), or goes on
    /// (`false`). It begins by waiting for the sender's greeting.
    fn waits(&self, goes_on: bool) {
        let _ = goes_on;
    }

    /// The contents of the batch; once, before the first file.
    fn totals(&self, totals: &Totals) {
        let _ = totals;
    }

    /// A file's bytes begin to move, from `resumed_at` of `size` bytes. Those of a file that
    /// changes while it is read do so twice.
    fn started(&self, path: &RelPath, size: u64, resumed_at: u64) {
        let _ = (path, size, resumed_at);
    }

    /// `bytes` further bytes of a started file were sent or written.
    fn moved(&self, path: &RelPath, bytes: u64) {
        let _ = (path, bytes);
    }

    /// A file or folder reached its end, good or bad. `size` is the file's, in bytes; 0 for a
    /// folder.
    fn finished(&self, path: &RelPath, size: u64, outcome: Outcome<'_>) {
        let _ = (path, size, outcome);
    }

    /// Something below a source was left out: a link, a special file, or a name that cannot be
    /// sent.
    fn skipped(&self, source: &Path, reason: &Reason) {
        let _ = (source, reason);
    }

    /// Something named by a source could not be read, and so never became a file of the batch.
    fn unreadable(&self, reason: &Reason) {
        let _ = reason;
    }

    /// The receiver's file system refuses a guarantee, and the batch goes on without it; once for
    /// each.
    fn lacking(&self, lacking: &Lacking) {
        let _ = lacking;
    }
}

/// Watches nothing.
impl Observer for () {}

/// How an entry ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The file is whole and verified under its final name.
    Stored(Digest),
    /// The file was there already.
    AlreadyThere,
    /// The folder is there.
    Made,
    /// The entry failed, here or at the peer.
    Failed(&'a Reason),
}
