//! Files below a root directory, and none outside it.

use crate::{Id, IdSet};
use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions, OpenOptionsExt},
};
use std::{
    io::{self, Read},
    path::Path,
    str::FromStr,
};

/// The root of a machine's `/sys` and `/proc`: `/` of this machine, or a captured tree.
///
/// Every path is relative to it. A captured tree comes from somebody else, and its symlinks may point anywhere: what
/// leads out of the root cannot be read (cap-std: `openat2` with `RESOLVE_BENEATH`). What cannot be read is unknown.
pub(crate) struct Root {
    dir: Dir,
}

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { dir: Dir::open_ambient_dir(path, ambient_authority())? })
    }

    /// The file's text without the white space around it; an empty file says nothing, as a missing one.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.text_up_to(path, LONGEST_FILE)
    }

    /// As [`Root::text`], of the file's first bytes. The kernel writes such a file as it is read, and for some CPU by CPU.
    pub(crate) fn text_up_to(&self, path: &str, longest: u64) -> Option<String> {
        text(&self.bytes(path, longest)?)
    }

    /// The file's first bytes, at most so many.
    pub(crate) fn bytes(&self, path: &str, longest: u64) -> Option<Vec<u8>> {
        // Opening a FIFO would wait for a writer for ever but for this flag.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(nix::libc::O_NONBLOCK);
        let mut file = self.dir.open_with(path, &options).ok()?;
        // A device could answer without end.
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut page = [0; PAGE];
        let read = file.read(&mut page[..PAGE.min(longest as usize)]).ok()?;
        let mut bytes = page[..read].to_vec();
        // A machine has thousands of these files, and asking each for more than its only line takes its time.
        if read == PAGE || !path.starts_with("sys/") {
            file.take(longest - read as u64).read_to_end(&mut bytes).ok()?;
        }
        Some(bytes)
    }

    /// What the file's text stands for.
    pub(crate) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// A set, which newer kernels write as a list and older ones as a mask.
    pub(crate) fn set<T: Id>(&self, list: &str, mask: &str) -> Option<IdSet<T>> {
        self.value(list).or_else(|| IdSet::parse_mask(&self.text(mask)?).ok())
    }

    pub(crate) fn is_dir(&self, path: &str) -> bool {
        self.dir.metadata(path).is_ok_and(|metadata| metadata.is_dir())
    }

    /// The names in a directory, sorted; none where it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let mut names = self.list(path).unwrap_or_default();
        names.sort();
        names
    }

    /// The names in a directory, in its own order.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = self.dir.read_dir(path)?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// The numbers N of the names `<prefix>N` in a directory, sorted.
    pub(crate) fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = self.list(path).unwrap_or_default().iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The path without symlinks, relative to the root.
    pub(crate) fn real_path(&self, path: &str) -> Option<String> {
        self.dir.canonicalize(path).ok()?.into_os_string().into_string().ok()
    }

    /// What a symlink says, whether or not that exists.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        self.dir.read_link_contents(path).ok()?.into_os_string().into_string().ok()
    }

    /// The last component of what a symlink says.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        self.link(path)?.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
    }
}

/// The text without the white space around it, if that leaves any.
fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// What a file of sysfs gives at once, if it has as much: less is all that there is (Documentation/filesystems/sysfs.rst in
/// the kernel's sources).
const PAGE: usize = 4096;

/// Longer files are cut. `/proc/interrupts` is the longest that is read: 12 bytes per CPU and interrupt.
const LONGEST_FILE: u64 = 64 << 20;
