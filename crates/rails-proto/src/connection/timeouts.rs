//! The timeouts of a stream and its lanes: the time that passes over the parts, and the events that come of it.

use super::{Connection, Event, EventKind, LaneId, StandstillCause, unused::waits_for_one_lane};
use std::time::Instant;

impl Connection {
    /// When the driver calls [`Connection::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.needs_no_lane() {
            return None;
        }
        let outage = self.outage.check_at(self.is_any_up()).filter(|_| !self.is_over());
        [outage, self.ending.check_at(self.is_done()), self.standstill.check_at()].into_iter().flatten().min()
    }

    /// Handles every timeout that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let (lanes, scheduler) = (&self.lanes, &self.scheduler);
        let longest_round_trip = || {
            let up = lanes.iter().enumerate().filter(|(_, lane)| lane.up);
            up.filter_map(|(index, _)| scheduler.flight().lane_view(index).rtt).max().unwrap_or_default()
        };
        if let Some(stood_for) = self.standstill.check(now, longest_round_trip) {
            let cause = StandstillCause::of(&self.scheduler, self.has_usable_lane(), self.awaits_sending());
            self.tell(now, None, EventKind::Standstill { cause, stood_for });
        }
        if self.ending.handle(now) && !self.is_done() {
            self.end_lingering(now);
        }
        self.check_outage(now);
    }

    /// Takes the oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) fn tell(&mut self, at: Instant, lane: Option<LaneId>, kind: EventKind) {
        self.events.push_back(Event { at, lane, kind });
        self.wakes.supervisor = true;
    }

    /// Notes whether the stream waits for anything but its application.
    pub(super) fn watch_for_standstill(&mut self, now: Instant) {
        let awaits_receiving = self.awaits_receiving();
        let awaits_progress = !self.has_failed() && (awaits_receiving || self.awaits_sending());
        let is_covered = || !awaits_receiving && waits_for_one_lane(&self.lanes, &self.scheduler);
        self.standstill.watch(now, awaits_progress, is_covered);
    }

    /// The stream made progress at `at`: new bytes were acknowledged, have arrived or were read.
    pub(super) fn has_moved(&mut self, now: Instant, at: Instant) {
        if let Some(after) = self.standstill.moved(now, at) {
            self.tell(now, None, EventKind::Moved { after });
        }
    }

    fn awaits_sending(&self) -> bool {
        !self.ending.is_stopped() && self.scheduler.buffer().awaits_delivery()
    }

    fn awaits_receiving(&self) -> bool {
        self.incoming.bytes_held() > 0 && !self.incoming.is_readable() && !self.ending.refuses()
    }

    pub(super) fn has_usable_lane(&self) -> bool {
        (0..self.lanes.len()).any(|lane| self.scheduler.lane(lane).is_usable())
    }
}
