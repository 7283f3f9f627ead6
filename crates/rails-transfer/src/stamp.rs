//! The properties of a file by which either end notices that it has changed, or that both ends have
//! the same one.

use crate::message::Digest;
use cap_std::fs::{Metadata, MetadataExt};
use std::fs;

/// Properties of a file that change with its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) identity: Identity,
    pub(crate) size: u64,
    /// The last change of the bytes (mtime), in seconds and nanoseconds.
    pub(crate) modified: (i64, i64),
    /// The last change of bytes or attributes (ctime), which no call can set.
    pub(crate) changed: (i64, i64),
}

/// Device and inode.
pub(crate) type Identity = (u64, u64);

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            identity: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The mark of a folder: that of no other on this machine, as long as it runs, and of none on
/// another. `None` where `/proc` does not tell which boot this is.
pub(crate) fn mark(folder: &Metadata) -> Option<Digest> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id").ok().filter(|boot| !boot.is_empty())?;
    let numbers = [folder.dev(), folder.ino()].map(u64::to_le_bytes).concat();
    Some(blake3::hash(&[boot, numbers].concat()).into())
}
