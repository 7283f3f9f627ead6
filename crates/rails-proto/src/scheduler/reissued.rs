//! Bytes and chunks that were sent more than once, by cause.

use crate::policy::Cause;
use serde::Serialize;
use std::ops::AddAssign;

/// A count of bytes and chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ByteCount {
    /// Bytes of the stream.
    pub bytes: u64,
    /// The chunks that held the bytes.
    pub chunks: u64,
}

/// Bytes and chunks that a lane took after another lane had taken them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Reissued {
    /// Bytes taken over from lanes that were lost or have stalled.
    pub requeued: ByteCount,
    /// Bytes sent again because the first lane was late with them.
    pub reinjected: ByteCount,
    /// Copies that probe a lane to which the policy gives nothing.
    pub probed: ByteCount,
}

impl ByteCount {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.chunks += 1;
    }
}

impl Reissued {
    /// Counts a chunk of `length` bytes that a lane took for that reason.
    pub(super) fn count(&mut self, cause: Cause, length: u32) {
        let count = match cause {
            Cause::New => return,
            Cause::Requeued => &mut self.requeued,
            Cause::Reinjected => &mut self.reinjected,
            Cause::Probed => &mut self.probed,
        };
        count.add(length.into());
    }

    /// The sum of all causes.
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
