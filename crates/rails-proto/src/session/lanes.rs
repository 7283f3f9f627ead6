//! The lanes of a stream, and the wakes of their drivers.
//!
//! While the stream is at work, idle lanes stand by: the thread of a lane may be busy with
//! something else.

use super::{
    LaneId,
    lane::Lane,
    progress::LaneProgress,
    stalls::Cause,
    wakes::{LaneWakes, NEEDS_NO_ROOM},
};
use crate::{
    mutation::{self, Mutation},
    parameters::MAX_LANES,
    scheduler::Scheduler,
};
use std::{
    ops::{Index, IndexMut},
    time::{Duration, Instant},
};

/// The lanes of a stream, by slot.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// The slot of the lane that waiting bytes go to first: the one on which the latest chunk has
    /// arrived; before any has, the one that the writer prefers.
    preferred: Option<usize>,
    wakes: LaneWakes,
}

impl Lanes {
    /// The lanes that are up.
    pub(super) fn ids(&self) -> impl Iterator<Item = LaneId> + '_ {
        self.lanes.iter().enumerate().filter(|(_, lane)| lane.is_up()).map(|(index, _)| LaneId(index))
    }

    /// Whether a lane is up, even if it has stalled.
    pub(super) fn is_any_up(&self) -> bool {
        self.ids().next().is_some()
    }

    pub(super) fn is_any_usable(&self, scheduler: &Scheduler) -> bool {
        (0..self.lanes.len()).any(|lane| scheduler.lane(lane).is_usable())
    }

    /// Whether a usable lane is idle. `None` without a usable lane.
    pub(super) fn is_any_usable_idle(&self, scheduler: &Scheduler) -> Option<bool> {
        let usable = self.lanes.iter().enumerate().filter(|(index, _)| scheduler.lane(*index).is_usable());
        usable.map(|(_, lane)| lane.is_idle()).reduce(|one, other| one || other)
    }

    /// Whether the stream waits for nothing but an answer to the bytes in flight on one usable
    /// lane. That lane has checks of its own.
    pub(super) fn wait_for_one(&self, scheduler: &Scheduler) -> bool {
        let mut at_work = (0..self.lanes.len()).filter(|lane| scheduler.lane(*lane).in_flight() > 0);
        scheduler.streams().bytes() == 0
            && scheduler.buffer().lanes_worth_of_work() == 0
            && !scheduler.streams().are_finished()
            && at_work.next().is_none_or(|lane| scheduler.lane(lane).is_usable())
            && at_work.next().is_none()
    }

    pub(super) fn longest_round_trip(&self, scheduler: &Scheduler) -> Duration {
        self.ids().filter_map(|lane| scheduler.flight().lane_view(lane.0).rtt).max().unwrap_or_default()
    }

    /// The progress of the lanes that are up.
    pub(super) fn progress<'a>(
        &'a self,
        now: Instant,
        scheduler: &'a Scheduler,
    ) -> impl Iterator<Item = LaneProgress> + 'a {
        let ago = move |at: Instant| now.saturating_duration_since(at);
        self.ids().map(move |lane| LaneProgress {
            lane,
            number: scheduler.lane(lane.0).number(),
            state: self[lane].state(),
            unacknowledged: scheduler.lane(lane.0).in_flight(),
            last_progress: scheduler.lane(lane.0).acknowledged_at().map(ago),
            last_arrival: self[lane].acknowledger().arrived_at().map(ago),
            rtt: scheduler.flight().lane_view(lane.0).rtt,
        })
    }

    /// Whether chunks have arrived that this end has not acknowledged.
    pub(super) fn have_unacknowledged(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_up() && lane.acknowledger().has_unacknowledged())
    }

    /// Whether a lane has told the peer that everything has arrived.
    pub(super) fn have_acknowledged_end(&self) -> bool {
        self.lanes.iter().any(|lane| lane.acknowledger().has_acknowledged_end())
    }

    // Lanes come and go.

    /// A lane has joined. The peer knows `window` as its first limit. `None` if the stream has too
    /// many lanes.
    pub(super) fn join(&mut self, window: u64) -> Option<LaneId> {
        let free = self.lanes.iter().position(|lane| !lane.is_up()).unwrap_or(self.lanes.len());
        if free >= MAX_LANES {
            return None;
        }
        if free == self.lanes.len() {
            self.lanes.push(Lane::default());
        }
        self.lanes[free] = Lane::joined(window);
        Some(LaneId(free))
    }

    /// A lane has ended.
    pub(super) fn remove(&mut self, lane: LaneId) {
        self[lane] = Lane::default();
    }

    /// Ends the connections with that lane number. Returns whether one of them was leaving the
    /// stream.
    pub(super) fn replace(&mut self, number: u16, scheduler: &Scheduler) -> bool {
        let mut was_leaving = false;
        let is_earlier = |(index, lane): &(usize, &mut Lane)| lane.is_up() && scheduler.lane(*index).number() == number;
        for (index, lane) in self.lanes.iter_mut().enumerate().filter(is_earlier) {
            lane.replace();
            was_leaving |= lane.is_leaving();
            self.wakes.set_timer(LaneId(index));
        }
        was_leaving
    }

    // Wakes.

    /// Takes the lanes to wake since the last call.
    pub(super) fn take_wakes(&mut self) -> LaneWakes {
        std::mem::take(&mut self.wakes)
    }

    /// Takes the lanes to wake, without those that matter only to a stream that waits for more than
    /// one lane.
    pub(super) fn take_urgent_wakes(&mut self) -> LaneWakes {
        self.wakes.take_urgent()
    }

    /// Whether a lane is to stand by, of which a driver does not know yet.
    pub(super) fn have_standing_by(&self) -> bool {
        self.wakes.have_standing_by()
    }

    /// Prefers the lane that `near` gives for waiting bytes, until a chunk has arrived and if the
    /// lane is as good as the others.
    pub(super) fn prefer(&mut self, near: impl FnOnce() -> Option<LaneId>) {
        if self.preferred.is_none() {
            self.preferred = near().map(|lane| lane.0);
        }
    }

    /// A chunk of `length` bytes has arrived whole on `lane`, with a receive window of `window`
    /// bytes: wakes the lane if an acknowledgement is due.
    pub(super) fn arrived(&mut self, now: Instant, lane: LaneId, length: u32, window: u64) {
        self.preferred = Some(lane.0);
        if self[lane].arrived(now, length, window) {
            self.wake(lane);
        }
        // The transport tells whether the way to the peer works too.
        if self[lane].health().is_link_long_down(now) {
            self.link_up(now, lane);
        }
    }

    /// Wakes a lane if it is idle.
    pub(super) fn wake(&mut self, lane: LaneId) {
        if self[lane].wake() {
            self.wakes.wake(lane);
        }
    }

    /// Wakes the lane that waiting bytes go to first, or another usable one.
    pub(super) fn wake_any(&mut self, scheduler: &Scheduler) {
        let mut order = self.preferred.into_iter().chain(0..self.lanes.len());
        let is_usable =
            |lane: &usize| self.lanes.get(*lane).is_some_and(Lane::is_up) && scheduler.lane(*lane).is_usable();
        if let Some(lane) = order.find(is_usable) {
            self.lanes[lane].wake();
            self.wakes.wake(LaneId(lane));
        }
    }

    pub(super) fn wake_all(&mut self) {
        for (index, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_up()) {
            lane.wake();
            self.wakes.wake(LaneId(index));
        }
    }

    /// Wakes as many idle lanes as there is work for.
    pub(super) fn wake_for_work(&mut self, now: Instant, scheduler: &mut Scheduler) {
        let mut work = scheduler.buffer().lanes_worth_of_work();
        if work == 0 {
            return;
        }
        // A lane that another call has woken, and that has room, takes a chunk too: to wake another lane
        // costs more than it saves.
        for (index, _) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.is_woken()) {
            if work > 0 && scheduler.lane(index).in_flight() < NEEDS_NO_ROOM && scheduler.wants(now, index) {
                work -= 1;
            }
        }
        // The lane of the latest arrival comes first: an answer carries its acknowledgement.
        for index in self.preferred.into_iter().chain(0..self.lanes.len()) {
            let Some(lane) = self.lanes.get_mut(index).filter(|lane| lane.is_up() && lane.is_idle()) else { continue };
            if work > 0 && scheduler.wants(now, index) {
                lane.wake();
                self.wakes.wake(LaneId(index));
                work -= 1;
            }
        }
    }

    /// The application has read: lanes tell the peer the new limit when it has moved enough.
    pub(super) fn wake_for_limit(&mut self, limit: u64, window: u64) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.is_up() && lane.acknowledger().needs_limit_update(limit, window) && lane.wake() {
                self.wakes.wake(LaneId(index));
            }
        }
    }

    /// The application of a session of many streams has read. The bytes of one stream may be so
    /// many that the limit never moves far enough by those of the others: the peer, which may have
    /// nothing left to send, then learns of it in time.
    pub(super) fn owe_limit(&mut self, now: Instant, limit: u64, arrived: u64) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let owes = lane.is_up() && !mutation::has(Mutation::LimitNotOwed);
            if owes && lane.owe_limit(now, limit, arrived) {
                self.wakes.set_timer(LaneId(index));
            }
        }
    }

    // Timeouts.

    /// `lane` knows its timeouts.
    pub(super) fn unset_timer(&mut self, lane: LaneId) {
        self.wakes.unset_timer(lane);
    }

    /// Every lane has an earlier timeout than it knows.
    pub(super) fn set_timers(&mut self) {
        for (index, _) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.is_up()) {
            self.wakes.set_timer(LaneId(index));
        }
    }

    /// Has the driver check the progress of `lane` by `at`, and wakes a driver that would sleep
    /// longer.
    pub(super) fn check_by(&mut self, lane: LaneId, at: Instant) {
        if self[lane].check_by(at) {
            self.wakes.set_timer(lane);
        }
    }

    /// The link under `lane` is up again.
    pub(super) fn link_up(&mut self, now: Instant, lane: LaneId) {
        if self[lane].link_up() {
            self.check_by(lane, now);
        }
    }

    /// No link counts as down any more.
    pub(super) fn links_up(&mut self, now: Instant) {
        (0..self.lanes.len()).for_each(|lane| self.link_up(now, LaneId(lane)));
    }

    /// The stream is at work: idle lanes check its progress after a while.
    pub(super) fn stand_by(&mut self, now: Instant, scheduler: &Scheduler) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            // A lane with bytes in flight has a check of its own.
            let has_none = scheduler.lane(index).in_flight_chunks() == 0;
            if lane.is_up()
                && lane.is_idle()
                && has_none
                && scheduler.lane(index).is_usable()
                && lane.stand_by(now, now + STAND_BY)
            {
                self.wakes.stand_by(LaneId(index));
            }
        }
    }

    /// Drivers that do not know yet that a lane is to stand by need not wake it.
    pub(super) fn stand_down(&mut self) {
        self.wakes.stand_down().for_each(|lane| self[lane].stand_down());
    }

    /// Wakes `lane`, which has nothing in flight, if others have left work undone or its probe is
    /// due, and sets its next check. Returns for how long the lane has not been used, if an
    /// event is to report it.
    pub(super) fn check_others(&mut self, now: Instant, lane: LaneId, scheduler: &mut Scheduler) -> Option<Duration> {
        if !self[lane].is_idle() || !scheduler.lane(lane.0).is_usable() || !scheduler.buffer().is_at_work() {
            self[lane].stand_down();
            return None;
        }
        self[lane].set_check(Some(now + STAND_BY));
        let is_missed = scheduler.wants(now, lane.0) || scheduler.is_first_overdue(now);
        let is_probed = self[lane].probe_if_due(now, !is_missed && scheduler.can_probe(lane.0));
        if is_missed || is_probed {
            // The thread of the lane that was woken for it may be busy with something else.
            self.wake(lane);
        }
        if is_probed { self[lane].report_unused(now) } else { None }
    }

    // Time.

    /// Switches the lanes' clocks at `now`, while the stream does not send more for that cause.
    pub(super) fn observe(&mut self, now: Instant, cause: Cause) {
        self.lanes.iter_mut().filter(|lane| lane.is_up()).for_each(|lane| lane.observe(now, cause));
    }
}

impl Index<LaneId> for Lanes {
    type Output = Lane;

    fn index(&self, lane: LaneId) -> &Lane {
        &self.lanes[lane.0]
    }
}

impl IndexMut<LaneId> for Lanes {
    fn index_mut(&mut self, lane: LaneId) -> &mut Lane {
        &mut self.lanes[lane.0]
    }
}

/// How often an idle lane checks, while the stream is at work, whether the other lanes take the
/// work. Each check wakes a thread.
const STAND_BY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
