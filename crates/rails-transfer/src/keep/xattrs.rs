//! Extended attributes and access lists.

use crate::{codec, path::Printable};
use nix::unistd::geteuid;
use rustix::{
    fs::{fgetxattr, fgetxattr_query, flistxattr, flistxattr_query},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{ffi::OsStr, fmt, fs::File, os::unix::ffi::OsStrExt, path::Path};

/// The extended attributes of a file or folder, but for its access lists: names, each in ascending
/// order with its value.
///
/// They stay encoded: a peer decides how many there are, and a list of them would take many times
/// the memory of their bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Xattrs(Vec<u8>);

/// The POSIX access lists of a file or folder, as the kernel's attributes have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Acls {
    pub(crate) access: Option<Vec<u8>>,
    /// A folder's, which its new entries get.
    pub(crate) default: Option<Vec<u8>>,
}

/// An attribute that is not kept, and why.
#[derive(Debug)]
pub(crate) struct Lost(String);

impl Lost {
    fn new(name: &[u8], cause: impl fmt::Display) -> Self {
        Self(format!("its attribute {} is not kept: {cause}", shown(name)))
    }

    /// None of the attributes could be read.
    pub(crate) fn all(error: impl fmt::Display) -> Self {
        Self(format!("its attributes are not kept: cannot read them: {error}"))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Xattrs {
    /// Takes the bytes of a record.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (mut rest, mut last) = (bytes, None);
        while !rest.is_empty() {
            let ((name, _), behind): ((&[u8], &[u8]), _) = postcard::take_from_bytes(rest)?;
            if !is_name(name) || last.is_some_and(|last| last >= name) {
                return Err(postcard::Error::DeserializeBadEncoding);
            }
            (last, rest) = (Some(name), behind);
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The bytes of a record.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (pair, behind) = postcard::take_from_bytes(rest).ok()?;
            rest = behind;
            Some(pair)
        })
    }

    /// The value of that name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Removes the attributes that only a privileged process may set; gives whether there were any.
    pub(crate) fn drop_privileged(&mut self) -> bool {
        let kept =
            self.iter().filter(|(name, _)| is_user(name)).fold(Vec::new(), |kept, pair| codec::encode(&pair, kept));
        std::mem::replace(&mut self.0, kept).len() != self.0.len()
    }

    /// Reads those of a file or folder that fit in `room` bytes.
    pub(super) fn read(file: &File, room: &mut usize, lost: &mut Vec<Lost>) -> Self {
        let mut names = match names(file) {
            Ok(names) => names,
            Err(error) => {
                lost.push(Lost::all(error));
                Vec::new()
            }
        };
        // Only a privileged process may set the others elsewhere.
        let is_root = geteuid().is_root();
        names.retain(|name| is_name(name) && (is_root || is_user(name)) && !OF_THE_HOST.contains(&&name[..]));
        names.sort_unstable();
        let mut kept = Vec::new();
        for name in names {
            if let Some(value) = read_fitting(file, &name, room, lost) {
                kept = codec::encode(&(&name[..], &value[..]), kept);
            }
        }
        Self(kept)
    }

    /// Whether a file or folder has others.
    pub(crate) fn differ(&self, file: &File) -> bool {
        !self.extraneous(file).is_ok_and(|names| names.is_empty())
            || self.iter().any(|(name, value)| !has_value(file, name, value))
    }

    /// The names of a file or folder that are not among these; of such alone as any process may
    /// remove.
    pub(super) fn extraneous(&self, file: &File) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = names(file)?;
        names.retain(|name| is_user(name) && self.get(name).is_none());
        Ok(names)
    }
}

impl fmt::Debug for Xattrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, value)| (shown(name).to_string(), value.len()))).finish()
    }
}

impl Acls {
    /// Reads those of a file or folder that fit in `room` bytes.
    pub(super) fn read(file: &File, room: &mut usize, lost: &mut Vec<Lost>) -> Self {
        let mut read = |name| read_fitting(file, name, room, lost);
        Self { access: read(ACCESS), default: read(DEFAULT) }
    }

    /// Each list with the name of its attribute.
    pub(super) fn lists(&self) -> [(&'static [u8], Option<&[u8]>); 2] {
        [(ACCESS, self.access.as_deref()), (DEFAULT, self.default.as_deref())]
    }

    /// Whether a file or folder has others.
    pub(crate) fn differ(&self, file: &File) -> bool {
        self.lists().into_iter().any(|(name, list)| !has_list(file, name, list))
    }
}

/// Whether the attribute has that value.
pub(super) fn has_value(file: &File, name: &[u8], value: &[u8]) -> bool {
    // One byte more, so that a longer value differs.
    let mut there = vec![0; value.len() + 1];
    fgetxattr(file, name, &mut there[..]).is_ok_and(|len| there[..len] == *value)
}

/// Whether a file or folder has that access list, or none.
pub(super) fn has_list(file: &File, name: &[u8], list: Option<&[u8]>) -> bool {
    match list {
        Some(list) => has_value(file, name, list),
        None => fgetxattr_query(file, name).is_err(),
    }
}

/// Whether any process that may write the file may set the attribute.
pub(super) fn is_user(name: &[u8]) -> bool {
    name.starts_with(USER)
}

/// A name for people.
pub(super) fn shown(name: &[u8]) -> Printable<'_> {
    Printable(Path::new(OsStr::from_bytes(name)))
}

