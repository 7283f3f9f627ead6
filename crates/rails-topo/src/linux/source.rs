//! Where the kernel's files come from.

use std::io;

/// A machine's `/sys` and `/proc`: a folder, or a capture in memory.
///
/// Paths are relative to the root. Links are followed, also in the middle of a path, but never out of the root: what leads
/// there is not there. What cannot be read is not there either.
pub(crate) trait Source {
    /// The first bytes of a plain file, at most so many.
    fn file(&self, path: &str, longest: u64) -> Option<Vec<u8>>;

    /// Whether there is a folder.
    fn is_folder(&self, path: &str) -> bool;

    /// The names in a folder, in any order.
    fn names(&self, path: &str) -> io::Result<Vec<String>>;

    /// What a symlink says, whether or not that exists.
    fn link(&self, path: &str) -> Option<String>;

    /// The path without symlinks, of what exists.
    fn real_path(&self, path: &str) -> Option<String>;

    /// What the last component of the path is itself, be it a link or what is no plain file.
    fn kind(&self, path: &str) -> Option<Kind>;
}

/// What a path names.
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
