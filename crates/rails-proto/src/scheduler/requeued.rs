//! Segments that no lane answers for, because their lanes were lost or fell silent: the first to be sent again.

use super::{Scheduler, outstanding::Segment};
use crate::chunk::Chunk;

impl Scheduler {
    /// The first segment that was requeued, or as much of it as `lane` carries at a time.
    pub(super) fn take_returned(&mut self, lane: usize) -> Option<Chunk> {
        let offset = self.outstanding.requeued().find(|segment| self.may_return_to(segment, lane))?.offset();
        let most = self.policy.longest_chunk(&self.offer(0), lane).max(1);
        self.outstanding.send_again(offset, most, lane)
    }

    /// Whether `lane` takes what came back from another: not if one that is faster will have it there sooner.
    pub(super) fn may_return_to(&self, segment: &Segment, lane: usize) -> bool {
        let offer = self.offer(self.outstanding.returned_size().1 as usize);
        let length = self.policy.longest_chunk(&offer, lane).min(segment.length() as usize);
        !self.policy.reinjects() || !offer.is_sooner_elsewhere(lane, length)
    }
}
