//! What is told of a file or folder beside its name and its bytes.

use crate::codec;
use serde::{Deserialize, Serialize};

/// The properties of a file or folder, as a record that later releases extend: a receiver skips the
/// fields that it does not know.
///
/// On the wire it is a string of bytes: fields in ascending order of their tags, each a tag
/// (varint), a length (varint), and that many bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub(crate) struct Meta {
    /// Nine permission bits. Without them a file or folder stays as private as it was made.
    pub(crate) mode: Option<u32>,
}

impl Meta {
    /// A record of a mode, of which nine bits are kept.
    pub(crate) fn of_mode(mode: u32) -> Self {
        Self { mode: Some(mode & MODE_BITS) }
    }
}

impl From<Meta> for Vec<u8> {
    fn from(meta: Meta) -> Self {
        let mut bytes = Vec::new();
        if let Some(mode) = meta.mode {
            bytes = append(bytes, MODE, &mode);
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
            if tag == MODE {
                meta.mode = Some(codec::decode::<u32>(value)? & MODE_BITS);
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

/// Read, write and execute for owner, group and others; the set-id and sticky bits are not carried
/// to another machine, where the owner is another one.
pub(crate) const MODE_BITS: u32 = 0o777;

/// The tag of the mode, a `u32`.
const MODE: u32 = 0;

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
        assert_eq!(read(&[]), Ok(Meta { mode: None }));
    }

    #[test]
    fn unknown_fields_are_skipped_and_disorder_is_refused() {
        assert_eq!(read(&[0, 1, 7, 9, 3, 1, 2, 3]), Ok(Meta::of_mode(7)));
        assert_eq!(read(&[9, 0]), Ok(Meta::default()));
        for bad in [&[0, 1, 7, 0, 1, 7][..], &[9, 0, 0, 1, 7], &[0, 2, 7], &[0, 0], &[0, 2, 7, 7], &[0]] {
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
