//! Late binding: a lane with room takes the next chunk.

use super::{SchedulerView, StripePolicy};
use std::time::Duration;

/// A lane with room takes the next chunk, in the length that it carries in a few milliseconds.
///
/// It leaves a chunk to another lane only if that one would have everything that waits at the other end before this one were done with
/// this chunk: the end of a stream is not left to its slowest lane, and a small write goes to the lane that has it there first. (The
/// rule is that of ECF: Lim et al., "ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths", CoNEXT 2017.)
#[derive(Debug, Clone, Copy)]
pub struct Adaptive;

impl StripePolicy for Adaptive {
    fn share(&self, view: &SchedulerView<'_>, lane: usize) -> Option<usize> {
        let length = self.longest_chunk(view, lane).min(view.waiting);
        (!view.is_sooner_elsewhere(lane, length)).then_some(length)
    }

    fn took(&mut self, _: usize, _: usize) {}

    fn longest_chunk(&self, view: &SchedulerView<'_>, lane: usize) -> usize {
        let of_rate = |rate: f64| (rate * CHUNK_TIME.as_secs_f64()) as usize;
        let wanted = view.lanes[lane].rate.map_or(FIRST_CHUNK, of_rate);
        wanted.max(SHORTEST_CHUNK).min(view.longest_chunk)
    }

    fn reinjects(&self) -> bool {
        true
    }
}

/// How long a lane should be busy with a chunk. At 400 Mbit/s that is 240 KiB.
const CHUNK_TIME: Duration = Duration::from_millis(5);
/// A chunk on a lane whose rate is not known yet, in bytes: on one that is very slow it is soon enough there, and a fast one is known after
/// a round trip.
pub(crate) const FIRST_CHUNK: usize = 16 << 10;
/// Below this many bytes the cost of a chunk outweighs what is gained: it is 11 packets of 1,500 bytes.
const SHORTEST_CHUNK: usize = 16 << 10;
