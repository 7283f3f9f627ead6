//! Trying lanes that are given nothing, so that what is known of them does not grow old.

use super::{Scheduler, outstanding::Segment};
use crate::{
    chunk::Chunk,
    policy::{Cause, probe_allowance},
};
use std::time::{Duration, Instant};

impl Scheduler {
    /// Whether there is something that `lane`, which is given nothing else, can be tried with.
    pub fn can_probe(&self, lane: usize) -> bool {
        self.lanes[lane].is_usable() && self.lanes[lane].in_flight.is_empty() && self.probe_of(lane).is_some()
    }

    /// A copy of a little that another lane has in flight. That lane goes on answering for it, so that nobody waits for the one that is tried, and how long it takes tells
    /// how good that one is now.
    pub fn probe(&mut self, now: Instant, lane: usize) -> Option<Chunk> {
        if !self.can_probe(lane) {
            return None;
        }
        let (offset, most) = self.probe_of(lane)?;
        let chunk = self.outstanding.copy(offset, most, lane)?;
        self.lanes[lane].resting = false;
        self.note_sent(now, lane, &chunk, Cause::Probed);
        Some(chunk)
    }

    /// Whether something waits to be sent, or to be delivered.
    pub fn is_at_work(&self) -> bool {
        !self.outstanding.is_empty() || self.waiting() > 0
    }

    /// Why the policy gives `lane` nothing: how long it would be until the least that the lane is given were there by it, and all that waits by another, as far as is known.
    pub fn arrivals(&mut self, lane: usize) -> (Option<Duration>, Option<Duration>) {
        self.refresh_lane_views();
        let length = self.chunk_length(lane);
        let waiting = self.pending.ready(self.limit).unwrap_or(0);
        self.view().arrivals(lane, length.min(waiting), waiting)
    }

    /// Where what `lane` can be tried with begins, and how much of it: the latest that another lane answers for, if that costs little of what the stream carries.
    fn probe_of(&self, lane: usize) -> Option<(u64, usize)> {
        if !self.policy.reinjects() {
            return None;
        }
        let most = probe_allowance(self.pending.next(), self.reissued.probed.bytes);
        let fits = |segment: &&Segment| {
            segment.length() > 0 && !segment.is_carried_by(lane) && segment.answering().is_some() && segment.fits(most)
        };
        let segment = self.outstanding.iter().rev().take(FEW).find(fits)?;
        Some((segment.offset(), most))
    }
}

/// So many of the latest segments are looked at: nearly always it is the last.
const FEW: usize = 8;
