//! Sources of the kernel's files.

use std::io;

/// A machine's `/sys` and `/proc`: a folder, or a capture in memory.
///
/// Paths are relative to the root. Links are followed, also in the middle of a path, but never out of the root: such
/// paths do not exist, nor do paths that cannot be read.
pub(crate) trait Source {
    /// The first bytes of a plain file, at most so many.
    fn file(&self, path: &str, longest: u64) -> Option<Vec<u8>>;

    /// Whether there is a folder.
    fn is_folder(&self, path: &str) -> bool;

    /// The names in a folder, in any order.
    fn names(&self, path: &str) -> io::Result<Vec<String>>;

    /// The text of a symlink, whether or not its target exists.
    fn link(&self, path: &str) -> Option<String>;

    /// The path without symlinks of something that exists.
    fn real_path(&self, path: &str) -> Option<String>;

    /// The kind of the last component of the path itself, a link or no plain file too.
    fn kind(&self, path: &str) -> Option<Kind>;
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A folder.
    Folder,
    /// A symlink.
    Link,
    /// A plain file.
    File,
    /// A device, a pipe, a socket.
    Other,
}
