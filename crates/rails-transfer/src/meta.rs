//! What is told of a file or folder beside its name and its bytes.

use crate::codec;
use cap_std::fs::{Metadata, MetadataExt};
use serde::{Deserialize, Serialize};

/// The properties of a file or folder, as a record that later releases extend: a receiver skips the
/// fields that it does not know.
///
/// On the wire it is a string of bytes: fields in ascending order of their tags, each a tag
/// (varint), a length (varint), and that many bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub(crate) struct Meta {
    /// Nine permission bits, and a folder's sticky bit. Without them a file or folder stays as
    /// private as it was made.
    pub(crate) mode: Option<u32>,
    /// The time of the last change of the bytes, or of a folder's names. Without it a file or
    /// folder has the time of its arrival.
    pub(crate) modified: Option<Modified>,
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
        Self { mode: Some(metadata.mode() & kept), modified: Some(Modified::of(metadata)) }
    }

    /// A record of a mode alone, of which nine bits are kept.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of_mode(mode: u32) -> Self {
        Self { mode: Some(mode & MODE_BITS), modified: None }
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
        bytes
    }
}

impl TryFrom<Vec<u8>> for Meta {
    type Error = postcard::Error;

    fn try_from(bytes: Vec<u8>) -> Result<Self, postcard::Error> {
        let (mut meta, mut last, mut rest) = (Self::default(), None, &bytes[..]);
        while !rest.is_empty() {
            let ((tag, value), behind): ((u32, &[u8]), _) = postcard::take_from_bytes(rest)?;
            if last.is_some_and(|last| last >= tag) {
                return Err(postcard::Error::DeserializeBadEncoding);
            }
            match tag {
                MODE => meta.mode = Some(codec::decode::<u32>(value)? & FOLDER_BITS),
                MODIFIED => {
                    let modified: Modified = codec::decode(value)?;
                    if modified.nanos >= NANOS_PER_SECOND {
                        return Err(postcard::Error::DeserializeBadEncoding);
                    }
                    meta.modified = Some(modified);
                }
                _ => {}
            }
            (last, rest) = (Some(tag), behind);
        }
        Ok(meta)
    }
}

fn append(onto: Vec<u8>, tag: u32, value: &impl Serialize) -> Vec<u8> {
    let value = codec::encode(value, Vec::new());
    codec::encode(&(tag, value), onto)
}

/// Read, write and execute for owner, group and others; the set-id bits are not carried to another
/// machine, where the owner is another one.
pub(crate) const MODE_BITS: u32 = 0o777;

/// A folder's bits: in a sticky one only the owner of a name removes it (`/tmp`). To files the bit
/// means nothing.
pub(crate) const FOLDER_BITS: u32 = MODE_BITS | 0o1000;

/// The tag of the mode, a `u32`.
const MODE: u32 = 0;
/// The tag of the time of the last change: an `i64`, and a `u32` below a thousand million.
const MODIFIED: u32 = 1;
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
        assert_eq!(read(&[1, 2, 1, 5]), Ok(Meta { mode: None, modified }));
        assert_eq!(Vec::from(Meta { mode: None, modified }), [1, 2, 1, 5]);
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

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(meta) = read(&bytes) {
                prop_assert_eq!(read(&Vec::from(meta)), Ok(meta));
            }
        }
    }
}
