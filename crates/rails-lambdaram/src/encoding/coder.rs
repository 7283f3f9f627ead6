//! From blocks to payloads and back.

use super::shuffle::{shuffle, unshuffle};
use crate::wire::{Encoding, Encodings};

/// The encodings of this build.
pub const SUPPORTED: Encodings = {
    let encodings = Encodings::NONE.with(Encoding::Lz4);
    if cfg!(feature = "zstd") { encodings.with(Encoding::Zstd) } else { encodings }
};

/// Encodes and decodes blocks, and keeps its memory from one to the next: a shuffled block, and
/// what Zstandard needs for itself.
#[derive(Default)]
pub struct Coder {
    shuffled: Vec<u8>,
    #[cfg(feature = "zstd")]
    compressor: Option<zstd::bulk::Compressor<'static>>,
    #[cfg(feature = "zstd")]
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
}

/// A payload that is no block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// This build does not decode the encoding.
    #[error("this build does not decode {encoding}")]
    Unsupported {
        /// The encoding.
        encoding: Encoding,
    },
    /// The payload decodes to another number of bytes, or would to more of them.
    #[error("a payload of {payload_bytes} bytes, encoded as {encoding}, is no block of {block_bytes}")]
    Length {
        /// The encoding.
        encoding: Encoding,
        /// The size of the payload.
        payload_bytes: usize,
        /// The size that the block has to have.
        block_bytes: usize,
    },
    /// The payload is damaged, or decodes to more bytes than the block has.
    #[error("the {encoding} payload of a block of {block_bytes} bytes cannot be decoded: {reason}")]
    Corrupt {
        /// The encoding.
        encoding: Encoding,
        /// The size that the block has to have.
        block_bytes: usize,
        /// The decoder's words.
        reason: String,
    },
}

/// [`Coder::encode`] with a new coder.
///
/// # Panics
/// If the encoding is not among those of this build.
pub fn encode(block: &[u8], element_bytes: usize, encoding: Encoding, out: &mut Vec<u8>) -> Encoding {
    Coder::default().encode(block, element_bytes, encoding, out)
}

/// [`Coder::decode`] with a new coder.
///
/// # Errors
/// [`DecodeError`], as there.
pub fn decode(
    payload: &[u8],
    element_bytes: usize,
    encoding: Encoding,
    block_bytes: usize,
) -> Result<Vec<u8>, DecodeError> {
    Coder::default().decode(payload, element_bytes, encoding, block_bytes)
}

impl Coder {
    /// Appends an encoded block to a message, and tells how it is encoded: as it is, if it would
    /// not get shorter. `element_bytes` is the size of an element; 0 and 1 shuffle nothing.
    ///
    /// ```
    /// use rails_lambdaram::{encoding::{decode, encode}, wire::Encoding};
    ///
    /// let block: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
    /// let mut payload = Vec::new();
    /// assert_eq!(encode(&block, 4, Encoding::Lz4, &mut payload), Encoding::Lz4);
    /// assert!(payload.len() < block.len() / 2);
    /// assert_eq!(decode(&payload, 4, Encoding::Lz4, block.len())?, block);
    /// # Ok::<(), rails_lambdaram::encoding::DecodeError>(())
    /// ```
    ///
    /// # Panics
    /// If the encoding is not among those of this build, [`SUPPORTED`].
    pub fn encode(&mut self, block: &[u8], element_bytes: usize, encoding: Encoding, out: &mut Vec<u8>) -> Encoding {
        let begin = out.len();
        let encoded = match encoding {
            Encoding::None => None,
            Encoding::Lz4 => {
                out.resize(begin + lz4_flex::block::get_maximum_output_size(block.len()), 0);
                self.shuffle(block, element_bytes);
                let compressed = lz4_flex::block::compress_into(&self.shuffled, &mut out[begin..]);
                Some(compressed.expect("there is room for the longest payload"))
            }
            Encoding::Zstd => {
                // One byte less than the block, as a longer payload is of no use.
                out.resize(begin + block.len().saturating_sub(1), 0);
                self.shuffle(block, element_bytes);
                self.compress_zstd(&mut out[begin..])
            }
        };
        match encoded {
            Some(bytes) if bytes < block.len() => {
                out.truncate(begin + bytes);
                encoding
            }
            _ => {
                out.truncate(begin);
                out.extend_from_slice(block);
                Encoding::None
            }
        }
    }

    /// The block of a payload, which has exactly `block_bytes` bytes: the caller has compared these
    /// with the largest block that it takes. Decoding takes memory for two blocks, and no payload
    /// makes it take more.
    ///
    /// # Errors
    /// [`DecodeError::Unsupported`] for an encoding that is not among those of this build,
    /// [`DecodeError::Length`] and [`DecodeError::Corrupt`] for a payload that is no such block.
    pub fn decode(
        &mut self,
        payload: &[u8],
        element_bytes: usize,
        encoding: Encoding,
        block_bytes: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        let wrong_length = DecodeError::Length { encoding, payload_bytes: payload.len(), block_bytes };
        if encoding == Encoding::None {
            return if payload.len() == block_bytes { Ok(payload.to_vec()) } else { Err(wrong_length) };
        }
        self.shuffled.clear();
        self.shuffled.resize(block_bytes, 0);
        let decoded = match encoding {
            Encoding::Lz4 => {
                lz4_flex::block::decompress_into(payload, &mut self.shuffled).map_err(|error| error.to_string())
            }
            _ => self.decompress_zstd(payload)?,
        };
        match decoded {
            Ok(bytes) if bytes == block_bytes => {
                let mut block = vec![0; block_bytes];
                unshuffle(&self.shuffled, element_bytes, &mut block);
                Ok(block)
            }
            Ok(_) => Err(wrong_length),
            Err(reason) => Err(DecodeError::Corrupt { encoding, block_bytes, reason }),
        }
    }

    fn shuffle(&mut self, block: &[u8], element_bytes: usize) {
        self.shuffled.resize(block.len(), 0);
        shuffle(block, element_bytes, &mut self.shuffled);
    }

    /// Compresses the shuffled block; `None` if the result does not fit.
    #[cfg(feature = "zstd")]
    fn compress_zstd(&mut self, out: &mut [u8]) -> Option<usize> {
        let compressor = self
            .compressor
            .get_or_insert_with(|| zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("Zstandard has the level"));
        compressor.compress_to_buffer(&self.shuffled, out).ok()
    }

    #[cfg(not(feature = "zstd"))]
    fn compress_zstd(&mut self, _out: &mut [u8]) -> Option<usize> {
        panic!("a block is to be encoded as zstd, which is not among the encodings of this build")
    }

    /// Decompresses into the shuffled block, which is as long as it may get.
    #[cfg(feature = "zstd")]
    fn decompress_zstd(&mut self, payload: &[u8]) -> Result<Result<usize, String>, DecodeError> {
        let decompressor = self
            .decompressor
            .get_or_insert_with(|| zstd::bulk::Decompressor::new().expect("Zstandard needs no dictionary"));
        let decoded = decompressor.decompress_to_buffer(payload, &mut self.shuffled[..]);
        Ok(decoded.map_err(|error| error.to_string()))
    }

    #[cfg(not(feature = "zstd"))]
    fn decompress_zstd(&mut self, _payload: &[u8]) -> Result<Result<usize, String>, DecodeError> {
        Err(DecodeError::Unsupported { encoding: Encoding::Zstd })
    }
}

/// The fastest level with entropy coding: a link that is slow enough for a higher one is rare.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 1;
