//! Files below a root directory, and none outside it.

use crate::{Id, IdSet};
use cap_std::{ambient_authority, fs::Dir};
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
        let bytes = self.bytes(path, LONGEST_FILE)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The file's first bytes, at most so many.
    pub(crate) fn bytes(&self, path: &str, longest: u64) -> Option<Vec<u8>> {
        // Opening a FIFO would wait for a writer for ever, so what is not a plain file is not opened.
        if !self.dir.metadata(path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        self.dir.open(path).ok()?.take(longest).read_to_end(&mut bytes).ok()?;
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
        let entries = self.dir.read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The numbers N of the names `<prefix>N` in a directory, sorted.
    pub(crate) fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let number = |name: String| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = self.names(path).into_iter().filter_map(number).collect();
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

/// Longer files are cut. `/proc/interrupts` is the longest that is read: 12 bytes per CPU and interrupt.
const LONGEST_FILE: u64 = 64 << 20;
