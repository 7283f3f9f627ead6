//! Late binding: a lane with room takes the next chunk.

use super::{Decision, LaneView, Policy, SchedulerView, StripePolicy, Wait, reinjection};
use std::time::Duration;

/// A lane with room takes the next chunk, as long as the lane carries in a few milliseconds.
///
/// The lane takes requeued bytes first, then the chunk that the peer needs next if it is overdue on
/// another lane, then new bytes, and last a chunk that it would deliver sooner than another lane.
///
/// The lane leaves bytes to another lane only if that one would deliver all waiting bytes before
/// this lane had delivered its chunk. So the end of a stream does not wait for the slowest lane,
/// and a small write goes to the lane that delivers it first. (The rule is that of ECF: Lim et al.,
/// "ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths", CoNEXT 2017.)
#[derive(Debug, Clone, Copy)]
pub struct Adaptive;

impl StripePolicy for Adaptive {
    fn decide(&self, view: &SchedulerView<'_>, lane: usize) -> Decision {
        let longest = self.longest_chunk(&view.lanes[lane], view.longest_chunk);
        if let Some(requeued) = view.requeued
            && !view.is_sooner_elsewhere(lane, longest.min(requeued.first), requeued.bytes)
        {
            return Decision::Requeue(longest);
        }
        if let Some(chunk) = reinjection::overdue(view, lane) {
            return Decision::Reinject(chunk.offset);
        }
        if let Some(waiting) = view.waiting {
            let length = longest.min(waiting);
            if !view.is_sooner_elsewhere(lane, length, waiting) {
                return Decision::New(length);
            }
        }
        if let Some(chunk) = reinjection::slower(view, lane) {
            return Decision::Reinject(chunk.offset);
        }
        let waits = view.waiting.is_some() || view.requeued.is_some();
        Decision::Wait(if waits { Wait::SoonerElsewhere } else { Wait::NothingToSend })
    }

    fn longest_chunk(&self, lane: &LaneView, longest: usize) -> usize {
        let of_rate = |rate: f64| (rate * CHUNK_TIME.as_secs_f64()) as usize;
        let wanted = lane.rate.map_or(FIRST_CHUNK, of_rate);
        wanted.max(SHORTEST_CHUNK).min(longest)
    }

    fn reinjects(&self) -> bool {
        true
    }

    fn built_in(&self) -> Option<Policy> {
        Some(Policy::Adaptive)
    }
}

/// How long a lane should be busy with a chunk. At 400 Mbit/s that is 240 KiB.
const CHUNK_TIME: Duration = Duration::from_millis(5);
/// The length of a chunk on a lane of unknown rate, in bytes: a very slow lane delivers it soon
/// enough, and the rate of a fast one is known after a round trip.
pub(crate) const FIRST_CHUNK: usize = 16 << 10;
/// Below this many bytes the cost of a chunk outweighs the gain: it is 11 packets of 1,500 bytes.
const SHORTEST_CHUNK: usize = 16 << 10;
