//! The messages of the two peers.

use crate::{
    guarantee::LackingGuarantee,
    meta::Meta,
    path::{LinkTarget, Name, RelPath},
    reason::Reason,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A file's BLAKE3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest([u8; 32]);

/// The digest of a block at its place in a file: the chaining value of its subtree in the file's
/// BLAKE3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockDigest([u8; 32]);

/// The contents of a batch, counted before the first byte is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of regular files.
    pub files: u64,
    /// Number of folders.
    pub folders: u64,
    /// Sum of the files' sizes in bytes, whether or not the receiver has them already.
    pub bytes: u64,
}

/// A message from the sender. Entries are numbered 0, 1, 2, ... in the order in which they are
/// opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromSender {
    /// The contents of the batch; the first message, sent once.
    Totals(Totals),
    /// A file or folder of the sources could not be read, and so is not part of the batch.
    Unreadable { reason: Reason },
    /// Opens an entry: make this folder.
    Folder { id: u64, path: RelPath },
    /// Opens an entry: a file that the sender can send.
    Offer { id: u64, offer: Offer },
    /// Opens an entry: this folder's contents are complete; give it its properties.
    Seal { id: u64, path: RelPath, meta: Meta },
    /// Data blocks of this file follow on the same stream, from `offset` to its end.
    Start { id: u64, offset: u64, meta: Meta },
    /// All of the file's blocks were sent, and this is the digest of the whole file.
    Finish { id: u64, digest: Digest },
    /// The receiver's file has the same bytes, and stays, with these properties.
    Keep { id: u64, meta: Meta },
    /// The sender gives this file up; allowed in place of `Start` and of `Finish`.
    Abort { id: u64, reason: Reason },
    /// The last message: there are no further entries.
    Done,
    /// Opens an entry: make this symbolic link.
    Link { id: u64, path: RelPath, target: LinkTarget, meta: Meta },
    /// The next bytes of the started file are zeros, which the sender's file has no room for.
    Hole { id: u64, len: u64 },
    /// In place of `Start` in a dry run: the file would be sent, from `offset` on.
    Would { id: u64, offset: u64 },
    /// Opens an entry: look through this folder for entries that the sender does not have. `None`
    /// is the receiving folder.
    Prune { id: u64, path: Option<RelPath> },
    /// Answers `Found`: whether each of the entries goes.
    Choose { id: u64, goes: Vec<bool> },
    /// Opens an entry: make this a further name of a file that the receiver has stored or kept in
    /// this batch (`Meta::has_twins`).
    HardLink { id: u64, path: RelPath, target: RelPath },
    /// The next bytes of the started file are whole blocks that the receiver's file has at this
    /// place.
    Same { id: u64, len: u64 },
    /// Asks for the digests of the blocks of the receiver's file, from this one on.
    Ask { id: u64, block: u64 },
}

impl FromSender {
    /// The properties that the sender wants an entry to have.
    pub(crate) fn meta_mut(&mut self) -> Option<&mut Meta> {
        match self {
            Self::Offer { offer: Offer { meta, .. }, .. }
            | Self::Seal { meta, .. }
            | Self::Start { meta, .. }
            | Self::Keep { meta, .. }
            | Self::Link { meta, .. } => Some(meta),
            Self::Totals(_)
            | Self::Unreadable { .. }
            | Self::Folder { .. }
            | Self::Finish { .. }
            | Self::Abort { .. }
            | Self::Done
            | Self::Hole { .. }
            | Self::Would { .. }
            | Self::Prune { .. }
            | Self::Choose { .. }
            | Self::HardLink { .. }
            | Self::Same { .. }
            | Self::Ask { .. } => None,
        }
    }
}

/// A file that the sender can send, as it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) path: RelPath,
    pub(crate) size: u64,
    pub(crate) meta: Meta,
    pub(crate) compare: Compare,
}

/// The property by which a file of the receiver counts as the sender's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Compare {
    /// The size and the time of the last change, to the nanosecond: neither end reads such a file,
    /// unless a part of it is left from an earlier run. One of the same size and another time is
    /// compared by its digest.
    #[default]
    Times,
    /// The size and the BLAKE3: both ends read the file.
    Digests,
}

