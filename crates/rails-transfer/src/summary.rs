//! The result of a transfer.

use crate::{guarantee::Lacking, message::Digest, path::RelPath, reason::Reason};
use std::path::PathBuf;

/// The result of [`send`](crate::send).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SendSummary {
    /// The files that are now whole at the receiver, in the order in which it confirmed them.
    pub files: Vec<SentFile>,
    /// Number of folders that are there.
    pub folders: u64,
    /// File bytes that went over the stream; a resumed file counts from where it was resumed.
    pub bytes_sent: u64,
    /// The failures, of the sender and of the receiver.
    pub failures: Vec<Failure>,
    /// The entries that were left out on purpose.
    pub skipped: Vec<Skipped>,
    /// The guarantees that the receiver's file system refused, each once, if the receiver is of a
    /// release that tells.
    pub lacking: Vec<Lacking>,
}

impl SendSummary {
    /// Whether nothing failed. Entries left out on purpose do not count against it, nor does a
    /// guarantee that is lacking.
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }
}

/// The result of [`receive`](crate::receive).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReceiveSummary {
    /// Number of files written and verified.
    pub stored: u64,
    /// Number of files that were there already.
    pub already_there: u64,
    /// Number of folders that are there.
    pub folders: u64,
    /// File bytes that came over the stream and were written.
    pub bytes_received: u64,
    /// Number of failures, of the sender and of the receiver.
    pub failed: u64,
    /// The first 1000 of them: a peer decides how many there are, and must not fill our memory with
    /// them.
    pub failures: Vec<Failure>,
    /// The guarantees that the file system refused, each once: what arrived is verified, but lacks
    /// them.
    pub lacking: Vec<Lacking>,
}

impl ReceiveSummary {
    /// Whether nothing failed. A guarantee that is lacking does not count against it.
    pub fn is_complete(&self) -> bool {
        self.failed == 0
    }

    /// An entry failed. One that failed before, and that the sender offered again, counts once.
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

    /// A file has arrived: if the sender took it back and offered it again, that was no failure.
    pub(crate) fn arrived(&mut self, path: &RelPath) {
        let failed = |failure: &Failure| failure.path.as_deref() == Some(path.as_path());
        if let Some(at) = self.failures.iter().position(failed) {
            self.failures.remove(at);
            self.failed -= 1;
        }
    }
}

/// One file that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentFile {
    /// The path below the receiving folder.
    pub path: RelPath,
    /// The size in bytes.
    pub size: u64,
    /// The BLAKE3 on which both peers agree.
    pub digest: Digest,
    /// Whether and from where it was sent.
    pub how: How,
}

/// How a file came to be at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The file's bytes were sent from this offset on.
    Sent {
        /// 0 for a file that was sent whole.
        resumed_at: u64,
    },
    /// The file was there already, with the same size and digest.
    AlreadyThere,
}

/// Something that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The entry's path below the receiving folder; `None` for a source that never became an entry,
    /// which the reason then names.
    pub path: Option<PathBuf>,
    /// The peer that failed, the step at which it failed, and the reason.
    pub reason: Reason,
}

/// Something left out on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is at the sender.
    pub source: PathBuf,
    /// Why it was left out.
    pub reason: Reason,
}

const MAX_FAILURES: usize = 1000;
