//! What must hold after every step.

use super::{Scheduler, bit};

impl Scheduler {
    /// Every byte that was cut from what waits and is not known to be delivered is in one segment, and each segment either was requeued or is in flight on a lane
    /// that is up, has not stalled and answers for it; and nothing is complete before all of it is delivered.
    ///
    /// # Panics
    /// Where that does not hold.
    pub(super) fn check(&self) {
        if !cfg!(debug_assertions) || self.outstanding.len() > MOST_CHECKED {
            return;
        }
        self.outstanding.check();
        let mut carried = 0;
        for (number, lane) in self.lanes.iter().enumerate() {
            for segment in lane.in_flight.iter().flat_map(|sent| self.outstanding.within(sent.range())) {
                assert!(segment.is_carried_by(number), "lane {number} was given what it is not known to carry");
                carried += 1;
            }
        }
        let sent_on = self.outstanding.iter().map(|segment| segment.sent_on().count_ones()).sum::<u32>();
        assert_eq!(carried, sent_on, "a lane is to carry what it was not given, or was given it twice");
        for segment in self.outstanding.iter() {
            let heard = segment.sent_on() & self.heard();
            match segment.answering() {
                Some(lane) => assert!(heard & bit(lane) != 0, "lane {lane} answers for what it cannot deliver"),
                None => assert!(heard == 0, "nobody answers for what lanes {heard:b} carry"),
            }
        }
    }
}

/// So few segments are checked in no time. Where there are more, nothing happens that does not happen with fewer.
const MOST_CHECKED: usize = 256;
