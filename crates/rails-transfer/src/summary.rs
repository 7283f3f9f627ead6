//! The result of a transfer.

use crate::{guarantee::LackingGuarantee, message::Digest, path::RelPath, reason::Reason};
use std::path::PathBuf;

/// The result of [`send`](crate::send).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SendSummary {
    /// The files that the receiver confirmed, in the order of the confirmations.
    pub files: Vec<SentFile>,
    /// Number of folders that exist at the receiver.
    pub folders: u64,
    /// Number of symbolic links that exist at the receiver.
    pub links: u64,
    /// Number of further names of files (hard links) that exist at the receiver.
    pub hard_links: u64,
    /// File bytes that were sent; of a resumed file those from the resumed offset on.
    pub bytes_sent: u64,
    /// Bytes of changed files that were not sent, because the receiver's files have them.
    pub bytes_reused: u64,
    /// The failures, of the sender and of the receiver.
    pub failures: Vec<Failure>,
    /// The entries that were left out on purpose.
    pub skipped: Vec<Skipped>,
    /// Number of the receiver's entries that the sender does not have, and that were removed, or
    /// would be in a dry run.
    pub removed: u64,
    /// Whether nothing was removed at the receiver, as had been asked, because something failed.
    pub is_removal_off: bool,
    /// Number of folders and links that a dry run would make, or give another time or owner.
    pub would_make: u64,
    /// The properties that entries have here, and the copy does not keep.
    pub not_kept: NotKept,
    /// The guarantees that the receiver's file system refused, each once, if the receiver's release
    /// reports them.
    pub lacking: Vec<LackingGuarantee>,
}

impl SendSummary {
    /// Whether no entry failed. Entries left out on purpose do not count against it, nor does a
    /// guarantee that is lacking.
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Properties that the sender's entries have, and that a copy does not keep without an option. They
/// are no failures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotKept {
    /// Number of further names of files of the batch (hard links) that became files of their own.
    pub hard_links: u64,
    /// The reason for the first of those, if links were asked for
    /// ([`SendOptions::hard_links`](crate::SendOptions::hard_links)).
    pub why_apart: Option<Reason>,
    /// Number of files and folders with set-user-id or set-group-id bits that the copy does not
    /// have.
    pub set_id_bits: u64,
}

/// The result of [`receive`](crate::receive).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReceiveSummary {
    /// Number of files written and verified.
    pub stored: u64,
    /// Number of files that were there already.
    pub already_there: u64,
    /// Number of folders that exist at the receiver.
    pub folders: u64,
    /// Number of symbolic links that exist at the receiver.
    pub links: u64,
    /// Number of further names of files (hard links) that exist at the receiver.
    pub hard_links: u64,
    /// File bytes that came over the stream and were written.
    pub bytes_received: u64,
    /// Bytes of changed files that came from the files that were there.
    pub bytes_reused: u64,
    /// Number of entries that the sender does not have, and that were removed, or would be in a dry
    /// run.
    pub removed: u64,
    /// Whether the sender asked for a dry run, which has changed nothing.
    pub is_dry_run: bool,
    /// Number of files that a dry run would write.
    pub would_store: u64,
    /// Number of failures, of the sender and of the receiver.
    pub failed: u64,
    /// The first 1000 failures: a peer decides how many there are, and must not fill this end's
    /// memory.
    pub failures: Vec<Failure>,
    /// The guarantees that the file system refused, each once: what arrived is verified, but lacks
    /// them.
    pub lacking: Vec<LackingGuarantee>,
}

impl ReceiveSummary {
    /// Whether no entry failed. A guarantee that is lacking does not count against it.
    pub fn is_complete(&self) -> bool {
        self.failed == 0
    }

    /// An entry failed. An entry that the sender offered again after a failure counts once.
    pub(crate) fn fail(&mut self, path: Option<&RelPath>, reason: &Reason) {
        if let Some(path) = path {
            self.arrived(path);
        }
        self.failed += 1;
        if self.failures.len() < MAX_FAILURES {
            let path = path.map(|path| path.as_path().to_owned());
            self.failures.push(Failure { path, reason: reason.clone() });
        }
    }

    /// A file has arrived: an earlier attempt that the sender gave up was no failure.
    pub(crate) fn arrived(&mut self, path: &RelPath) {
        let failed = |failure: &Failure| failure.path.as_deref() == Some(path.as_path());
        if let Some(at) = self.failures.iter().position(failed) {
            self.failures.remove(at);
            self.failed -= 1;
        }
    }
}

/// A file that arrived, or of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentFile {
    /// The path below the receiving folder.
    pub path: RelPath,
    /// The size in bytes.
    pub size: u64,
    /// The BLAKE3 on which both peers agree; `None` for a file that stayed for its size and time,
    /// which nobody read.
    pub digest: Option<Digest>,
    /// Whether the file was sent, and from which offset.
    pub how: How,
}

/// The way in which the receiver got a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The file's bytes were sent from this offset on.
    Sent {
        /// The offset of the first sent byte; 0 for a file that was sent from the start.
        resumed_at: u64,
    },
    /// The file was there already, with the same size, and the same time or digest: see
    /// [`Compare`](crate::Compare).
    AlreadyThere,
    /// In a dry run: the file's bytes would be sent from this offset on.
    WouldSend {
        /// The offset of the first byte; 0 for a file that would be sent from the start.
        resumed_at: u64,
    },
    /// In a dry run: the file is there already, and would get other properties.
    WouldUpdate,
}

/// A failure of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The entry's path below the receiving folder; `None` for a source that never became an entry,
    /// which the reason then names.
    pub path: Option<PathBuf>,
    /// The peer that failed, the step at which it failed, and the reason.
    pub reason: Reason,
}

/// An entry that was left out on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The entry's place at the sender.
    pub source: PathBuf,
    /// The reason why the entry was left out.
    pub reason: Reason,
}

const MAX_FAILURES: usize = 1000;
