//! The results of batches as documents.

use crate::{
    batch::Batch,
    document::{Contents, Document, Schema},
    side::Side,
};
use rails_transfer::{Failure, How, LackingGuarantee, ReceiveSummary, SendSummary, SentFile, Skipped};
use serde::Serialize;
use std::{net::SocketAddr, os::unix::ffi::OsStrExt, path::Path};

/// The result of `send`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Sent<'a> {
    /// Whether no entry failed.
    complete: bool,
    #[serde(flatten)]
    work: Work,
    /// The number of times the batch was begun again.
    begun_again: u32,
    /// The files that the receiver confirmed.
    files: Vec<File<'a>>,
    /// The number of folders that exist at the receiver.
    folders: u64,
    /// The number of symbolic links that exist at the receiver.
    links: u64,
    /// The number of further names of files (hard links) that exist at the receiver.
    hard_links: u64,
    /// Whether nothing was changed at either end, and `how` and the counts tell what would be.
    dry_run: bool,
    /// The number of folders and links that a dry run would make or give another time or owner.
    would_make: u64,
    /// The number of the receiver's entries that were removed (`--delete`).
    removed: u64,
    /// Whether nothing was removed, as had been asked, because an entry failed.
    is_removal_off: bool,
    /// The entries that did not arrive.
    failures: Vec<Entry<'a>>,
    /// The entries that were left out on purpose, and those whose attributes were.
    left_out: Vec<Entry<'a>>,
    /// The properties that the sender's entries have, and the copy has not.
    not_kept: Unkept,
    /// The guarantees that the receiver or its file system refused.
    lacking: Vec<String>,
    /// The sending process.
    sender: &'a Side,
}

/// The result of `recv` for one batch.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Received<'a> {
    /// Whether no entry failed.
    complete: bool,
    /// The sender's address.
    peer: SocketAddr,
    #[serde(flatten)]
    work: Work,
    /// The number of files written and verified.
    stored: u64,
    /// The number of files that were there already.
    unchanged: u64,
    /// The number of folders that exist at the receiver.
    folders: u64,
    /// The number of symbolic links that exist at the receiver.
    links: u64,
    /// The number of further names of files (hard links) that exist at the receiver.
    hard_links: u64,
    /// Whether nothing was changed, and `would_store` tells how many files the sender would send.
    dry_run: bool,
    /// The number of files that would be stored.
    would_store: u64,
    /// The number of entries that were removed (`send --delete`).
    removed: u64,
    /// The number of failures, of the sender and of the receiver.
    failed: u64,
    /// The first 1000 failures.
    failures: Vec<Entry<'a>>,
    /// The guarantees that the receiver's file system refused.
    lacking: Vec<String>,
    /// The receiving process.
    receiver: &'a Side,
}

impl Contents for Sent<'_> {
    const SCHEMA: Schema = Schema::SEND;
}

impl Contents for Received<'_> {
    const SCHEMA: Schema = Schema::RECV;
}

/// The bytes of a batch, and their time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Work {
    /// The file bytes that went over the stream.
    bytes: u64,
    /// The bytes of changed files that the receiver's own files have; of the last try, if there
    /// were several.
    bytes_reused: u64,
    /// The time of the batch.
    seconds: f64,
    /// Bytes over seconds, in bits.
    goodput_bits_per_second: f64,
    /// The security of the stream.
    security: String,
}

/// A file that arrived.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct File<'a> {
    #[serde(flatten)]
    path: Name<'a>,
    /// The file's length.
    size_bytes: u64,
    /// The digest on which both ends agree; `null` of a file that neither has read.
    blake3: Option<String>,
    #[serde(flatten)]
    how: Arrival,
}

/// The way in which the receiver got a file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "how", rename_all = "snake_case")]
enum Arrival {
    /// Bytes were sent.
    Sent {
        /// The offset from which on bytes were sent.
        resumed_at: u64,
    },
    /// The receiver had the file.
    Unchanged,
    /// Bytes would be sent.
    WouldSend {
        /// The offset from which on bytes would be sent.
        resumed_at: u64,
    },
    /// The receiver's file would get other properties.
    WouldUpdate,
}

/// Properties that a copy keeps on demand alone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Unkept {
    /// The number of further names of files (hard links) that became files of their own.
    hard_links: u64,
    /// The reason for the first of those, if links were asked for (`--hard-links`).
    why_apart: Option<String>,
    /// The number of files and folders that lost set-user-id or set-group-id bits.
    set_id_bits: u64,
}

