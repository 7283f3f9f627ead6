//! The path of an entry below the receiving folder; a parsed path is safe to use.

use serde::{Deserialize, Serialize};
use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// A relative path that cannot leave the folder it is applied to.
///
/// One or more components joined by single `/`. A component is 1 to 255 bytes, any bytes but `/`
/// and NUL (so not necessarily UTF-8), and is not `.`, `..` or one of the receiver's own temporary
/// names. The whole is at most 4096 bytes and 256 components.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Parses the bytes of a path.
    ///
    /// # Errors
    /// The first rule that the bytes break.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Self, PathError> {
        let bytes = bytes.into();
        if bytes.len() > MAX_PATH {
            return Err(PathError::TooLong { len: bytes.len() });
        }
        for (index, component) in bytes.split(|&byte| byte == b'/').enumerate() {
            check_component(component)?;
            if index >= MAX_DEPTH {
                return Err(PathError::TooDeep);
            }
        }
        Ok(Self(bytes))
    }

    /// The path of a name in a folder; without a folder, in the receiving one.
    pub(crate) fn below(folder: Option<&Self>, name: &[u8]) -> Result<Self, PathError> {
        let Name(name) = Name::try_from(name.to_vec())?;
        match folder {
            Some(folder) => Self::parse([folder.as_bytes(), b"/", &name].concat()),
            None => Self::parse(name),
        }
    }

    /// Whether a name is one that the receiver keeps for itself.
    pub(crate) fn is_reserved(name: &[u8]) -> bool {
        check_component(name) == Err(PathError::Reserved)
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path, relative.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The first component: the name that appears directly in the receiving folder.
    pub fn top(&self) -> &OsStr {
        let end = self.0.iter().position(|&byte| byte == b'/').unwrap_or(self.0.len());
        OsStr::from_bytes(&self.0[..end])
    }

    /// The last component.
    pub fn name(&self) -> &OsStr {
        let start = self.0.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        OsStr::from_bytes(&self.0[start..])
    }

    /// The path without its last component; `None` where that is the receiving folder itself.
    pub fn parent(&self) -> Option<&Path> {
        let slash = self.0.iter().rposition(|&byte| byte == b'/')?;
        Some(Path::new(OsStr::from_bytes(&self.0[..slash])))
    }

    /// The temporary name beside [`name`](Self::name) under which an unfinished file is kept.
    ///
    /// `.NAME.rails-part`; where that would be longer than a name may be (255 bytes), the name's
    /// BLAKE3 takes its place and the suffix differs, so that no short name has the same
    /// temporary name.
    pub(crate) fn part_name(&self) -> OsString {
        let name = self.name().as_bytes();
        let mut part = vec![b'.'];
        if 1 + name.len() + PART_SUFFIX.len() <= MAX_COMPONENT {
            part.extend_from_slice(name);
            part.extend_from_slice(PART_SUFFIX);
        } else {
            part.extend_from_slice(blake3::hash(name).to_hex().as_bytes());
            part.extend_from_slice(LONG_PART_SUFFIX);
        }
        OsString::from_vec(part)
    }

    /// The temporary name of a link that takes the place of a file. No file's part has it.
    pub(crate) fn link_name(&self) -> OsString {
        let digest = blake3::keyed_hash(LINKS, self.name().as_bytes());
        OsString::from_vec([b".", digest.to_hex().as_bytes(), LONG_PART_SUFFIX].concat())
    }
}

/// As [`Printable`].
impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(self.as_path()).fmt(f)
    }
}

/// A path as a text that is safe to print: characters that steer a terminal or turn the text around
/// them are escaped, and bytes that are not UTF-8 are replaced.
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a>(pub &'a Path);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.to_string_lossy().split_inclusive(steers) {
            let plain = part.trim_end_matches(steers);
            f.write_str(plain)?;
            part[plain.len()..].chars().try_for_each(|steering| write!(f, "{}", steering.escape_default()))?;
        }
        Ok(())
    }
}

/// Whether a character is a control character, ends a line, or sets the direction of the text
/// behind it (Unicode's `Bidi_Control`).
pub(crate) fn steers(part: char) -> bool {
    part.is_control()
        || matches!(part, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelPath({self})")
    }
}

impl TryFrom<Vec<u8>> for RelPath {
    type Error = PathError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, PathError> {
        Self::parse(bytes)
    }
}