/// A message from the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromReceiver {
    /// The receiver cannot receive the batch, or cannot put its names on disk.
    Refuse { reason: Reason },
    /// Answers an offer with the bytes that the receiver already has.
    Held { id: u64, held: Held },
    /// The outcome of an entry; the last message about it.
    Settled { id: u64, outcome: Settled },
    /// Everything is settled and on disk; the answer to `Done`.
    Bye,
    /// Sent before `Bye`: a guarantee that the file system refused.
    Lacking { lacking: LackingGuarantee },
    /// Entries of a folder that is looked through.
    Found { id: u64, folder: Option<RelPath>, entries: Vec<FoundEntry> },
    /// Sent before `Bye`: the mark of the receiving folder, by which a sender on the same machine
    /// knows its own.
    Here { mark: Digest },
    /// Answers `Ask`, with at most [`MAX_DIGESTS`] digests: with none if there are no such blocks,
    /// or the file has changed.
    Blocks { id: u64, digests: Vec<BlockDigest> },
}

impl Held {
    /// The unfinished file, if it can be the beginning of a file of that size.
    pub(crate) fn part_of(&self, size: u64) -> Option<Prefix> {
        self.part.filter(|part| (1..=size).contains(&part.len))
    }
}

/// An entry of the receiver that the sender may not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundEntry {
    pub(crate) name: Name,
    pub(crate) kind: FoundKind,
}

/// The kind of a [`FoundEntry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FoundKind {
    /// No folder: it goes at once.
    Other,
    /// A folder, which is looked through if it is to go.
    Folder,
    /// A folder that was looked through, and has nothing in it any more.
    Emptied,
}

/// The receiver's bytes of an offered file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// The file under the final name, where it may have bytes of the offered one.
    pub(crate) there: Option<There>,
    /// The unfinished file.
    pub(crate) part: Option<Prefix>,
}

/// A file that is there already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct There {
    /// The size in bytes.
    pub(crate) len: u64,
    /// The digests of the first blocks, at most [`MAX_DIGESTS`].
    pub(crate) blocks: Vec<BlockDigest>,
}

/// The first `len` bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prefix {
    pub(crate) len: u64,
    pub(crate) digest: Digest,
}

/// The outcome of an entry at the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Settled {
    /// The file is whole, verified and under its final name.
    Stored { digest: Digest },
    /// The receiver's own file stays.
    Kept,
    /// The folder or link exists, or the folder has its mode.
    Made,
    /// The sender gave the file up.
    Aborted,
    /// The receiver failed.
    Failed { reason: Reason },
    /// The receiver would have changed something, but for the dry run.
    Would,
    /// The folder was looked through.
    Pruned { removed: u64, failed: Option<Reason> },
}

impl Digest {
    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for BlockDigest {
    fn from(chaining_value: [u8; 32]) -> Self {
        Self(chaining_value)
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.into())
    }
}

