//! When a lane sends a chunk again that another lane still has in flight.
//!
//! A slow lane must not hold up the fast ones, be it at the end of the stream or because the window is full behind its chunk. The peer
//! drops the copy that comes second.

use super::{ChunkView, LaneView, SchedulerView};
use std::time::Duration;

/// The chunk that the peer needs next, where the lane that has it is overdue with it: it goes before new bytes.
pub(super) fn overdue(view: &SchedulerView<'_>, lane: usize) -> Option<ChunkView> {
    view.first(lane).filter(|chunk| is_overdue(view, chunk))
}

/// Of the oldest chunks of the other lanes that `lane` would deliver sooner, the one of the lowest offset.
pub(super) fn slower(view: &SchedulerView<'_>, lane: usize) -> Option<ChunkView> {
    let own = view.lanes[lane].would_take();
    let is_slower = |chunk: &ChunkView| {
        // A chunk takes as long as others took there, or as the bytes before it take.
        let by_age = own.is_some_and(|own| pays(own, chunk.age, chunk.expected));
        let by_rate = own.zip(chunk.remaining).is_some_and(|(own, theirs)| pays(own, Duration::ZERO, theirs));
        by_age || by_rate || is_overdue(view, chunk)
    };
    let others = (0..view.lanes.len()).filter(|other| *other != lane);
    others.filter_map(|other| view.oldest(other, lane)).filter(is_slower).min_by_key(|chunk| chunk.offset)
}

impl SchedulerView<'_> {
    /// After how long in flight on `lane` a chunk is overdue: it has taken so much longer than chunks did there before that something must be
    /// wrong. Where none was seen to arrive, that is four times as long as chunks take on the fastest of the other lanes.
    pub fn overdue_after(&self, lane: usize) -> Duration {
        let LaneView { service, service_is_bound, rtt, .. } = self.lanes[lane];
        let round_trips = 4 * rtt.unwrap_or_default();
        match service.filter(|_| !service_is_bound) {
            Some(service) => (2 * service).clamp(LEAST_OVERDUE, LONGEST_OVERDUE.max(round_trips)),
            None => {
                let others = self.others_service(lane);
                let unknown = others.map_or(UNKNOWN_SERVICE, |others| (4 * others).min(UNKNOWN_SERVICE));
                unknown.max(LEAST_GAIN).max(round_trips)
            }
        }
    }

    /// Whether another lane would deliver a chunk sooner that `lane` delivers in `remaining`.
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

/// Whether a second copy pays that takes `own`, of a chunk that is in flight for `age` and takes `theirs` in all.
fn pays(own: Duration, age: Duration, theirs: Duration) -> bool {
    age.saturating_add(2 * own).saturating_add(LEAST_GAIN) < theirs
}

/// Less time than this is not worth sending a chunk twice.
const LEAST_GAIN: Duration = Duration::from_millis(50);
/// How long a chunk may take at most on a lane that has not had one acknowledged yet.
pub(crate) const UNKNOWN_SERVICE: Duration = Duration::from_millis(500);
/// No chunk is overdue before this on a lane that is known: acknowledgements wait for 10 ms, and a busy machine schedules as it likes.
const LEAST_OVERDUE: Duration = Duration::from_millis(60);
/// Every chunk is overdue after this, or four round trips: a lane may be as slow as that, but then no reader waits for it.
const LONGEST_OVERDUE: Duration = Duration::from_millis(200);
