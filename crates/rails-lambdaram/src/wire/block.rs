//! The header of a block on a link.

use super::{encoding::Encoding, error::WireProblem, handle::Handle};
use rails_array::BlockIndex;

/// The header of a message that carries a block: [`BlockHeader::BYTES`] bytes, and the encoded
/// block behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockHeader {
    /// The handle.
    pub handle: Handle,
    /// The block.
    pub block: BlockIndex,
    /// Whether the block comes unasked, into credit.
    pub is_push: bool,
    /// How the payload is encoded.
    pub encoding: Encoding,
    /// The size of the decoded block in bytes.
    pub block_bytes: u32,
    /// The CRC-32C of the decoded block.
    pub crc: u32,
}

impl BlockHeader {
    /// The size of a header in bytes: the payload behind it lies on the boundary of a cache line.
    pub const BYTES: usize = 64;

    /// Writes the header.
    pub fn write(&self, bytes: &mut [u8; Self::BYTES]) {
        *bytes = [0; Self::BYTES];
        bytes[0] = KIND;
        bytes[1] = u8::from(self.is_push);
        bytes[2] = self.encoding.number();
        bytes[4..8].copy_from_slice(&self.handle.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.block.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.block_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.crc.to_le_bytes());
    }

    /// Appends the header to a buffer.
    pub fn encode_into(&self, buffer: &mut Vec<u8>) {
        let mut bytes = [0; Self::BYTES];
        self.write(&mut bytes);
        buffer.extend_from_slice(&bytes);
    }

    /// Reads a header whose first byte is [`KIND`], and compares it with the size of its payload.
    pub(super) fn read(bytes: &[u8; Self::BYTES], payload_bytes: usize) -> Result<Self, WireProblem> {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if let Some(at) = (3..Self::BYTES).find(|at| matches!(at, 3 | 24..) && bytes[*at] != 0) {
            return Err(WireProblem::Reserved { at, found: bytes[at] });
        }
        let is_push = match bytes[1] {
            0 => false,
            1 => true,
            found => return Err(WireProblem::Reserved { at: 1, found }),
        };
        let encoding = Encoding::ALL.into_iter().find(|encoding| encoding.number() == bytes[2]);
        let header = Self {
            handle: Handle(number(4)),
            block: BlockIndex(u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"))),
            is_push,
            encoding: encoding.ok_or(WireProblem::Encoding { found: bytes[2] })?,
            block_bytes: number(16),
            crc: number(20),
        };
        let block_bytes = header.block_bytes as usize;
        if block_bytes == 0 {
            return Err(WireProblem::Zero { field: "size of the block" });
        }
        let fits = match header.encoding {
            Encoding::None => payload_bytes == block_bytes,
            // An encoder sends a block that does not get shorter as it is.
            Encoding::Lz4 | Encoding::Zstd | Encoding::Decimal => (1..block_bytes).contains(&payload_bytes),
        };
        if !fits {
            return Err(WireProblem::Payload { encoding: header.encoding, payload_bytes, block_bytes });
        }
        Ok(header)
    }
}

/// The first byte of a message that carries a block.
pub(super) const KIND: u8 = 3;
