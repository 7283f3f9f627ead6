//! Generations: one state of a file's bytes.

use std::{fmt, fs::Metadata, os::unix::fs::MetadataExt};

/// A state of a file, by the facts that a change of its bytes changes.
///
/// A write leaves the generation as it is only if it keeps the size, and comes within the
/// resolution of the file system's clock (a few milliseconds on Linux) or sets the time back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Generation {
    /// The number of the device.
    pub device: u64,
    /// The number of the file on its device.
    pub inode: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The time of the last change of the bytes, in nanoseconds since 1970.
    pub modified_ns: i128,
}

impl Generation {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let modified_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Self { device: metadata.dev(), inode: metadata.ino(), bytes: metadata.size(), modified_ns }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode, bytes, modified_ns } = self;
        write!(f, "file {inode} on device {device} of {bytes} bytes, modified at {modified_ns} ns")
    }
}
