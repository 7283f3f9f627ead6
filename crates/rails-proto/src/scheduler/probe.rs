//! Probes of lanes to which the policy gives nothing: they renew the estimates.

use super::{Scheduler, outstanding::Segment};
use crate::{
    chunk::Chunk,
    policy::{Cause, probe_allowance},
};
use std::time::{Duration, Instant};

impl Scheduler {
    /// Whether there is a chunk with which to probe `lane`, which gets nothing else.
    pub(crate) fn can_probe(&self, lane: usize) -> bool {
        self.lanes[lane].is_usable() && self.lanes[lane].in_flight_chunks() == 0 && self.probe_of(lane).is_some()
    }

    /// Gives `lane` a copy of a few bytes that another lane has in flight. The other lane still answers for them, so the peer does not wait for `lane`. The
    /// time that the copy takes renews the estimates.
    pub(crate) fn probe(&mut self, now: Instant, lane: usize) -> Option<Chunk> {
        if !self.can_probe(lane) {
            return None;
        }
        let (offset, most) = self.probe_of(lane)?;
        let chunk = self.outstanding.copy(offset, most, self.next_transmission(lane))?;
        self.lanes[lane].wake();
        self.note_sent(now, lane, &chunk, Cause::Probed);
        Some(chunk)
    }

    /// Whether bytes wait to be sent or delivered.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.outstanding.is_empty() || self.lanes_worth_of_work() > 0
    }

    /// The two estimates by which the policy gives `lane` nothing: the time that the lane needs for one chunk, and the time that the best of the others
    /// needs for all waiting bytes, if they are known.
    pub(crate) fn arrivals(&mut self, lane: usize) -> (Option<Duration>, Option<Duration>) {
        self.refresh_lane_views();
        let length = self.chunk_length(lane);
        let waiting = self.unsent.ready(self.limit()).unwrap_or(0);
        self.view().arrivals(lane, length.min(waiting), waiting)
    }

    /// The offset and the length of a probe of `lane`: the latest segment that another lane answers for, if there were few probed bytes so far.
    fn probe_of(&self, lane: usize) -> Option<(u64, usize)> {
        if !self.policy.reinjects() {
            return None;
        }
        let most = probe_allowance(self.unsent.next(), self.reissued.probed.bytes);
        let fits = |segment: &&Segment| {
            segment.length() > 0 && !segment.is_sent_on(lane) && segment.answering().is_some() && segment.fits(most)
        };
        let segment = self.outstanding.iter().rev().take(FEW).find(fits)?;
        Some((segment.offset(), most))
    }
}

/// How many of the latest segments to search: nearly always the last one fits.
const FEW: usize = 8;
