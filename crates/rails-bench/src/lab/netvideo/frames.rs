//! Frames, and their way over a stream: a header, and then the pixels.

use bytes::Bytes;
use rails_multirail::{MultiRailStream, pipeline::Buffer};
use std::io;

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

/// Takes the bytes of a stream as they come, without a copy of pixels.
pub(super) struct Arrivals {
    pub(super) stream: MultiRailStream,
    /// Bytes that were received and not taken.
    rest: Bytes,
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
}

impl AsMut<[u8]> for Frame {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }
}

impl Arrivals {
    pub(super) fn new(stream: MultiRailStream) -> Self {
        Self { stream, rest: Bytes::new() }
    }

    /// The next header; `None` at the end of the stream.
    pub(super) async fn header(&mut self) -> io::Result<Option<Header>> {
        let (mut bytes, mut filled) = ([0; Header::BYTES], 0);
        while filled < Header::BYTES {
            let Some(part) = self.next(Header::BYTES - filled).await? else {
                return if filled == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            };
            bytes[filled..filled + part.len()].copy_from_slice(&part);
            filled += part.len();
        }
        Ok(Some(Header::from_bytes(bytes)))
    }

    /// The next bytes, at most so many; `None` at the end of the stream.
    pub(super) async fn next(&mut self, at_most: usize) -> io::Result<Option<Bytes>> {
        while self.rest.is_empty() {
            match self.stream.read_bytes().await? {
                Some(bytes) => self.rest = bytes,
                None => return Ok(None),
            }
        }
        Ok(Some(self.rest.split_to(at_most.min(self.rest.len()))))
    }
}

/// A sum of the bytes of pixels: that of a frame is that of its parts together, and swapped colours do not change it.
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
