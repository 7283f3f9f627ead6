//! What is told of a file or folder beside its name and its bytes.

use crate::{
    codec,
    keep::{Acls, Xattrs},
};
use cap_std::fs::{Metadata, MetadataExt};
use serde::{Deserialize, Serialize};

/// The properties of a file or folder, as a record that later releases extend: a receiver skips the
/// fields that it does not know.
///
/// On the wire it is a string of bytes: fields in ascending order of their tags, each a tag
/// (varint), a length (varint), and that many bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub(crate) struct Meta {
    /// Nine permission bits, a folder's sticky bit, and the set-id bits beside the owner that they
    /// belong to. Without them a file or folder stays as private as it was made.
    pub(crate) mode: Option<u32>,
    /// The time of the last change of the bytes, or of a folder's names. Without it a file or
    /// folder has the time of its arrival.
    pub(crate) modified: Option<Modified>,
    /// The properties that a sender keeps on demand; boxed, as a sender's list has many records
    /// without them.
    pub(crate) extras: Option<Box<Extras>>,
    /// Whether other names of the file follow in the batch, which the receiver links to it.
    pub(crate) has_twins: bool,
}

/// The properties that a sender keeps on demand. The receiver leaves absent ones as
/// they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) xattrs: Option<Xattrs>,
    pub(crate) acls: Option<Acls>,
}

/// Seconds since 1970, negative before, and nanoseconds behind those: `st_mtim` of stat(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Modified {
    pub(crate) seconds: i64,
    /// Below 1 000 000 000.
    pub(crate) nanos: u32,
}

impl Meta {
    /// The record of a file or folder.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let kept = if metadata.is_dir() { FOLDER_BITS } else { MODE_BITS };
        Self { mode: Some(metadata.mode() & kept), modified: Some(Modified::of(metadata)), ..Self::default() }
    }

    /// The bits of the mode that such a file has: those of permission, and the set-id bit of each
    /// owner that is kept.
    pub(crate) fn kept_bits(&self) -> u32 {
        MODE_BITS | self.extras.as_ref().map_or(0, |extras| extras.set_id_bits())
    }

    /// Whether a file with those properties has another mode or owner than this record.
    pub(crate) fn differs_from(&self, there: &Metadata) -> bool {
        let kept = self.kept_bits();
        let has_mode = self.mode.is_none_or(|mode| mode & kept == there.mode() & kept);
        !has_mode || self.extras.as_ref().is_some_and(|extras| !extras.has_owners(there))
    }

    /// Whether the record has the mode and the time of an entry with those properties.
    pub(crate) fn is_of(&self, there: &Metadata) -> bool {
        let now = Self::of(there);
        let mode = self.mode.map(|mode| mode & FOLDER_BITS);
        (mode, self.modified) == (now.mode, now.modified)
    }

    /// Whether the record names attributes or access lists.
    pub(crate) fn has_attributes(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.xattrs.is_some() || extras.acls.is_some())
    }

    /// A record of a mode alone, of which nine bits are kept.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of_mode(mode: u32) -> Self {
        Self { mode: Some(mode & MODE_BITS), ..Self::default() }
    }
}

impl Extras {
    /// Whether an entry with those properties has these owners.
    pub(crate) fn has_owners(&self, there: &Metadata) -> bool {
        self.user.is_none_or(|user| user == there.uid()) && self.group.is_none_or(|group| group == there.gid())
    }

    fn set_id_bits(&self) -> u32 {
        self.user.map_or(0, |_| SET_USER_ID) | self.group.map_or(0, |_| SET_GROUP_ID)
    }
}

impl Modified {
    /// The time of a file or folder.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { seconds: metadata.mtime(), nanos: u32::try_from(metadata.mtime_nsec()).unwrap_or_default() }
    }
}

