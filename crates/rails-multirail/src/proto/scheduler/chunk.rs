//! A piece of a stream on its way.

use crate::proto::messages::Content;
use bytes::Bytes;

/// Some of a stream's bytes, to be sent on one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where its first byte belongs in the stream.
    pub offset: u64,
    /// Its bytes, in slices as they were written.
    pub payload: Vec<Bytes>,
    /// Its length in bytes.
    pub length: u32,
    /// The stream ends behind it.
    pub fin: bool,
    /// What the bytes are.
    pub content: Content,
}

impl Chunk {
    /// Whether the peer has it for certain, having read everything below `consumed`. That the stream ends is not
    /// read, so the chunk that says it has to be acknowledged itself.
    pub(super) fn is_known_below(&self, consumed: u64) -> bool {
        self.offset + u64::from(self.length) <= consumed && !self.fin
    }

    /// Keeps the first `most` bytes, and gives the rest if there is any. Small messages stay together.
    pub(in crate::proto) fn split_off(&mut self, most: usize) -> Option<Self> {
        if self.length as usize <= most {
            return None;
        }
        let offset = self.offset + most as u64;
        let content = self.content.behind(most as u32)?;
        let mut rest = Self { offset, payload: Vec::new(), length: self.length, fin: self.fin, content };
        let mut left = most;
        for mut slice in std::mem::take(&mut self.payload) {
            let kept = slice.split_to(left.min(slice.len()));
            left -= kept.len();
            self.payload.extend(Some(kept).filter(|kept| !kept.is_empty()));
            rest.payload.extend(Some(slice).filter(|slice| !slice.is_empty()));
        }
        (self.length, self.fin) = (most as u32, false);
        rest.length -= self.length;
        Some(rest)
    }
}
