//! The properties of a file by which either end notices that it has changed.

use cap_std::fs::{Metadata, MetadataExt};

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
