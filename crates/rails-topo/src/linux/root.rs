//! Files below a root directory, and none outside it.

use super::{
    folder::Folder,
    source::{Source, is_shortage},
};
use crate::{Id, IdSet, SysfsError};
use std::{
    io,
    path::Path,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

/// The root of a machine's `/sys` and `/proc`: `/` of this machine, a captured tree, or a capture
/// in memory.
///
/// Every path is relative to it, and nothing outside it is read. A file that cannot be read is
/// unknown. A read that fails for lack of resources ([`is_shortage`]) says nothing about the
/// machine: [`Root::check`] reports it after the reading.
///
/// Every reading goes through the [`Source`], so that a capture holds all of it: a new way to read
/// is a method of the source, or made of its methods.
pub(crate) struct Root {
    source: Arc<dyn Source + Send + Sync>,
    is_this_machine: bool,
    unread: Mutex<Option<Unread>>,
}

/// A file, or the kernel's list of interfaces if `file` is `None`, that could not be read for lack
/// of resources.
struct Unread {
    file: Option<String>,
    error: io::Error,
}

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::of(Folder::open(path)?))
    }

    pub(crate) fn of(source: impl Source + Send + Sync + 'static) -> Self {
        Self { source: Arc::new(source), is_this_machine: false, unread: Mutex::default() }
    }

    /// `/` of the machine that this process runs on.
    pub(crate) fn this_machine() -> Result<Self, SysfsError> {
        let path = Path::new("/");
        let folder = Folder::open(path).map_err(|source| SysfsError::Open { path: path.to_owned(), source })?;
        Ok(Self { is_this_machine: true, ..Self::of(folder) })
    }

    /// A second handle of this root, whose reads are checked apart.
    #[cfg(feature = "monitor")]
    pub(crate) fn again(&self) -> Self {
        Self { source: Arc::clone(&self.source), is_this_machine: self.is_this_machine, unread: Mutex::default() }
    }

    /// Fails if a read so far failed for lack of resources; errors name the root by `path`.
    ///
    /// # Errors
    ///
    /// [`SysfsError::Unread`] and [`SysfsError::Interfaces`], once, for the first failed read.
    pub(crate) fn check(&self, path: &Path) -> Result<(), SysfsError> {
        match self.unread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(Unread { file: Some(file), error }) => {
                Err(SysfsError::Unread { path: path.join(file), source: error })
            }
            Some(Unread { file: None, error }) => Err(SysfsError::Interfaces { source: error }),
            None => Ok(()),
        }
    }

    /// The answer, or `None` for an error; `file` is `None` for the kernel's list of interfaces.
    pub(crate) fn answer<T>(&self, file: Option<&str>, answer: io::Result<T>) -> Option<T> {
        let note = |error: io::Error| {
            if is_shortage(&error) {
                let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
                unread.get_or_insert(Unread { file: file.map(str::to_owned), error });
            }
        };
        answer.map_err(note).ok()
    }

    /// Whether the kernel may be asked for facts that the files do not state.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.is_this_machine
    }

    /// The file's text without the white space around it; an empty file counts as missing.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.text_up_to(path, LONGEST_FILE)
    }

    /// As [`Root::text`], of the file's first bytes. The kernel writes such a file while it is
    /// read, some of them CPU by CPU.
    pub(crate) fn text_up_to(&self, path: &str, longest: u64) -> Option<String> {
        let bytes = self.bytes(path, longest)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The file's first bytes, `longest` at most.
    pub(crate) fn bytes(&self, path: &str, longest: u64) -> Option<Vec<u8>> {
        self.answer(Some(path), self.source.file(path, longest))
    }

    /// The value of the file's text.
    pub(crate) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// A set, which newer kernels write as a list and older ones as a mask.
    pub(crate) fn set<T: Id>(&self, list: &str, mask: &str) -> Option<IdSet<T>> {
        self.value(list).or_else(|| IdSet::parse_mask(&self.text(mask)?).ok())
    }

    pub(crate) fn is_dir(&self, path: &str) -> bool {
        self.answer(Some(path), self.source.is_folder(path)).unwrap_or_default()
    }

    /// The names in a directory, sorted; none where it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let mut names = self.answer(Some(path), self.list(path)).unwrap_or_default();
        names.sort();
        names
    }

    /// The names in a directory, in its own order.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.source.names(path)
    }

    /// The numbers N of the names `<prefix>N` in a directory, sorted.
    pub(crate) fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        let names = self.answer(Some(path), self.list(path)).unwrap_or_default();
        let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The path without symlinks, relative to the root.
    pub(crate) fn real_path(&self, path: &str) -> Option<String> {
        self.answer(Some(path), self.source.real_path(path))
    }

    /// The text of a symlink, whether or not its target exists.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        self.answer(Some(path), self.source.link(path))
    }

    /// The last component of the text of a symlink.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        self.link(path)?.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
    }
}

/// Longer files are cut. `/proc/interrupts` is the longest that is read: 12 bytes per CPU and
/// interrupt.
pub(crate) const LONGEST_FILE: u64 = 64 << 20;
