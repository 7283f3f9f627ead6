//! Single steps of decoding, each with a limit.
//!
//! The decoders of zarrs for gzip and Zstandard decode as many bytes as come, and reserve as many
//! as a frame states. So these two, and zlib, go straight to the libraries below zarrs, which take
//! a limit. The others do not grow, or state their length in a header that is compared first.

use super::error::DecodeError;
use crate::manifest::Codec;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use std::{borrow::Cow, io::Read};
use zarrs::array::{
    BytesRepresentation, CodecOptions,
    codec::{Crc32cCodec, ShuffleCodec, api::BytesToBytesCodecTraits, blosc_decompress_bytes, blosc_validate},
};

/// Decodes one step to at most one byte more than `max_bytes`.
pub(super) fn decode(codec: &Codec, bytes: &[u8], max_bytes: u64) -> Result<Vec<u8>, DecodeError> {
    let too_long = || DecodeError::TooLong { codec: codec.name(), max_bytes };
    let wrong = |reason: String| DecodeError::Codec { codec: codec.name(), reason };
    match codec {
        Codec::Gzip => read_to_limit(MultiGzDecoder::new(bytes), max_bytes).map_err(|error| wrong(error.to_string())),
        Codec::Zlib => read_to_limit(ZlibDecoder::new(bytes), max_bytes).map_err(|error| wrong(error.to_string())),
        Codec::Zstd => {
            // The bound of a frame that does not state its size is above that size.
            let bound = zstd::zstd_safe::decompress_bound(bytes)
                .map_err(|code| wrong(zstd::zstd_safe::get_error_name(code).into()))?;
            let capacity = usize::try_from(bound.min(max_bytes)).map_err(|_| too_long())?;
            zstd::bulk::decompress(bytes, capacity).map_err(|error| wrong(error.to_string()))
        }
        Codec::Blosc => {
            let stated = blosc_validate(bytes).ok_or_else(|| wrong("its header does not fit its bytes".into()))?;
            if stated as u64 > max_bytes {
                return Err(too_long());
            }
            if stated == 0 {
                return Ok(Vec::new());
            }
            blosc_decompress_bytes(bytes, stated, 1).map_err(|error| wrong(error.to_string()))
        }
        Codec::Crc32c => by_zarrs(&Crc32cCodec::new(), bytes, max_bytes).map_err(wrong),
        Codec::Shuffle { element_bytes } => {
            let size = usize::try_from(*element_bytes).map_err(|_| too_long())?;
            by_zarrs(&ShuffleCodec::new(size), bytes, max_bytes).map_err(wrong)
        }
        Codec::Bytes { .. } | Codec::Transpose { .. } => unreachable!("{codec} is no step from bytes to bytes"),
    }
}

fn read_to_limit(decoder: impl Read, max_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut decoded = Vec::new();
    decoder.take(max_bytes.saturating_add(1)).read_to_end(&mut decoded)?;
    Ok(decoded)
}

/// Decodes by a codec whose result is no longer than its input.
fn by_zarrs(codec: &impl BytesToBytesCodecTraits, bytes: &[u8], max_bytes: u64) -> Result<Vec<u8>, String> {
    let size = BytesRepresentation::BoundedSize(max_bytes);
    let decoded = codec.decode(Cow::Borrowed(bytes), &size, &CodecOptions::default());
    decoded.map(Cow::into_owned).map_err(|error| error.to_string())
}