/// An entry that did not arrive.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Entry<'a> {
    #[serde(flatten)]
    path: Option<Name<'a>>,
    /// The reason, in words.
    reason: String,
}

/// A path. `path` has a mark in place of bytes that are no UTF-8, and `path_bytes` is there then.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Name<'a> {
    /// The path, with U+FFFD in place of bytes that are no UTF-8.
    path: String,
    /// The path's bytes, if they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<&'a [u8]>,
}

/// The document of a batch that was sent.
pub(crate) fn sent<'a>(
    batch: &'a Batch<SendSummary>,
    summary: &'a SendSummary,
    dry_run: bool,
    begun_again: u32,
) -> Document<Sent<'a>> {
    Document::of(Sent {
        complete: summary.is_complete(),
        work: Work::of(batch, summary.bytes_sent, summary.bytes_reused),
        begun_again,
        files: summary.files.iter().map(File::from).collect(),
        folders: summary.folders,
        links: summary.links,
        hard_links: summary.hard_links,
        dry_run,
        would_make: summary.would_make,
        removed: summary.removed,
        is_removal_off: summary.is_removal_off,
        failures: summary.failures.iter().map(Entry::from).collect(),
        left_out: summary.skipped.iter().map(Entry::from).collect(),
        not_kept: Unkept {
            hard_links: summary.not_kept.hard_links,
            why_apart: summary.not_kept.why_apart.as_ref().map(ToString::to_string),
            set_id_bits: summary.not_kept.set_id_bits,
        },
        lacking: lacking(&summary.lacking),
        sender: &batch.side,
    })
}

/// The document of a batch that was received from this peer.
pub(crate) fn received<'a>(
    batch: &'a Batch<ReceiveSummary>,
    summary: &'a ReceiveSummary,
    peer: SocketAddr,
) -> Document<Received<'a>> {
    Document::of(Received {
        complete: summary.is_complete(),
        peer,
        work: Work::of(batch, summary.bytes_received, summary.bytes_reused),
        stored: summary.stored,
        unchanged: summary.already_there,
        folders: summary.folders,
        links: summary.links,
        hard_links: summary.hard_links,
        dry_run: summary.is_dry_run,
        would_store: summary.would_store,
        removed: summary.removed,
        failed: summary.failed,
        failures: summary.failures.iter().map(Entry::from).collect(),
        lacking: lacking(&summary.lacking),
        receiver: &batch.side,
    })
}

fn lacking(lacking: &[LackingGuarantee]) -> Vec<String> {
    lacking.iter().map(ToString::to_string).collect()
}

impl Work {
    fn of<T>(batch: &Batch<T>, bytes: u64, bytes_reused: u64) -> Self {
        let seconds = batch.seconds();
        let goodput_bits_per_second = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        Self { bytes, bytes_reused, seconds, goodput_bits_per_second, security: batch.security.to_string() }
    }
}

impl<'a> From<&'a SentFile> for File<'a> {
    fn from(file: &'a SentFile) -> Self {
        let how = match file.how {
            How::Sent { resumed_at } => Arrival::Sent { resumed_at },
            How::AlreadyThere => Arrival::Unchanged,
            How::WouldSend { resumed_at } => Arrival::WouldSend { resumed_at },
            How::WouldUpdate => Arrival::WouldUpdate,
        };
        let blake3 = file.digest.as_ref().map(ToString::to_string);
        Self { path: file.path.as_path().into(), size_bytes: file.size, blake3, how }
    }
}

impl<'a> From<&'a Failure> for Entry<'a> {
    fn from(failure: &'a Failure) -> Self {
        Self { path: failure.path.as_deref().map(Name::from), reason: failure.reason.to_string() }
    }
}

impl<'a> From<&'a Skipped> for Entry<'a> {
    fn from(skipped: &'a Skipped) -> Self {
        Self { path: Some(skipped.source.as_path().into()), reason: skipped.reason.to_string() }
    }
}

impl<'a> From<&'a Path> for Name<'a> {
    fn from(path: &'a Path) -> Self {
        let path_bytes = path.to_str().is_none().then(|| path.as_os_str().as_bytes());
        Self { path: path.to_string_lossy().into_owned(), path_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn bytes_of_names_that_are_no_text() {
        let text = |name: &[u8]| serde_json::to_string(&Name::from(Path::new(OsStr::from_bytes(name)))).unwrap();
        assert_eq!(text("\u{202e}é\n".as_bytes()), "{\"path\":\"\u{202e}é\\n\"}");
        assert_eq!(text(b"a\xff"), "{\"path\":\"a\u{fffd}\",\"path_bytes\":[97,255]}");
    }
}
