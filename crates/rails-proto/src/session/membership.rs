//! Lanes that join and end.

use super::{EventKind, Failure, LaneEnd, LaneId, Refused, Session, outage::Delivery};
use crate::scheduler::LaneTraits;
use std::time::Instant;

/// The reason why a lane does not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneUpError {
    /// The stream is over.
    StreamOver,
    /// The stream has [`MAX_LANES`](crate::parameters::MAX_LANES) lanes already.
    TooManyLanes,
}

impl Session {
    /// A lane has joined. It replaces an earlier connection with its number. If that connection was
    /// leaving the stream, the new one leaves too, and tells the peer.
    ///
    /// # Errors
    /// [`LaneUpError`]. Even if the stream has too many lanes, an earlier connection with the
    /// number ends.
    pub fn lane_up(&mut self, now: Instant, traits: LaneTraits) -> Result<LaneId, LaneUpError> {
        // A stream that is done may still owe the peer its last acknowledgement.
        if self.has_failed() {
            return Err(LaneUpError::StreamOver);
        }
        let is_leaving = self.lanes.replace(traits.number, &self.scheduler);
        let lane = self.lanes.join(self.receiving.window()).ok_or(LaneUpError::TooManyLanes)?;
        self.paths.up(traits.number);
        self.scheduler.lane_up(lane.0, traits);
        // The lane that told the peer the limit may have been lost with it.
        self.tell_limit(now);
        self.ending.has_returned();
        self.push_event(now, Some(lane), EventKind::Joined);
        self.outage.count_join();
        self.watch_for_outage(now);
        self.observe(now);
        if is_leaving {
            self.leave(now, lane);
        }
        Ok(lane)
    }

    /// A lane has ended.
    pub fn lane_down(&mut self, now: Instant, lane: LaneId, end: LaneEnd) {
        self.note_end(lane, end);
        // Both ends close a lane that leaves, and the peer may have done so before the stream was done.
        let is_leaving = self.lanes[lane].is_leaving();
        if end == LaneEnd::Closed && self.is_done() && !is_leaving {
            self.ending.settle();
        }
        let bytes_at_risk = if self.is_done() { 0 } else { self.scheduler.flight().at_risk(lane.0) };
        let rtt = self.scheduler.flight().lane_view(lane.0).rtt;
        self.scheduler.lane_lost(lane.0);
        self.receiving.lane_down(lane.0);
        self.lanes.remove(lane);
        // If it was the last lane of a stream that is done, either the peer is gone, or it has still to
        // hear of the end and dials again soon.
        if (end == LaneEnd::ByPeer || is_leaving) && self.is_done_without_lanes() {
            self.ending.expect_return(now, rtt, self.outage.limit());
            self.wakes.supervisor = true;
        }
        self.push_event(now, Some(lane), EventKind::Ended { bytes_at_risk });
        self.watch_for_outage(now);
        // All of them: the lost lane may have been the one that watched over another.
        self.lanes.wake_all();
        self.wakes.writer = true;
        self.owes_no_acknowledgement(lane);
        self.close_if_delivered(now);
        // Tasks may wait for what a lane still brings.
        if self.has_failed() {
            self.wake_all_tasks();
        }
        self.observe(now);
    }

    /// Takes a lane out of the stream. The scheduler gives it nothing more, and both ends close it
    /// when they have acknowledged all its chunks.
    pub fn leave(&mut self, now: Instant, lane: LaneId) {
        if self.lanes[lane].begin_leave() {
            self.scheduler.lane_mut(lane.0).retire();
            self.push_event(now, Some(lane), EventKind::Leaving);
            self.watch_for_outage(now);
            self.lanes.wake_all();
            self.observe(now);
        }
    }

    /// Takes the lane with that number out of the stream: both of its connections, if one is
    /// replacing the other. Returns whether there is one.
    pub fn leave_by_number(&mut self, now: Instant, number: u16) -> bool {
        let lanes: Vec<LaneId> = self.lanes().filter(|lane| self.scheduler.lane(lane.0).number() == number).collect();
        lanes.iter().for_each(|lane| self.leave(now, *lane));
        !lanes.is_empty()
    }

    /// Whether a lane is leaving the stream.
    pub fn is_leaving(&self, lane: LaneId) -> bool {
        self.lanes[lane].is_leaving()
    }

    /// The lanes that are up.
    pub fn lanes(&self) -> impl Iterator<Item = LaneId> + '_ {
        self.lanes.ids()
    }

    /// This end dials the lane of that number for the first time.
    pub fn dialled(&mut self, number: u16) {
        self.paths.dialled(number);
    }

    /// This end dialled the lane of that number, and the lane did not come up; `refused` says which
    /// part of the peer refused it, if it did. If the peer has refused every lane that was up,
    /// and none of them timed out, the stream fails: no peer is left.
    pub fn dial_failed(&mut self, now: Instant, number: u16, refused: Option<Refused>) {
        self.paths.dial_failed(number, refused);
        self.note_paths(now);
        if !self.paths.are_refused() {
            return;
        }
        if !self.is_over() && self.outage.is_counting(self.lanes.is_any_up()) {
            self.fail_for_want_of_lanes(now);
        }
        // No peer is left to hear of the end of a stream that is done.
        if self.is_done_without_lanes() {
            self.ending.settle();
            self.wakes.supervisor = true;
        }
    }

    /// Notes when the last usable lane is gone, and when one delivers again.
    pub(super) fn watch_for_outage(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        let has_lane = self.lanes.is_any_usable(&self.scheduler);
        let (delivered, owes_nothing) =
            (self.scheduler.buffer().delivered(), self.scheduler.flight().is_all_acknowledged());
        if let Some(kind) = self.outage.watch(now, Delivery { has_lane, delivered, owes_nothing }) {
            self.push_event(now, None, kind);
            if self.outage.limit().is_zero() {
                self.check_outage(now);
            }
        }
        self.note_paths(now);
    }

    /// Fails a stream whose outage has lasted too long.
    pub(super) fn check_outage(&mut self, now: Instant) {
        let is_any_up = self.lanes.is_any_up();
        if !self.is_over() && self.outage.check(now, is_any_up) {
            self.fail_for_want_of_lanes(now);
        }
    }

    /// Notes in an outage whether the peer's kernel has closed or refuses every lane.
    fn note_paths(&mut self, now: Instant) {
        self.wakes.supervisor |= self.outage.note_peer(now, self.paths.are_shut());
    }

    /// Notes how a lane ended. The lane is still in the list of lanes.
    fn note_end(&mut self, lane: LaneId, end: LaneEnd) {
        let number = self.scheduler.lane(lane.0).number();
        // Another connection may have taken the lane's place.
        let is_replaced = self.lanes().any(|other| other != lane && self.scheduler.lane(other.0).number() == number);
        if !is_replaced {
            self.paths.down(number, if self.lanes[lane].is_leaving() { LaneEnd::Own } else { end });
        }
    }

    fn fail_for_want_of_lanes(&mut self, now: Instant) {
        let delivered = self.receiving.bytes_in_order();
        let unacknowledged = self.scheduler.flight().bytes_unacknowledged();
        let joined_in_vain = self.outage.joined();
        self.fail(now, Failure::LanesLost { unacknowledged, delivered, joined_in_vain });
    }
}