impl From<Meta> for Vec<u8> {
    fn from(meta: Meta) -> Self {
        let mut bytes = Vec::new();
        if let Some(mode) = meta.mode {
            bytes = append(bytes, MODE, &mode);
        }
        if let Some(modified) = meta.modified {
            bytes = append(bytes, MODIFIED, &modified);
        }
        let extras = meta.extras.map(|extras| *extras).unwrap_or_default();
        if let Some(user) = extras.user {
            bytes = append(bytes, USER, &user);
        }
        if let Some(group) = extras.group {
            bytes = append(bytes, GROUP, &group);
        }
        if let Some(xattrs) = extras.xattrs {
            bytes = codec::encode(&(XATTRS, xattrs.as_bytes()), bytes);
        }
        if let Some(acls) = extras.acls {
            bytes = append(bytes, ACLS, &acls);
        }
        if meta.has_twins {
            bytes = append(bytes, TWINS, &());
        }
        bytes
    }
}

impl TryFrom<Vec<u8>> for Meta {
    type Error = postcard::Error;

    fn try_from(bytes: Vec<u8>) -> Result<Self, postcard::Error> {
        let (mut meta, mut last, mut rest) = (Self::default(), None, &bytes[..]);
        let mut extras = Extras::default();
        while !rest.is_empty() {
            let ((tag, value), behind): ((u32, &[u8]), _) = postcard::take_from_bytes(rest)?;
            if last.is_some_and(|last| last >= tag) {
                return Err(postcard::Error::DeserializeBadEncoding);
            }
            match tag {
                MODE => meta.mode = Some(codec::decode(value)?),
                MODIFIED => {
                    let modified: Modified = codec::decode(value)?;
                    if modified.nanos >= NANOS_PER_SECOND {
                        return Err(postcard::Error::DeserializeBadEncoding);
                    }
                    meta.modified = Some(modified);
                }
                USER => extras.user = Some(owner(value)?),
                GROUP => extras.group = Some(owner(value)?),
                XATTRS => extras.xattrs = Some(Xattrs::parse(value)?),
                ACLS => extras.acls = Some(codec::decode(value)?),
                TWINS => meta.has_twins = codec::decode::<()>(value).map(|()| true)?,
                _ => {}
            }
            (last, rest) = (Some(tag), behind);
        }
        // A set-id bit means nothing without the owner whose rights it gives.
        meta.mode = meta.mode.map(|mode| mode & (FOLDER_BITS | extras.set_id_bits()));
        meta.extras = (extras != Extras::default()).then(|| Box::new(extras));
        Ok(meta)
    }
}

fn append(onto: Vec<u8>, tag: u32, value: &impl Serialize) -> Vec<u8> {
    let value = codec::encode(value, Vec::new());
    codec::encode(&(tag, value), onto)
}

/// Decodes the number of a user or group. The largest number stands for none (chown(2)).
fn owner(value: &[u8]) -> Result<u32, postcard::Error> {
    match codec::decode(value)? {
        u32::MAX => Err(postcard::Error::DeserializeBadEncoding),
        owner => Ok(owner),
    }
}

/// Read, write and execute for owner, group and others.
pub(crate) const MODE_BITS: u32 = 0o777;

/// A folder's bits: in a sticky one only the owner of a name removes it (`/tmp`). To files the bit
/// means nothing.
pub(crate) const FOLDER_BITS: u32 = MODE_BITS | 0o1000;

/// A program with these bits runs with the rights of its owner, or group. They are carried to
/// another machine with that owner alone.
pub(crate) const SET_USER_ID: u32 = 0o4000;
pub(crate) const SET_GROUP_ID: u32 = 0o2000;

