//! From blocks to payloads and back.

use super::{
    decimal,
    shuffle::{shuffle, unshuffle},
};
use crate::wire::{Encoding, Encodings};
use rails_formats::data_type::DataType;

/// The encodings of this build.
pub const SUPPORTED: Encodings = {
    let encodings = Encodings::NONE.with(Encoding::Lz4);
    if cfg!(feature = "zstd") { encodings.with(Encoding::Zstd).with(Encoding::Decimal) } else { encodings }
};

/// Encodes and decodes blocks, and keeps its memory from one to the next: a shuffled block, and
/// what Zstandard needs for itself.
#[derive(Default)]
pub struct Coder {
    shuffled: Vec<u8>,
    /// The integers of a block of decimal fractions.
    integers: Vec<u8>,
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
pub fn encode(block: &[u8], dtype: DataType, encoding: Encoding, out: &mut Vec<u8>) -> Encoding {
    Coder::default().encode(block, dtype, encoding, out)
}

/// [`Coder::decode`] with a new coder.
///
/// # Errors
/// [`DecodeError`], as there.
pub fn decode(payload: &[u8], dtype: DataType, encoding: Encoding, block_bytes: usize) -> Result<Vec<u8>, DecodeError> {
    Coder::default().decode(payload, dtype, encoding, block_bytes)
}

impl Coder {
    /// Appends an encoded block of little-endian elements to a message, and tells how it is
    /// encoded: as it is, if it would not get shorter, and by Zstandard alone if its elements are
    /// no decimal fractions.
    ///
    /// ```
    /// use rails_formats::data_type::DataType;
    /// use rails_lambdaram::{encoding::{decode, encode}, wire::Encoding};
    ///
    /// let block: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
    /// let mut payload = Vec::new();
    /// assert_eq!(encode(&block, DataType::Uint32, Encoding::Lz4, &mut payload), Encoding::Lz4);
    /// assert!(payload.len() < block.len() / 2);
    /// assert_eq!(decode(&payload, DataType::Uint32, Encoding::Lz4, block.len())?, block);
    /// # Ok::<(), rails_lambdaram::encoding::DecodeError>(())
    /// ```
    ///
    /// # Panics
    /// If the encoding is not among those of this build, [`SUPPORTED`].
    pub fn encode(&mut self, block: &[u8], dtype: DataType, encoding: Encoding, out: &mut Vec<u8>) -> Encoding {
        let begin = out.len();
        let encoded = match encoding {
            Encoding::None => None,
            Encoding::Lz4 => {
                out.resize(begin + lz4_flex::block::get_maximum_output_size(block.len()), 0);
                self.shuffle(block, dtype);
                let compressed = lz4_flex::block::compress_into(&self.shuffled, &mut out[begin..]);
                Some(compressed.expect("there is room for the longest payload"))
            }
            Encoding::Zstd => {
                // One byte less than the block, as a longer payload is of no use.
                out.resize(begin + block.len().saturating_sub(1), 0);
                self.shuffle(block, dtype);
                self.compress_zstd(&mut out[begin..])
            }
            Encoding::Decimal => match self.encode_decimal(block, dtype, out) {
                Some(bytes) => Some(bytes),
                None => {
                    out.truncate(begin);
                    return self.encode(block, dtype, Encoding::Zstd, out);
                }
            },
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
        dtype: DataType,
        encoding: Encoding,
        block_bytes: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        let wrong_length = DecodeError::Length { encoding, payload_bytes: payload.len(), block_bytes };
        if encoding == Encoding::None {
            return if payload.len() == block_bytes { Ok(payload.to_vec()) } else { Err(wrong_length) };
        }
        let corrupt = |reason: &str| DecodeError::Corrupt { encoding, block_bytes, reason: reason.into() };
        let head_bytes = match encoding {
            Encoding::Decimal => decimal_head_bytes(payload, dtype, block_bytes).ok_or_else(|| corrupt(NO_HEAD))?,
            _ => 0,
        };
        let (head, compressed) = payload.split_at(head_bytes);
        self.shuffled.clear();
        self.shuffled.resize(block_bytes, 0);
        let decoded = match encoding {
            Encoding::Lz4 => {
                lz4_flex::block::decompress_into(compressed, &mut self.shuffled).map_err(|error| error.to_string())
            }
            _ => self.decompress_zstd(compressed, encoding)?,
        };
        match decoded {
            Ok(bytes) if bytes == block_bytes => {}
            Ok(_) => return Err(wrong_length),
            Err(reason) => return Err(corrupt(&reason)),
        }
        let mut block = vec![0; block_bytes];
        unshuffle(&self.shuffled, dtype.bytes() as usize, &mut block);
        let is_whole = encoding != Encoding::Decimal || join_decimal(head, dtype, &mut block);
        if is_whole { Ok(block) } else { Err(corrupt(NO_HEAD)) }
    }

    fn shuffle(&mut self, block: &[u8], dtype: DataType) {
        self.shuffled.resize(block.len(), 0);
        shuffle(block, dtype.bytes() as usize, &mut self.shuffled);
    }

    /// Appends a block as integers, and says how long it is; `None` if it cannot be, or is no
    /// shorter then.
    fn encode_decimal(&mut self, block: &[u8], dtype: DataType, out: &mut Vec<u8>) -> Option<usize> {
        let begin = out.len();
        let mut integers = std::mem::take(&mut self.integers);
        let is_split = match dtype {
            DataType::Float32 => decimal::split::<f32>(block, out, &mut integers),
            DataType::Float64 => decimal::split::<f64>(block, out, &mut integers),
            _ => false,
        };
        if is_split {
            self.shuffle(&integers, dtype);
        }
        self.integers = integers;
        let head_bytes = out.len() - begin;
        if !is_split || head_bytes + 1 >= block.len() {
            return None;
        }
        out.resize(begin + block.len() - 1, 0);
        Some(head_bytes + self.compress_zstd(&mut out[begin + head_bytes..])?)
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
    fn decompress_zstd(&mut self, payload: &[u8], _: Encoding) -> Result<Result<usize, String>, DecodeError> {
        let decompressor = self
            .decompressor
            .get_or_insert_with(|| zstd::bulk::Decompressor::new().expect("Zstandard needs no dictionary"));
        let decoded = decompressor.decompress_to_buffer(payload, &mut self.shuffled[..]);
        Ok(decoded.map_err(|error| error.to_string()))
    }

    #[cfg(not(feature = "zstd"))]
    fn decompress_zstd(&mut self, _: &[u8], encoding: Encoding) -> Result<Result<usize, String>, DecodeError> {
        Err(DecodeError::Unsupported { encoding })
    }
}

/// The length of what goes before the compressed integers of a block; `None` if the payload is none
/// of such a block.
fn decimal_head_bytes(payload: &[u8], dtype: DataType, block_bytes: usize) -> Option<usize> {
    match dtype {
        DataType::Float32 => decimal::head_bytes::<f32>(payload, block_bytes),
        DataType::Float64 => decimal::head_bytes::<f64>(payload, block_bytes),
        _ => None,
    }
}

/// Makes a block out of its integers; `false` if the head is none of the block.
fn join_decimal(head: &[u8], dtype: DataType, block: &mut [u8]) -> bool {
    match dtype {
        DataType::Float32 => decimal::join::<f32>(head, block),
        _ => decimal::join::<f64>(head, block),
    }
}

/// The reason of a payload whose first part is no head of the block's.
const NO_HEAD: &str = "the part before the integers is damaged";
/// The fastest level with entropy coding: a link that is slow enough for a higher one is rare.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 1;
