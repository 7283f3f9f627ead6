//! One step of decoding, in programs with codecs and without.

#[cfg(feature = "zarr")]
use super::bounded;
use super::error::DecodeError;
use crate::manifest::Codec;

/// Decodes one step from bytes to bytes to at most `max_bytes`.
#[cfg(feature = "zarr")]
pub(super) fn step(codec: &Codec, bytes: &[u8], max_bytes: u64) -> Result<Vec<u8>, DecodeError> {
    let decoded = bounded::decode(codec, bytes, max_bytes)?;
    if decoded.len() as u64 <= max_bytes {
        Ok(decoded)
    } else {
        Err(DecodeError::TooLong { codec: codec.name(), max_bytes })
    }
}

/// Refuses to decode: the program was built without codecs.
#[cfg(not(feature = "zarr"))]
pub(super) fn step(codec: &Codec, _: &[u8], _: u64) -> Result<Vec<u8>, DecodeError> {
    Err(DecodeError::Feature { codec: codec.name() })
}
