//! Stored bytes of chunks, decoded within limits.
//!
//! [`decode`] leads from the bytes of a chunk to its elements. No step gives more bytes than the
//! largest encoding of the chunk's elements may have
//! ([`Codec::max_encoded_bytes`]), and the last one gives exactly the elements.
//! A step holds its input, at most twice its output, and for Blosc three blocks, each no longer
//! than the output: so a chunk takes at most seven times the size of its elements, and 512 KiB.
//! The size that a header states is never reserved beyond that of the elements.

#[cfg(feature = "zarr")]
mod bounded;
mod error;
mod shard;
mod step;

use crate::manifest::Codec;
pub use error::DecodeError;
pub use shard::ShardIndex;
use std::borrow::Cow;
use step::step;

/// Decodes the stored bytes of a chunk whose elements take `decoded_bytes`, back over the codecs
/// from bytes to bytes. The elements are as `Bytes` and `Transpose` have left them.
///
/// # Errors
/// [`DecodeError`] names the codec. Without the feature `zarr`, every codec from bytes to bytes is
/// an error that says so.
pub fn decode<'a>(codecs: &[Codec], stored: &'a [u8], decoded_bytes: u64) -> Result<Cow<'a, [u8]>, DecodeError> {
    let first = codecs.iter().position(|codec| matches!(codec, Codec::Bytes { .. })).map_or(0, |bytes| bytes + 1);
    let mut bytes = Cow::Borrowed(stored);
    for (number, codec) in codecs[first..].iter().enumerate().rev() {
        let max_bytes = if number == 0 { decoded_bytes } else { Codec::max_encoded_bytes(decoded_bytes) };
        bytes = Cow::Owned(step(codec, &bytes, max_bytes)?);
    }
    if bytes.len() as u64 == decoded_bytes {
        Ok(bytes)
    } else {
        Err(DecodeError::Length { found: bytes.len() as u64, expected: decoded_bytes })
    }
}
