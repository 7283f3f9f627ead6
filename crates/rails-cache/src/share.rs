//! What one budget may have, or several together.

use crate::{budget::Limits, level::MemoryLevel};
use smallvec::SmallVec;

/// Limits, and the slots that count against them: those of one budget, or of several that share
/// the limits.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) limits: Limits,
    /// The slots of all of its budgets.
    pub(crate) used: u32,
    pub(crate) level: MemoryLevel,
    /// The seats of its budgets, also of those that are over.
    pub(crate) seats: SmallVec<[usize; 1]>,
}

impl Share {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, used: 0, level: MemoryLevel::default(), seats: SmallVec::new() }
    }

    /// Whether the share keeps its `min` if another one takes this many slots of it.
    pub(crate) fn can_give(&self, slots: u32) -> bool {
        self.used >= self.limits.min.saturating_add(slots)
    }

    /// Whether this share has more beyond its `min`, in relation to its weight, than another.
    pub(crate) fn exceeds(&self, other: &Self) -> bool {
        let excess = |share: &Self| u64::from(share.used.saturating_sub(share.limits.min));
        excess(self) * u64::from(other.limits.weight) > excess(other) * u64::from(self.limits.weight)
    }
}
