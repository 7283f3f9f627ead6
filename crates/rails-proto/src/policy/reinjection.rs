//! When a lane sends a chunk again that another lane still has in flight.
//!
//! A slow lane must not hold up the fast ones, either at the end of the stream or because the
//! window is full behind its chunk. The peer drops the copy that arrives second.

use super::{ChunkView, LaneView, SchedulerView};
use std::time::Duration;

/// The chunk that the peer needs next, if it is overdue on its lane. It goes before new bytes.
pub(super) fn overdue(view: &SchedulerView<'_>, lane: usize) -> Option<ChunkView> {
    view.first(lane).filter(|chunk| is_overdue(view, chunk))
}

/// Of the oldest chunks of the other lanes, the one with the lowest offset that `lane` would
/// deliver sooner.
pub(super) fn slower(view: &SchedulerView<'_>, lane: usize) -> Option<ChunkView> {
    let own = view.lanes[lane].would_take();
    let is_slower = |chunk: &ChunkView| {
        // A chunk takes as long as earlier chunks took on that lane, or as the bytes before it still take.
        let by_age = own.is_some_and(|own| pays(own, chunk.age, chunk.expected));
        let by_rate = own.zip(chunk.remaining).is_some_and(|(own, theirs)| pays(own, Duration::ZERO, theirs));
        by_age || by_rate || is_overdue(view, chunk)
    };
    let others = (0..view.lanes.len()).filter(|other| *other != lane);
    others.filter_map(|other| view.oldest(other, lane)).filter(is_slower).min_by_key(|chunk| chunk.offset)
}

impl SchedulerView<'_> {
    /// How long a chunk is in flight on `lane` before it is overdue: earlier chunks took so much
    /// less that something must be wrong. If the peer has acknowledged none on `lane`, that is four
    /// times as long as chunks take on the fastest of the other lanes.
    pub fn overdue_after(&self, lane: usize) -> Duration {
        let LaneView { service, service_is_bound, rtt, .. } = self.lanes[lane];
        let round_trips = 4 * rtt.unwrap_or_default();
        match service.filter(|_| !service_is_bound) {
            Some(service) => (2 * service).clamp(MIN_OVERDUE, LONGEST_OVERDUE.max(round_trips)),
            None => {
                let others = self.others_service(lane);
                let unknown = others.map_or(UNKNOWN_SERVICE, |others| (4 * others).min(UNKNOWN_SERVICE));
                unknown.max(MIN_GAIN).max(round_trips)
            }
        }
    }

    /// Whether another lane would deliver a chunk sooner than `lane`, which delivers it in
    /// `remaining`.
    pub fn is_slower(&self, lane: usize, remaining: Duration) -> bool {
        self.others_service(lane).is_some_and(|own| pays(own, Duration::ZERO, remaining))
    }

    /// How long chunks take on the fastest of the other lanes.
    fn others_service(&self, lane: usize) -> Option<Duration> {
        let others = self.lanes.iter().enumerate().filter(|(index, other)| *index != lane && other.usable);
        others.filter_map(|(_, other)| other.would_take()).min()
    }
}

fn is_overdue(view: &SchedulerView<'_>, chunk: &ChunkView) -> bool {
    chunk.age >= view.overdue_after(chunk.lane)
}

/// Whether a second copy of a chunk is worth its bytes. The copy takes `own`; the chunk has been in
/// flight for `age` and takes `theirs` in all.
fn pays(own: Duration, age: Duration, theirs: Duration) -> bool {
    age.saturating_add(2 * own).saturating_add(MIN_GAIN) < theirs
}

/// The least gain of time for which a lane sends a chunk twice.
const MIN_GAIN: Duration = Duration::from_millis(50);
/// The longest time that a chunk may take on a lane without any acknowledged chunk.
pub(crate) const UNKNOWN_SERVICE: Duration = Duration::from_millis(500);
/// No chunk on a lane with an estimate is overdue before this: acknowledgements wait for up to 8
/// ms, and a busy machine may schedule threads late.
const MIN_OVERDUE: Duration = Duration::from_millis(60);
/// Every chunk is overdue after this, or four round trips: a lane may be as slow as that, but then
/// no reader waits for it.
const LONGEST_OVERDUE: Duration = Duration::from_millis(200);
