//! What was sent more than once, by cause.

use crate::policy::{Cause, Sent};
use serde::Serialize;
use std::ops::AddAssign;

/// Bytes and chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ByteCount {
    /// Bytes of the stream.
    pub bytes: u64,
    /// Chunks that they came in.
    pub chunks: u64,
}

/// What was given to a lane once more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Reissued {
    /// What came back from lanes that were lost or have stalled.
    pub requeued: ByteCount,
    /// What another lane had on its way still, and would have had there later.
    pub reinjected: ByteCount,
    /// What another lane had on its way, to try one that is given nothing else.
    pub probed: ByteCount,
}

impl ByteCount {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.chunks += 1;
    }
}

impl Reissued {
    /// The count of one chunk.
    pub(super) fn of(sent: &Sent) -> Self {
        let (mut reissued, none) = (Self::default(), &mut ByteCount::default());
        let count = match sent.cause {
            Cause::New => none,
            Cause::Requeued => &mut reissued.requeued,
            Cause::Reinjected => &mut reissued.reinjected,
            Cause::Probed => &mut reissued.probed,
        };
        count.add(sent.length.into());
        reissued
    }

    /// All together.
    pub fn total(&self) -> ByteCount {
        let mut total = self.requeued;
        total += self.reinjected;
        total += self.probed;
        total
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.chunks += other.chunks;
    }
}

impl AddAssign for Reissued {
    fn add_assign(&mut self, other: Self) {
        self.requeued += other.requeued;
        self.reinjected += other.reinjected;
        self.probed += other.probed;
    }
}
