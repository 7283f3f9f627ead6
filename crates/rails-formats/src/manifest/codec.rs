//! Codecs: the steps from a chunk's elements to its stored bytes.

use super::problem::ManifestProblem;
use crate::data_type::Endianness;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A step from a chunk's elements to its stored bytes.
///
/// A chunk's codecs are any number of [`Transpose`](Self::Transpose), one [`Bytes`](Self::Bytes),
/// and any number of the others, in the order of encoding.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Codec {
    /// The elements in C order, each as its bytes.
    Bytes {
        /// The order of an element's bytes.
        endianness: Endianness,
    },
    /// The axes in another order.
    Transpose {
        /// Axis `i` of the result is axis `order[i]` of the chunk.
        order: Vec<usize>,
    },
    /// The bytes of all elements by their place within an element.
    Shuffle {
        /// The size of an element in bytes; at least 1.
        element_bytes: u64,
    },
    /// A gzip file (RFC 1952).
    Gzip,
    /// A zlib stream (RFC 1950).
    Zlib,
    /// Frames of Zstandard (RFC 8878).
    Zstd,
    /// A buffer of Blosc's first version, which names its compressor and its shuffle.
    Blosc,
    /// The bytes, and their CRC-32C behind them, little-endian.
    Crc32c,
}

/// The codecs of a chunk, as a reader takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steps<'a> {
    /// Axis `i` of the stored elements is axis `order[i]` of the chunk; `None` for the same order.
    pub(crate) order: Option<Vec<usize>>,
    /// The order of the bytes of an element.
    pub(crate) endianness: Endianness,
    /// The steps from bytes to bytes, in the order of encoding.
    pub(crate) from_bytes: &'a [Codec],
}

impl Codec {
    /// The largest number of codecs of a chunk.
    pub const MAX_COUNT: usize = 8;

    /// The largest size of the elements of a chunk that is read whole, which is Blosc's.
    pub const MAX_DECODED_BYTES: u64 = 0x7fff_ffff;

    /// The largest stored size of a chunk with so many bytes of elements: an eighth and 4 KiB more
    /// than them, which is more than any compressor adds to random bytes.
    pub const fn max_encoded_bytes(decoded_bytes: u64) -> u64 {
        decoded_bytes.saturating_add(decoded_bytes / 8).saturating_add(4096)
    }

    /// The name, which is Zarr's.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bytes { .. } => "bytes",
            Self::Transpose { .. } => "transpose",
            Self::Shuffle { .. } => "shuffle",
            Self::Gzip => "gzip",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
            Self::Blosc => "blosc",
            Self::Crc32c => "crc32c",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl<'a> Steps<'a> {
    /// The steps of a chunk of `rank` axes.
    pub(crate) fn new(codecs: &'a [Codec], rank: usize) -> Result<Self, ManifestProblem> {
        if codecs.len() > Codec::MAX_COUNT {
            return Err(ManifestProblem::CodecCount { count: codecs.len(), max: Codec::MAX_COUNT });
        }
        let mut order: Option<Vec<usize>> = None;
        for (number, codec) in codecs.iter().enumerate() {
            match codec {
                Codec::Transpose { order: next } => {
                    if !is_permutation(next, rank) {
                        return Err(ManifestProblem::AxisOrder { order: next.clone(), rank });
                    }
                    order = Some(match order {
                        Some(before) => next.iter().map(|axis| before[*axis]).collect(),
                        None => next.clone(),
                    });
                }
                Codec::Bytes { endianness } => {
                    let from_bytes = &codecs[number + 1..];
                    let is_wrong = |codec: &Codec| {
                        matches!(
                            codec,
                            Codec::Bytes { .. } | Codec::Transpose { .. } | Codec::Shuffle { element_bytes: 0 }
                        )
                    };
                    if from_bytes.iter().any(is_wrong) {
                        return Err(ManifestProblem::Codecs);
                    }
                    return Ok(Self { order, endianness: *endianness, from_bytes });
                }
                _ => break,
            }
        }
        Err(ManifestProblem::Codecs)
    }
}

fn is_permutation(order: &[usize], rank: usize) -> bool {
    let mut seen = vec![false; rank];
    order.len() == rank
        && order.iter().all(|axis| seen.get_mut(*axis).is_some_and(|seen| !std::mem::replace(seen, true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Codec = Codec::Bytes { endianness: Endianness::Big };

    #[test]
    fn transpositions_follow_each_other() {
        let first = Codec::Transpose { order: vec![1, 2, 0] };
        let codecs = [first.clone(), Codec::Transpose { order: vec![0, 2, 1] }, BYTES, Codec::Zstd];
        let steps = Steps::new(&codecs, 3).unwrap();
        assert_eq!((steps.order, steps.from_bytes), (Some(vec![1, 0, 2]), &[Codec::Zstd][..]));
        for order in [vec![0, 1], vec![0, 1, 3], vec![0, 1, 1], vec![0, 1, 2, 3]] {
            let codecs = [Codec::Transpose { order: order.clone() }, BYTES];
            assert_eq!(Steps::new(&codecs, 3), Err(ManifestProblem::AxisOrder { order, rank: 3 }));
        }
    }

    #[test]
    fn codecs_are_in_order() {
        let swap = Codec::Transpose { order: vec![0] };
        let empty = Codec::Shuffle { element_bytes: 0 };
        for codecs in [
            vec![],
            vec![swap.clone()],
            vec![Codec::Gzip, BYTES],
            vec![BYTES, BYTES],
            vec![BYTES, swap],
            vec![BYTES, empty],
        ] {
            assert_eq!(Steps::new(&codecs, 1), Err(ManifestProblem::Codecs), "{codecs:?}");
        }
    }

    #[test]
    fn the_number_of_codecs_is_limited() {
        let codecs = [vec![BYTES], vec![Codec::Crc32c; Codec::MAX_COUNT]].concat();
        assert!(Steps::new(&codecs[..Codec::MAX_COUNT], 1).is_ok());
        let problem = ManifestProblem::CodecCount { count: Codec::MAX_COUNT + 1, max: Codec::MAX_COUNT };
        assert_eq!(Steps::new(&codecs, 1), Err(problem));
    }
}
