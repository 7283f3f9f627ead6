//! The observer of a transfer.

use crate::{
    guarantee::LackingGuarantee,
    message::{Digest, Totals},
    path::RelPath,
    reason::Reason,
};
use std::path::Path;

/// Watches a transfer, for progress bars, counters and logs.
///
/// The transfer's task and its threads make the calls, several at a time, and wait for them. Files
/// overlap, and the calls for one file come in order, but for the `moved` of a file that fails: one
/// may come behind its `finished`. The default of every method does nothing.
pub trait Observer: Send + Sync {
    /// The receiver has done all received work and waits for the sender (`true`), or continues
    /// (`false`). At first it waits for the sender's greeting.
    fn waits(&self, goes_on: bool) {
        let _ = goes_on;
    }

    /// The contents of the batch; once, before the first file.
    fn totals(&self, totals: &Totals) {
        let _ = totals;
    }

    /// A file's bytes begin to move, from `resumed_at` of `size` bytes. Those of a file that
    /// changes while it is read are sent twice.
    fn started(&self, path: &RelPath, size: u64, resumed_at: u64) {
        let _ = (path, size, resumed_at);
    }

    /// `bytes` further bytes of a started file were sent or written.
    fn moved(&self, path: &RelPath, bytes: u64) {
        let _ = (path, bytes);
    }

    /// `bytes` further bytes of a started file needed no sending: those of a hole, or those that
    /// the receiver's file has. The default counts them as [`moved`](Self::moved).
    fn spared(&self, path: &RelPath, bytes: u64) {
        self.moved(path, bytes);
    }

    /// A file or folder is finished, successfully or not. `size` is the file's, in bytes; 0 for a
    /// folder.
    fn finished(&self, path: &RelPath, size: u64, outcome: Outcome<'_>) {
        let _ = (path, size, outcome);
    }

    /// An entry below a source was left out: a special file, or a name that cannot be sent.
    fn skipped(&self, source: &Path, reason: &Reason) {
        let _ = (source, reason);
    }

    /// A file or folder of a source could not be read, and so is not part of the batch.
    fn unreadable(&self, reason: &Reason) {
        let _ = reason;
    }

    /// Files go over `streams` streams beside the control stream, fewer than were asked for,
    /// because no further thread or stream can be had; called once at most. With 0, the files
    /// go over the control stream.
    fn fewer_streams(&self, streams: usize, reason: &Reason) {
        let _ = (streams, reason);
    }

    /// The receiver's file system refuses a guarantee, and the batch continues without it; called
    /// once for each.
    fn lacking(&self, lacking: &LackingGuarantee) {
        let _ = lacking;
    }
}

/// An observer that does nothing.
impl Observer for () {}

/// The outcome of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The file is complete and verified, under its final name.
    Stored(Digest),
    /// The file was there already.
    AlreadyThere,
    /// The folder or link exists.
    Made,
    /// The entry failed, here or at the peer.
    Failed(&'a Reason),
    /// The sender does not have the receiver's entry, which was removed. The sender hears of one
    /// that cannot be removed by the failure of the folder that was sent.
    Removed,
    /// The entry would change, but for the dry run.
    Would(Change),
}

/// A change that a dry run leaves undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The file's bytes would be sent, from this offset on.
    Send {
        /// The offset of the first byte; 0 for a file that would be sent from the start.
        resumed_at: u64,
    },
    /// The file or link would stay, and get other properties.
    Update,
    /// The folder or link would be made.
    Make,
    /// The receiver's entry would be removed.
    Remove,
}