/// The tag of the mode, a `u32`.
const MODE: u32 = 0;
/// The tag of the time of the last change: an `i64`, and a `u32` below a thousand million.
const MODIFIED: u32 = 1;
/// The tags of the numbers of user and group, each a `u32` that is not the largest.
const USER: u32 = 2;
const GROUP: u32 = 3;
/// The tag of the extended attributes: for each a name and a value, both strings of bytes.
const XATTRS: u32 = 4;
/// The tag of the access lists: two options of strings of bytes.
const ACLS: u32 = 5;
/// The tag of a file of which other names follow: nothing.
const TWINS: u32 = 6;
const NANOS_PER_SECOND: u32 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Meta, postcard::Error> {
        Meta::try_from(bytes.to_vec())
    }

    #[test]
    fn a_record_has_the_bytes_that_the_document_shows() {
        assert_eq!(Vec::from(Meta::of_mode(0o100_644)), [0, 2, 0xa4, 0x03]);
        assert_eq!(read(&[0, 2, 0xa4, 0x03]), Ok(Meta::of_mode(0o644)));
        assert_eq!(read(&[]), Ok(Meta::default()));
        let modified = Some(Modified { seconds: -1, nanos: 5 });
        assert_eq!(read(&[1, 2, 1, 5]), Ok(Meta { modified, ..Meta::default() }));
        assert_eq!(Vec::from(Meta { modified, ..Meta::default() }), [1, 2, 1, 5]);
    }

    #[test]
    fn unknown_fields_are_skipped_and_disorder_is_refused() {
        assert_eq!(read(&[0, 1, 7, 9, 3, 1, 2, 3]), Ok(Meta::of_mode(7)));
        assert_eq!(read(&[9, 0]), Ok(Meta::default()));
        for bad in [&[0, 1, 7, 0, 1, 7][..], &[9, 0, 0, 1, 7], &[0, 2, 7], &[0, 0], &[0, 2, 7, 7], &[0]]
            .into_iter()
            // A thousand million nanoseconds are a second.
            .chain([&[1, 6, 1, 0x80, 0x94, 0xeb, 0xdc, 0x03][..]])
        {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn set_id_bits_need_their_owner() {
        let mode = |bytes: &[u8]| read(bytes).unwrap().mode;
        // 07755, alone, with a user, with a group, and with both.
        let [user, group] = [[2, 1, 0], [3, 1, 0]];
        let program = [0, 2, 0xed, 0x1f];
        assert_eq!(mode(&program), Some(0o1755));
        assert_eq!(mode(&[&program[..], &user].concat()), Some(0o5755));
        assert_eq!(mode(&[&program[..], &group].concat()), Some(0o3755));
        assert_eq!(mode(&[&program[..], &user, &group].concat()), Some(0o7755));
        // The number that stands for no user.
        assert!(read(&[2, 5, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    }

    #[test]
    fn a_record_of_all_properties() {
        let name = b"user.a";
        let xattrs = [&[6][..], name, &[1, b'1']].concat();
        let acls = [1, 2, 9, 9, 0];
        let bytes = [&[2, 2, 0xe8, 0x07, 3, 1, 5, 4, 9][..], &xattrs, &[5, 5], &acls, &[6, 0]].concat();
        let meta = read(&bytes).unwrap();
        let extras = meta.extras.as_deref().unwrap();
        assert_eq!((extras.user, extras.group, meta.has_twins), (Some(1000), Some(5), true));
        assert_eq!(extras.xattrs.as_ref().and_then(|xattrs| xattrs.get(name)), Some(&b"1"[..]));
        assert_eq!(extras.acls.as_ref().and_then(|acls| acls.access.as_deref()), Some(&[9, 9][..]));
        assert_eq!(Vec::from(meta), bytes);
        assert!(read(&[6, 1, 0]).is_err());
    }

    /// Fields that are well-formed, as far as their tags are known.
    fn fields() -> impl Strategy<Value = Vec<u8>> {
        let field = (0..9_u32).prop_flat_map(|tag| {
            let value = prop_oneof![
                Just(vec![0]),
                Just(vec![5]),
                Just(vec![1, 5]),
                Just(vec![0xed, 0x1f]),
                Just([&[6][..], b"user.a", &[1, b'1']].concat()),
                Just(vec![]),
                proptest::collection::vec(any::<u8>(), 0..9),
            ];
            (Just(tag), value)
        });
        proptest::collection::vec(field, 0..6).prop_map(|mut fields| {
            fields.sort();
            fields.dedup_by_key(|(tag, _)| *tag);
            fields.iter().fold(Vec::new(), |onto, field| codec::encode(field, onto))
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(
            bytes in prop_oneof![fields(), proptest::collection::vec(any::<u8>(), 0..40)]
        ) {
            if let Ok(meta) = read(&bytes) {
                prop_assert_eq!(read(&Vec::from(meta.clone())), Ok(meta));
            }
        }
    }
}
