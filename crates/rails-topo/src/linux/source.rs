//! Sources of the kernel's files.

use std::io;

/// A machine's `/sys` and `/proc`: a folder, or a capture in memory.
///
/// Paths are relative to the root. Links are followed, also in the middle of a path, but never out
/// of the root: such paths do not exist. An error is that of the operating system; [`is_shortage`]
/// separates a path that cannot be read at the moment from one that states nothing.
pub(crate) trait Source {
    /// The first bytes of a plain file, `longest` at most.
    fn file(&self, path: &str, longest: u64) -> io::Result<Vec<u8>>;

    /// Whether the path is a folder.
    fn is_folder(&self, path: &str) -> io::Result<bool>;

    /// The names in a folder, in any order.
    fn names(&self, path: &str) -> io::Result<Vec<String>>;

    /// The text of a symlink, whether or not its target exists.
    fn link(&self, path: &str) -> io::Result<String>;

    /// The path, without symlinks, of an entry that exists.
    fn real_path(&self, path: &str) -> io::Result<String>;

    /// The kind of the last component of the path itself, a link or no plain file too.
    fn kind(&self, path: &str) -> io::Result<Kind>;
}

/// The path, without symlinks, of an entry that exists.
///
/// `link` gives the text of the link at a path whose folders are no links, or `None` if another
/// entry is there. No link is followed out of the root.
///
/// # Errors
///
/// Those of `link`; [`io::ErrorKind::NotFound`] for a path that leads out of the root, or through
/// too many links.
pub(crate) fn without_links(
    path: &str,
    follow_last: bool,
    link: impl Fn(&str) -> io::Result<Option<String>>,
) -> io::Result<String> {
    let mut ahead: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
    let mut place: Vec<String> = Vec::new();
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        match name.as_str() {
            "" | "." => continue,
            ".." => {
                place.pop().ok_or(io::ErrorKind::NotFound)?;
                continue;
            }
            _ => {}
        }
        place.push(name);
        let Some(target) = link(&place.join("/"))? else { continue };
        if follow_last || !ahead.is_empty() {
            links += 1;
            if links > MAX_LINKS || target.starts_with('/') {
                return Err(io::ErrorKind::NotFound.into());
            }
            place.pop();
            ahead.extend(target.split('/').rev().map(str::to_owned));
        }
    }
    Ok(place.join("/"))
}

/// The most links that Linux follows (path_resolution(7)).
pub(crate) const MAX_LINKS: usize = 40;

/// Whether the system lacked the resources to answer, so that the error says nothing about the
/// machine.
///
/// All other errors are answers: the file is missing, hidden or closed to this process, or its
/// driver states nothing.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    use nix::libc::{EINTR, EIO, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    error.raw_os_error().is_some_and(|errno| [EMFILE, ENFILE, ENOMEM, ENOBUFS, EIO, EINTR].contains(&errno))
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
