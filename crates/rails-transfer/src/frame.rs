//! The form of frames and greetings.
//!
//! A frame is one kind byte, the payload's length as a little-endian `u32`, and the payload. A
//! greeting is 8 bytes of magic, the version, the role, the number of further streams, and the
//! terms.

/// The role of an end of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Sender = b'S' as isize,
    Receiver = b'R' as isize,
}

/// What a sender's greeting asks for beyond a copy; a receiver's has none of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The batch is a trial: the receiver changes nothing.
    pub(crate) is_dry_run: bool,
    /// Entries of the receiver that the sender does not have are removed.
    pub(crate) deletes: bool,
}

impl Terms {
    /// The byte of the greeting.
    pub(crate) fn byte(self) -> u8 {
        (u8::from(self.is_dry_run) * DRY_RUN) | (u8::from(self.deletes) * DELETE)
    }

    /// The terms of a byte; `None` if it has some that this end does not know.
    pub(crate) fn of(byte: u8) -> Option<Self> {
        let known = Self { is_dry_run: byte & DRY_RUN != 0, deletes: byte & DELETE != 0 };
        (byte & !(DRY_RUN | DELETE) == 0).then_some(known)
    }
}

/// The contents of one frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<M> {
    Message(M),
    Block(Vec<u8>),
}

/// A data block with room for its frame header, so that one write sends both.
#[derive(Debug, Default)]
pub(crate) struct Block(Vec<u8>);

impl Block {
    /// Empties the block, and returns its room for `len` bytes of payload, at most [`MAX_BLOCK`].
    pub(crate) fn payload_mut(&mut self, len: usize) -> &mut [u8] {
        assert!((1..=MAX_BLOCK).contains(&len), "a block of {len} bytes does not exist");
        self.0.resize(HEADER_LEN + len, 0);
        self.0[..HEADER_LEN].copy_from_slice(&header(KIND_BLOCK, len));
        &mut self.0[HEADER_LEN..]
    }

    /// The frame: header and payload.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The payload's length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len().saturating_sub(HEADER_LEN)
    }
}

/// The header of a frame of a kind with a payload of `len` bytes.
pub(crate) fn header(kind: u8, len: usize) -> [u8; HEADER_LEN] {
    let [a, b, c, d] = u32::try_from(len).expect("frames are far shorter than 4 GiB").to_le_bytes();
    [kind, a, b, c, d]
}

/// The version in the greeting. Versions are not negotiated: both peers must name the same one.
pub(crate) const VERSION: u16 = 6;
/// The limit on a control message. The largest message, a link with a path and a target of 4096
/// bytes, has half of it.
pub(crate) const MAX_CONTROL: usize = 16 * 1024;
/// The longest payload of a data block.
pub(crate) const MAX_BLOCK: usize = 1024 * 1024;

/// The longest hole of one message: the receiver hashes its zeros.
pub(crate) const MAX_HOLE: u64 = 64 << 20;

const DRY_RUN: u8 = 1;
const DELETE: u8 = 2;

pub(crate) const MAGIC: &[u8; 8] = b"RAILS-FT";
/// The part of a greeting that every version has: magic, version, role.
pub(crate) const GREETING_LEN: usize = 11;
pub(crate) const HEADER_LEN: usize = 5;
pub(crate) const KIND_MESSAGE: u8 = 0;
pub(crate) const KIND_BLOCK: u8 = 1;