/// Whether a name is one that a record may have.
fn is_name(name: &[u8]) -> bool {
    let spaces = [USER, b"security.", b"trusted."];
    let has_space = spaces.iter().any(|space| name.starts_with(space) && name.len() > space.len());
    has_space && name.len() <= MAX_NAME && !name.contains(&0)
}

/// Reads an attribute that takes at most `room` bytes of a record.
fn read_fitting(file: &File, name: &[u8], room: &mut usize, lost: &mut Vec<Lost>) -> Option<Vec<u8>> {
    let mut value = vec![0; MAX_ATTRIBUTES];
    match fgetxattr(file, name, &mut value[..]) {
        Ok(len) => value.truncate(len),
        // There is none, or the file system has none at all.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return None,
        Err(Errno::RANGE | Errno::TOOBIG) => value.push(0),
        Err(error) => {
            lost.push(Lost::new(name, format_args!("cannot read it: {error}")));
            return None;
        }
    }
    let takes = name.len() + value.len() + MAX_LENGTHS;
    let Some(left) = room.checked_sub(takes) else {
        let most = MAX_ATTRIBUTES;
        lost.push(Lost::new(name, format_args!("a file's attributes have at most {most} bytes, names included")));
        return None;
    };
    *room = left;
    Some(value)
}

/// The names of all attributes of a file or folder; none where the file system has no attributes.
fn names(file: &File) -> Result<Vec<Vec<u8>>, Errno> {
    loop {
        let mut names = match flistxattr_query(file) {
            Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            len => vec![0; len?],
        };
        match flistxattr(file, &mut names[..]) {
            // One was added in between.
            Err(Errno::RANGE) => {}
            len => {
                names.truncate(len?);
                let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
                return Ok(names.map(<[u8]>::to_vec).collect());
            }
        }
    }
}

/// The bytes of a file's attributes and access lists, with their names: beside a path and a link's
/// target they fit a message.
pub(crate) const MAX_ATTRIBUTES: usize = 8000;
/// The lengths of a name and a value, as a record has them.
const MAX_LENGTHS: usize = 6;
/// XATTR_NAME_MAX of `linux/limits.h`.
const MAX_NAME: usize = 255;
const USER: &[u8] = b"user.";
/// The labels and seals of a host's own policy and keys.
const OF_THE_HOST: [&[u8]; 2] = [b"security.selinux", b"security.evm"];
const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(pairs: &[(&str, &str)]) -> Vec<u8> {
        pairs.iter().fold(Vec::new(), |onto, (name, value)| codec::encode(&(name.as_bytes(), value.as_bytes()), onto))
    }

    #[test]
    fn names_of_other_spaces_are_refused() {
        let good = record(&[("security.capability", "1"), ("trusted.a", ""), ("user.a", "22")]);
        let xattrs = Xattrs::parse(&good).unwrap();
        assert_eq!((xattrs.get(b"user.a"), xattrs.get(b"user.b")), (Some(&b"22"[..]), None));
        let long = format!("user.{}", "a".repeat(251));
        for bad in ["system.posix_acl_access", "user.", "user", "", "user.a\0b", "os2.a", &long] {
            assert!(Xattrs::parse(&record(&[(bad, "1")])).is_err(), "{bad:?}");
        }
        for disorder in [[("user.b", ""), ("user.a", "")], [("user.a", ""), ("user.a", "")]] {
            assert!(Xattrs::parse(&record(&disorder)).is_err());
        }
        assert!(Xattrs::parse(&good[..good.len() - 1]).is_err());
    }

    #[test]
    fn privileged_attributes_are_dropped() {
        let mut xattrs = Xattrs::parse(&record(&[("trusted.a", "1"), ("user.a", "2")])).unwrap();
        assert!(xattrs.drop_privileged());
        assert_eq!(xattrs.as_bytes(), record(&[("user.a", "2")]));
        assert!(!xattrs.drop_privileged());
    }

    proptest! {
        #[test]
        fn any_bytes_are_attributes_or_an_error(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..60),
                "(\u{6}user[.][a-c][\u{0}-\u{2}][a-c]{0,2}){0,3}".prop_map(String::into_bytes),
            ]
        ) {
            if let Ok(xattrs) = Xattrs::parse(&bytes) {
                let again = xattrs.iter().fold(Vec::new(), |onto, pair| codec::encode(&pair, onto));
                prop_assert_eq!(Xattrs::parse(&again).map(|again| again.iter().count()), Ok(xattrs.iter().count()));
            }
        }
    }
}