impl From<RelPath> for Vec<u8> {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

/// The target of a symbolic link: any text, which need not lead anywhere and is never followed.
///
/// 1 to 4095 bytes without NUL (symlink(2)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub(crate) struct LinkTarget(Vec<u8>);

impl LinkTarget {
    pub(crate) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

impl TryFrom<Vec<u8>> for LinkTarget {
    type Error = PathError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, PathError> {
        match bytes.len() {
            0 => Err(PathError::Empty),
            len if len > MAX_LINK => Err(PathError::TooLong { len }),
            _ if bytes.contains(&0) => Err(PathError::Nul),
            _ => Ok(Self(bytes)),
        }
    }
}

impl From<LinkTarget> for Vec<u8> {
    fn from(target: LinkTarget) -> Self {
        target.0
    }
}

/// One component of a [`RelPath`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub(crate) struct Name(Vec<u8>);

impl Name {
    /// The last component of a path.
    pub(crate) fn of(path: &RelPath) -> Self {
        Self(path.name().as_bytes().to_vec())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl TryFrom<Vec<u8>> for Name {
    type Error = PathError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, PathError> {
        match bytes.contains(&b'/') {
            true => Err(PathError::Empty),
            false => check_component(&bytes).map(|()| Self(bytes)),
        }
    }
}

impl From<Name> for Vec<u8> {
    fn from(name: Name) -> Self {
        name.0
    }
}

/// The reason why bytes are not a [`RelPath`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A component is empty, as the first one of an absolute path; or the path is empty.
    #[error("the path is absolute or has an empty component")]
    Empty,
    /// A component is `.` or `..`.
    #[error("the path has a component `.` or `..`")]
    Dots,
    /// A component holds a NUL byte, which no Linux file name can.
    #[error("the path holds a NUL byte")]
    Nul,
    /// A component is longer than a Linux file name can be (NAME_MAX).
    #[error("the path has a component of {len} bytes; a name has at most {MAX_COMPONENT}")]
    LongName {
        /// The component's length in bytes.
        len: usize,
    },
    /// The path is longer than Linux takes in one call (PATH_MAX).
    #[error("the path has {len} bytes; at most {MAX_PATH} are taken")]
    TooLong {
        /// The path's length in bytes.
        len: usize,
    },
    /// The path has too many components.
    #[error("the path has more than {MAX_DEPTH} components")]
    TooDeep,
    /// A component is a name that the receiver reserves for unfinished files.
    #[error("the path has a component of the form `.NAME.rails-part`, which is kept for unfinished files")]
    Reserved,
}

fn check_component(component: &[u8]) -> Result<(), PathError> {
    match component {
        b"" => Err(PathError::Empty),
        b"." | b".." => Err(PathError::Dots),
        name if name.contains(&0) => Err(PathError::Nul),
        name if name.len() > MAX_COMPONENT => Err(PathError::LongName { len: name.len() }),
        name if name[0] == b'.' && (name.ends_with(PART_SUFFIX) || name.ends_with(LONG_PART_SUFFIX)) => {
            Err(PathError::Reserved)
        }
        _ => Ok(()),
    }
}

/// NAME_MAX of `linux/limits.h`.
const MAX_COMPONENT: usize = 255;
/// PATH_MAX of `linux/limits.h`.
pub(crate) const MAX_PATH: usize = 4096;
/// The longest target of a link that symlink(2) takes.
const MAX_LINK: usize = MAX_PATH - 1;
/// Deep enough for every real tree; the bound keeps a peer from having thousands of folders opened
/// for one path.
const MAX_DEPTH: usize = 256;
/// Keeps the temporary names of links apart from those of files.
const LINKS: &[u8; 32] = b"rails-transfer: names of links  ";
const PART_SUFFIX: &[u8] = b".rails-part";
const LONG_PART_SUFFIX: &[u8] = b".rails-part-long";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_that_could_escape_are_refused() {
        for (bytes, expected) in [
            (&b""[..], PathError::Empty),
            (b"/etc/passwd", PathError::Empty),
            (b"a//b", PathError::Empty),
            (b"a/", PathError::Empty),
            (b"..", PathError::Dots),
            (b"../x", PathError::Dots),
            (b"a/../../x", PathError::Dots),
            (b"a/./b", PathError::Dots),
            (b"a\0b", PathError::Nul),
            (b".x.rails-part", PathError::Reserved),
            (b"a/.x.rails-part/b", PathError::Reserved),
            (b".0.rails-part-long", PathError::Reserved),
        ] {
            assert_eq!(RelPath::parse(bytes), Err(expected), "{:?}", bytes.escape_ascii().to_string());
        }
    }

    #[test]
    fn lengths_are_bounded_exactly() {
        assert!(RelPath::parse(vec![b'a'; 255]).is_ok());
        assert_eq!(RelPath::parse(vec![b'a'; 256]), Err(PathError::LongName { len: 256 }));
        assert!(RelPath::parse(["a"; 256].join("/")).is_ok());
        assert_eq!(RelPath::parse(["a"; 257].join("/")), Err(PathError::TooDeep));
        let long = vec!["a".repeat(255); 16].join("/");
        assert_eq!(long.len(), 4095);
        assert!(RelPath::parse(long.clone()).is_ok());
        assert_eq!(RelPath::parse(long + "/b"), Err(PathError::TooLong { len: 4097 }));
    }

    #[test]
    fn a_path_comes_apart_into_top_parent_and_name() {
        let path = RelPath::parse("a/b/c").unwrap();
        assert_eq!((path.top(), path.parent(), path.name()), ("a".as_ref(), Some("a/b".as_ref()), "c".as_ref()));
        let path = RelPath::parse("c").unwrap();
        assert_eq!((path.top(), path.parent(), path.name()), ("c".as_ref(), None, "c".as_ref()));
    }

    #[test]
    fn printing_a_path_cannot_drive_a_terminal() {
        assert_eq!(RelPath::parse("a\x1b[2Jb\n\u{9b}").unwrap().to_string(), "a\\u{1b}[2Jb\\n\\u{9b}");
        assert_eq!(RelPath::parse("a\u{202e}gpj.\u{e9}").unwrap().to_string(), "a\\u{202e}gpj.\u{e9}");
    }

    proptest! {
        #[test]
        fn parsed_paths_have_normal_components_alone(bytes in "[a./\0\u{e9}]{0,12}") {
            if let Ok(path) = RelPath::parse(bytes) {
                prop_assert!(path.as_path().components().all(|c| matches!(c, std::path::Component::Normal(_))));
                prop_assert_eq!(RelPath::parse(path.as_bytes()), Ok(path.clone()));
            }
        }

        #[test]
        fn part_names_fit_are_reserved_and_differ(a in "[a-z.]{1,255}", b in "[a-z.]{1,255}") {
            let (Ok(a), Ok(b)) = (RelPath::parse(a), RelPath::parse(b)) else { return Ok(()) };
            prop_assert!(a.part_name().len() <= 255);
            prop_assert_eq!(RelPath::parse(a.part_name().as_bytes()), Err(PathError::Reserved));
            prop_assert_eq!(a == b, a.part_name() == b.part_name());
        }
    }
}
