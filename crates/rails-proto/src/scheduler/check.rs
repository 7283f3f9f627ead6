//! The invariants of the scheduler, checked after every step of a debug build.

use super::{Scheduler, bit};

impl Scheduler {
    /// Every byte that was sent and is not known to be delivered is in one segment. Each segment was requeued, or is in flight on a lane that is up, has
    /// not stalled and answers for it. Nothing is complete before all of it is delivered.
    ///
    /// # Panics
    /// Where that does not hold.
    pub(super) fn check(&self) {
        if !cfg!(debug_assertions) || self.outstanding.len() > MOST_CHECKED {
            return;
        }
        self.outstanding.check();
        let mut sent = 0;
        for (number, lane) in self.lanes.iter().enumerate() {
            for segment in lane.in_flight.iter().flat_map(|sent| self.outstanding.within(sent.range())) {
                assert!(segment.is_sent_on(number), "lane {number} was given what it is not known to carry");
                sent += 1;
            }
        }
        let sent_on = self.outstanding.iter().map(|segment| segment.sent_on().count_ones()).sum::<u32>();
        assert_eq!(sent, sent_on, "a lane has a segment that it was not given, or was given one twice");
        for segment in self.outstanding.iter() {
            let live = segment.sent_on() & self.live_lanes();
            match segment.answering() {
                Some(lane) => {
                    assert!(live & bit(lane) != 0, "lane {lane} answers for a segment that it cannot deliver")
                }
                None => assert!(live == 0, "nobody answers for a segment on lanes {live:b}"),
            }
        }
    }
}

/// So few segments are checked quickly. With more of them, nothing happens that does not happen with fewer.
const MOST_CHECKED: usize = 256;
