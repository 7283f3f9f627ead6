//! Generations: one state of a file's bytes.

use std::{fmt, fs::Metadata, os::unix::fs::MetadataExt};

/// A state of a file, by the facts that a change of its bytes changes.
///
/// A program can set the time of the last change of the bytes back, and keep the size. The time of
/// the last change of the inode it cannot set. The kernel has one such time for the bytes, the
/// number of names, the owner and the rights of a file, so a change of any of them alone, also the
/// removal of a name, is another generation.
///
/// Four kinds of changes are not noticed, or later than they happen: one that keeps the size within
/// the resolution of the file system's clock (a few milliseconds on Linux); the rest of a call of
/// write(2) that had begun when the file was opened, because the kernel sets the times at its
/// beginning (64 MiB written in place by one call were read half old and half new, on ext4 of Linux
/// 6.18); one through a shared memory map, in pages that the kernel has not written back since
/// their last change; and on network file systems one by another machine, for as long as this one
/// keeps the facts (3 to 60 seconds by default, `acregmin` and `acregmax` of nfs(5)). A writer that
/// renames a finished file over the old one causes none of them.
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
    /// The time of the last change of the inode, in nanoseconds since 1970.
    pub changed_ns: i128,
}

impl Generation {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode, bytes, modified_ns, changed_ns } = self;
        write!(
            f,
            "file {inode} on device {device} of {bytes} bytes, modified at {modified_ns} ns, changed at {changed_ns} ns"
        )
    }
}