/// Lower-case hexadecimal, as `b3sum` prints it.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The digests of one message: those of 32 MiB.
pub(crate) const MAX_DIGESTS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        codec::{decode, encode},
        keep::{Acls, MAX_ATTRIBUTES, Xattrs},
        meta::{Extras, Modified},
    };
    use proptest::prelude::*;

    #[test]
    fn messages_with_paths_outside_do_not_decode() {
        let folder = |path: &str| {
            let mut bytes = vec![2, 0, u8::try_from(path.len()).unwrap()];
            bytes.extend_from_slice(path.as_bytes());
            decode::<FromSender>(&bytes)
        };
        assert!(matches!(folder("a"), Ok(FromSender::Folder { id: 0, .. })));
        for path in ["../a", "/a", "a/../b", "a\0"] {
            assert!(folder(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn an_offer_has_the_bytes_that_the_document_shows() {
        let path = RelPath::parse("a").unwrap();
        let offer = Offer { path, size: 0, meta: Meta::of_mode(0o644), compare: Compare::Digests };
        let offer = FromSender::Offer { id: 0, offer };
        assert_eq!(encode(&offer, Vec::new()), [3, 0, 1, b'a', 0, 4, 0, 2, 0xa4, 0x03, 1]);
        let start = FromSender::Start { id: 0, offset: 0, meta: Meta::of_mode(0o644) };
        assert_eq!(encode(&start, Vec::new()), [5, 0, 0, 4, 0, 2, 0xa4, 0x03]);
        assert_eq!(encode(&FromSender::Done, Vec::new()), [9]);
        let [path, target] = ["b", "a"].map(|path| RelPath::parse(path).unwrap());
        assert_eq!(encode(&FromSender::HardLink { id: 1, path, target }, Vec::new()), [15, 1, 1, b'b', 1, b'a']);
        assert_eq!(encode(&FromReceiver::Bye, Vec::new()), [3]);
    }

    #[test]
    fn left_over_bytes_are_an_error() {
        assert!(decode::<FromSender>(&[9]).is_ok());
        assert!(decode::<FromSender>(&[9, 0]).is_err());
    }

    #[test]
    fn the_largest_messages_fit_a_control_frame() {
        let path = RelPath::parse(vec!["a".repeat(255); 16].join("/")).unwrap();
        let modified = Some(Modified { seconds: i64::MIN, nanos: 999_999_999 });
        let owner = Some(u32::MAX - 1);
        let value = vec![0; MAX_ATTRIBUTES - b"user.a".len() - b"user.b".len()];
        let attributes = [(&b"user.a"[..], &value[1..]), (b"user.b", &[0])];
        let attributes = attributes.iter().fold(Vec::new(), |onto, pair| encode(pair, onto));
        let extras =
            Extras { user: owner, group: owner, xattrs: Xattrs::parse(&attributes).ok(), acls: Some(Acls::default()) };
        assert!(extras.xattrs.is_some());
        let meta = Meta { mode: Some(u32::MAX), modified, extras: Some(Box::new(extras)), has_twins: true };
        let offer = Offer { path, size: u64::MAX, meta, compare: Compare::Times };
        let offer = FromSender::Offer { id: u64::MAX, offer };
        assert!(encode(&offer, Vec::new()).len() <= crate::frame::MAX_CONTROL);
        let FromSender::Offer { offer: Offer { path, mut meta, .. }, .. } = offer else { unreachable!() };
        let linked = FromSender::HardLink { id: u64::MAX, path: path.clone(), target: path.clone() };
        assert!(encode(&linked, Vec::new()).len() <= crate::frame::MAX_CONTROL);
        // A link has no attributes.
        meta.extras.iter_mut().for_each(|extras| (extras.xattrs, extras.acls) = (None, None));
        let target = LinkTarget::try_from(vec![b'a'; 4095]).unwrap();
        let link = FromSender::Link { id: u64::MAX, path, target, meta };
        assert!(encode(&link, Vec::new()).len() <= crate::frame::MAX_CONTROL);
        let FromSender::Link { path, .. } = link else { unreachable!() };
        let entry = || FoundEntry { name: Name::of(&path), kind: FoundKind::Emptied };
        // The names of a question, and one more, which is the last.
        let entries = std::iter::repeat_with(entry).take((8 << 10) / 255 + 1).collect();
        let found = FromReceiver::Found { id: u64::MAX, folder: Some(path.clone()), entries };
        assert!(encode(&found, Vec::new()).len() <= crate::frame::MAX_CONTROL);
        let failed = Settled::Failed { reason: Reason::new("x".repeat(5000)) };
        let settled = FromReceiver::Settled { id: u64::MAX, outcome: failed };
        assert!(encode(&settled, Vec::new()).len() <= crate::frame::MAX_CONTROL);
        let blocks = vec![BlockDigest([0xff; 32]); MAX_DIGESTS];
        let part = Some(Prefix { len: u64::MAX, digest: blake3::hash(b"x").into() });
        let held = Held { there: Some(There { len: u64::MAX, blocks }), part };
        let held = FromReceiver::Held { id: u64::MAX, held };
        assert!(encode(&held, Vec::new()).len() <= crate::frame::MAX_CONTROL);
    }

    proptest! {
        #[test]
        fn offers_come_back_as_they_went(id: u64, size: u64, name in "[^/\0]{2,40}") {
            let Ok(path) = RelPath::parse(name) else { return Ok(()) };
            let offer = Offer { path, size, meta: Meta::default(), compare: Compare::Times };
            let offer = FromSender::Offer { id, offer };
            prop_assert_eq!(decode::<FromSender>(&encode(&offer, Vec::new())), Ok(offer));
        }

        #[test]
        fn any_bytes_decode_or_fail_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<FromSender>(&bytes);
            let _ = decode::<FromReceiver>(&bytes);
        }
    }
}
