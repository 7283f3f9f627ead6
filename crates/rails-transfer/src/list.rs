//! The list of the entries of one folder that a batch has.

use crate::path::{MAX_PATH, Printable};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

/// A list of paths, relative to the one source of a batch, a folder: only they are sent, with the
/// folders above them, as rsync has it. A folder in the list is sent without its contents.
///
/// # Example
/// ```
/// use rails_transfer::FileList;
///
/// let list = FileList::parse(b"photos/1.jpg\n./notes\n\n", b'\n')?;
/// let error = FileList::parse(b"photos/1.jpg\n../secret\n", b'\n').unwrap_err();
/// assert_eq!(error.to_string(), "line 2: `../secret` has a component `..`");
/// # Ok::<(), rails_transfer::FileListError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileList {
    /// The paths, and whether each is listed or above one that is. A folder comes before what is in
    /// it.
    paths: BTreeMap<PathBuf, bool>,
}

/// A path that a list may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{path}` {fault}")]
pub struct FileListError {
    /// The number of the line, from 1; of a list without lines, that of the path.
    line: usize,
    path: String,
    fault: &'static str,
}

impl FileList {
    /// Reads paths that each end with `end`: a newline, or NUL where names may have one. The last
    /// may lack it. Empty paths are no paths; `.` as a component stands for nothing.
    ///
    /// # Errors
    /// The first path that is absolute, has a component `..`, holds a NUL byte, or is longer than a
    /// path may be, 4096 bytes: of one without bounds the folders above it would fill the memory.
    pub fn parse(text: &[u8], end: u8) -> Result<Self, FileListError> {
        let mut paths = BTreeMap::new();
        for (index, bytes) in text.split(|&byte| byte == end).enumerate() {
            let path = Path::new(OsStr::from_bytes(&bytes[..bytes.len().min(MAX_PATH)]));
            let wrong = |fault| FileListError { line: index + 1, path: Printable(path).to_string(), fault };
            if bytes.len() > MAX_PATH {
                return Err(wrong("has more than 4096 bytes"));
            }
            let mut names = PathBuf::new();
            for component in path.components() {
                match component {
                    Component::Normal(name) if name.as_bytes().contains(&0) => return Err(wrong("holds a NUL byte")),
                    Component::Normal(name) => names.push(name),
                    Component::CurDir => {}
                    Component::ParentDir => return Err(wrong("has a component `..`")),
                    Component::RootDir | Component::Prefix(_) => return Err(wrong("is absolute")),
                }
            }
            for above in names.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
                paths.entry(above.to_owned()).or_insert(false);
            }
            if !names.as_os_str().is_empty() {
                paths.insert(names, true);
            }
        }
        Ok(Self { paths })
    }

    /// The paths, and whether each is listed.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.paths.iter().map(|(path, is_listed)| (path.as_path(), *is_listed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(text: &[u8], end: u8) -> Vec<(String, bool)> {
        let list = FileList::parse(text, end).unwrap();
        list.paths().map(|(path, is_listed)| (path.display().to_string(), is_listed)).collect()
    }

    #[test]
    fn paths_and_the_folders_above_them() {
        let expected = [("a", false), ("a/b", true), ("a/b/c", true), ("d\nx", true)];
        let expected = expected.map(|(path, is_listed)| (path.to_owned(), is_listed));
        assert_eq!(listed(b"./a//b/c\0a/b/\0\0.\0d\nx", 0), expected);
        assert_eq!(listed(b"a/b/c\n\na/b\n", b'\n'), expected[..3]);
        assert_eq!(listed(b"", b'\n'), []);
    }

    #[test]
    fn paths_that_lead_out_are_named_by_their_line() {
        for (text, said) in [
            ("a\n/etc/x\n", "line 2: `/etc/x` is absolute"),
            ("\n\na/../b", "line 3: `a/../b` has a component `..`"),
            ("..", "line 1: `..` has a component `..`"),
            ("a\0b", "line 1: `a\\u{0}b` holds a NUL byte"),
        ] {
            assert_eq!(FileList::parse(text.as_bytes(), b'\n').unwrap_err().to_string(), said);
        }
        let long = FileList::parse("a/".repeat(100_000).as_bytes(), b'\n').unwrap_err();
        assert_eq!(long.fault, "has more than 4096 bytes");
    }

    proptest! {
        #[test]
        fn any_list_stays_within_its_folder(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(list) = FileList::parse(&text, b'\n') {
                for (path, _) in list.paths() {
                    prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                    let above = path.parent().unwrap();
                    prop_assert!(above.as_os_str().is_empty() || list.paths.contains_key(above));
                }
            }
        }
    }
}
