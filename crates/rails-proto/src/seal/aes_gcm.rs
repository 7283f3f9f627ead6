//! The cipher: AES-256-GCM of aws-lc-rs.

use super::{Role, SEALED_FRAME_LEN, SealError, Seals, TAG_LEN};
use crate::{secret::Secret, wire::FRAME_LEN};
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, Prk, Salt},
};
use bytes::Bytes;
use std::fmt;
use zeroize::Zeroizing;

/// The most blocks of 16 bytes that one key seals, with each tag counted as one block: 16 GiB. To
/// replace a key every few seconds costs nothing, and keeps the probability of a forgery a thousand
/// times below that at the limit.
pub const BLOCKS_PER_KEY: u64 = 1 << 30;

/// Seals the frames of one direction of one lane.
#[derive(Debug)]
pub struct Sealer {
    keys: Keys,
    /// The output buffer, which is reused; its length is the greatest so far.
    sealed: Vec<u8>,
}

/// Opens the frames of one direction of one lane.
#[derive(Debug)]
pub struct Opener {
    keys: Keys,
}

/// The keys of one direction, one after the other.
struct Keys {
    traffic: Zeroizing<[u8; 32]>,
    key: LessSafeKey,
    /// The number of the next record under this key.
    record: u64,
    /// The number of blocks under this key.
    blocks: u64,
    max_blocks: u64,
}

/// The keys of a lane; `None` in a build without the feature `encryption`.
pub(crate) fn of_lane(secret: &Secret, transcript: &[u8; 32], ours: Role) -> Option<Seals> {
    Some(Seals::derive(secret, transcript, ours))
}

impl Seals {
    /// Derives the keys of a lane from the secret of its stream and the hash of the hello and the
    /// challenge of its own handshake, which hold both nonces. `ours` is the role of this end.
    pub fn derive(secret: &Secret, transcript: &[u8; 32], ours: Role) -> Self {
        Self::with_limit(secret, transcript, ours, BLOCKS_PER_KEY)
    }

    pub(crate) fn with_limit(secret: &Secret, transcript: &[u8; 32], ours: Role, max_blocks: u64) -> Self {
        let prk = Salt::new(HKDF_SHA256, transcript).extract(secret.bytes());
        let keys = |role| {
            let label = match role {
                Role::Initiator => &b"rails 5 initiator traffic"[..],
                Role::Responder => b"rails 5 responder traffic",
            };
            Keys::new(expand(&prk, label), max_blocks)
        };
        let (ours, theirs) = match ours {
            Role::Initiator => (Role::Initiator, Role::Responder),
            Role::Responder => (Role::Responder, Role::Initiator),
        };
        Self { sealer: Sealer { keys: keys(ours), sealed: Vec::new() }, opener: Opener { keys: keys(theirs) } }
    }
}

