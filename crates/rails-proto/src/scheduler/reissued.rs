//! Bytes and chunks that were sent more than once, by cause.

use crate::policy::{Cause, Sent};
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
