//! Frames, and their way over a stream: a header, and then the pixels.

use bytes::Bytes;
use rails_multirail::{MultiRailStream, pipeline::Buffer};
use std::io;
use tokio::io::AsyncReadExt;

/// A frame at the sender.
pub(super) struct Frame {
    pub(super) pixels: Buffer,
    pub(super) header: Header,
}

/// Goes before the pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The frame's number, from 0.
    pub(super) number: u64,
    /// When it was made, in microseconds since the start.
    pub(super) made_us: u64,
    /// The sum of its pixels before the compute stage.
    pub(super) sum: u64,
}

/// A part of a frame at the receiver.
pub(super) struct Part {
    pub(super) header: Header,
    pub(super) pixels: Bytes,
    pub(super) is_last: bool,
}

impl Header {
    pub(super) const BYTES: usize = 24;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (field, place) in [self.number, self.made_us, self.sum].iter().zip(bytes.as_chunks_mut::<8>().0) {
            *place = field.to_le_bytes();
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [number, made_us, sum] = std::array::from_fn(|field| u64::from_le_bytes(bytes.as_chunks::<8>().0[field]));
        Self { number, made_us, sum }
    }

    /// The next header; `None` at the end of the stream.
    pub(super) async fn read(stream: &mut MultiRailStream) -> io::Result<Option<Self>> {
        let mut bytes = [0; Self::BYTES];
        let first = stream.read(&mut bytes).await?;
        if first == 0 {
            return Ok(None);
        }
        stream.read_exact(&mut bytes[first..]).await?;
        Ok(Some(Self::from_bytes(bytes)))
    }
}

impl AsMut<[u8]> for Frame {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }
}

/// A sum of the bytes of pixels: that of a frame is that of its parts together, and swapped colours
/// do not change it.
pub(super) fn sum(pixels: &[u8]) -> u64 {
    // Sums of 32 bits cannot overflow within a block, and are added in vectors.
    pixels.chunks(1 << 20).map(|block| u64::from(block.iter().map(|byte| u32::from(*byte)).sum::<u32>())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        let header = Header { number: 1, made_us: u64::MAX, sum: 7 << 40 };
        assert_eq!(Header::from_bytes(header.to_bytes()), header);
    }

    #[test]
    fn sums_of_parts_add_up() {
        let pixels: Vec<u8> = (0..3_000_000_u32).map(|byte| byte as u8).collect();
        let (front, back) = pixels.split_at(1_234_567);
        assert_eq!(sum(&pixels), sum(front) + sum(back));
        assert_eq!(sum(&[255; 5]), 1275);
    }
}