impl Sealer {
    /// Seals whole frame headers, and then the payload, if any, that belongs to the last of them.
    /// Returns the bytes to send.
    ///
    /// # Panics
    /// If `headers` is not a whole number of headers.
    pub fn seal(&mut self, headers: &[u8], payload: &[Bytes]) -> &[u8] {
        let (headers, rest) = headers.as_chunks::<FRAME_LEN>();
        assert!(rest.is_empty(), "headers are whole");
        let length: usize = payload.iter().map(Bytes::len).sum();
        let behind = if length > 0 { length + TAG_LEN } else { 0 };
        let total = headers.len() * SEALED_FRAME_LEN + behind;
        if self.sealed.len() < total {
            self.sealed.resize(total, 0);
        }
        let mut room = &mut self.sealed[..total];
        for header in headers {
            let (record, left) = room.split_at_mut(SEALED_FRAME_LEN);
            self.keys.seal(header, record);
            room = left;
        }
        match payload {
            _ if length == 0 => {}
            [one] => self.keys.seal(one, room),
            many => {
                // Only a payload in one piece can be sealed on its way into the buffer.
                let (text, tag) = room.split_at_mut(length);
                let mut at = 0;
                for piece in many {
                    text[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
                self.keys.seal_in_place(text, tag);
            }
        }
        &self.sealed[..total]
    }

    /// The last output of [`seal`](Self::seal), and older bytes behind it.
    pub(crate) fn sealed(&self) -> &[u8] {
        &self.sealed
    }
}

impl Opener {
    /// Opens a frame's header.
    ///
    /// # Errors
    /// [`SealError`]; nothing more can be read from this lane.
    pub fn header(&mut self, sealed: &[u8; SEALED_FRAME_LEN]) -> Result<[u8; FRAME_LEN], SealError> {
        let mut header = [0; FRAME_LEN];
        let (text, tag) = sealed.split_at(FRAME_LEN);
        header.copy_from_slice(text);
        self.payload(&mut header, tag)?;
        Ok(header)
    }

    /// Opens a payload in place. The payload is not empty; `tag` are the [`TAG_LEN`] bytes that
    /// follow it.
    ///
    /// # Errors
    /// [`SealError`]; the bytes are then useless, and nothing more can be read from this lane.
    pub fn payload(&mut self, payload: &mut [u8], tag: &[u8]) -> Result<(), SealError> {
        let (key, nonce) = self.keys.next(payload.len());
        key.open_in_place_separate_tag(nonce, Aad::empty(), tag, payload).map(drop).map_err(|_| SealError)
    }
}

impl Keys {
    fn new(traffic: Zeroizing<[u8; 32]>, max_blocks: u64) -> Self {
        Self { key: key_of(&traffic), traffic, record: 0, blocks: 0, max_blocks }
    }

    /// The key and the nonce of the next record, which has `length` bytes. Both ends know the
    /// length beforehand.
    fn next(&mut self, length: usize) -> (&LessSafeKey, Nonce) {
        let blocks = length.div_ceil(BLOCK_LEN) as u64 + 1;
        // A key takes its first record at any length, and a chunk has at most 2^20 blocks.
        if self.record > 0 && self.blocks + blocks > self.max_blocks {
            let next = expand(&prk_of(&self.traffic), b"rails 5 next traffic");
            *self = Self::new(next, self.max_blocks);
        }
        self.blocks += blocks;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.record.to_be_bytes());
        self.record += 1;
        (&self.key, Nonce::assume_unique_for_key(nonce))
    }

    /// Seals `text` into `record`, which is longer by a tag.
    fn seal(&mut self, text: &[u8], record: &mut [u8]) {
        let (sealed, tag) = record.split_at_mut(text.len());
        let (key, nonce) = self.next(text.len());
        key.seal_out_of_place_scatter(nonce, Aad::empty(), text, sealed, &[], tag).expect(SHORT_ENOUGH);
    }

    fn seal_in_place(&mut self, text: &mut [u8], tag: &mut [u8]) {
        let (key, nonce) = self.next(text.len());
        tag.copy_from_slice(key.seal_in_place_separate_tag(nonce, Aad::empty(), text).expect(SHORT_ENOUGH).as_ref());
    }
}

/// Shows no key.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("record", &self.record).field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

fn key_of(traffic: &[u8; 32]) -> LessSafeKey {
    let key = expand(&prk_of(traffic), b"rails 5 key");
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).expect("a key of AES-256 has 32 bytes"))
}

fn prk_of(traffic: &[u8; 32]) -> Prk {
    Prk::new_less_safe(HKDF_SHA256, traffic)
}

pub(super) fn expand(prk: &Prk, label: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    prk.expand(&[label], HKDF_SHA256)
        .and_then(|output| output.fill(&mut *key))
        .expect("32 bytes are one block of HKDF");
    key
}

/// Opens one frame with its payload, if there is one. For tests and [`crate::fuzzing`]; a lane
/// reads a frame piece by piece.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn open(opener: &mut Opener, sealed: &[u8]) -> Result<(Vec<u8>, Vec<u8>), SealError> {
    let (header, rest) = sealed.split_first_chunk().expect("a header");
    let header = opener.header(header)?.to_vec();
    if rest.is_empty() {
        return Ok((header, Vec::new()));
    }
    let (text, tag) = rest.split_at(rest.len() - TAG_LEN);
    let mut text = text.to_vec();
    opener.payload(&mut text, tag)?;
    Ok((header, text))
}

const BLOCK_LEN: usize = 16;
const SHORT_ENOUGH: &str = "AES-GCM seals records of up to 2^36 bytes";

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
