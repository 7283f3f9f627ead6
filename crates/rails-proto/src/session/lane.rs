//! A lane at one end of a stream.

use super::{
    acknowledger::{Acknowledger, ReceiveState},
    health::{CheckOutcome, Health},
    leave::Leave,
    progress::LaneState,
    stalls::{Cause, LaneClock, LaneTimes},
    unused::Unused,
};
use crate::{link::LinkSample, scheduler::ByteCount, wire::Ack};
use std::time::{Duration, Instant};

/// The state of a lane, made of parts.
#[derive(Debug, Default)]
pub(super) struct Lane {
    up: bool,
    /// The lane's last answer was [`Transmit::Idle`](super::Transmit::Idle), and nothing has woken
    /// it since.
    idle: bool,
    /// A wake found the lane idle, and the lane has not asked since.
    woken: bool,
    acknowledger: Acknowledger,
    reset_sent: bool,
    stop_sent: bool,
    health: Health,
    unused: Unused,
    /// Another connection has taken the lane's place.
    replaced: bool,
    leave: Leave,
    clock: LaneClock,
    /// Bytes and chunks that arrived on the lane and had arrived before.
    duplicates: ByteCount,
}

/// When a lane has to act without an event; `None` is never.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneTimeouts {
    /// When the lane sends an acknowledgement, unless it goes out with a chunk before.
    pub acknowledge: Option<Instant>,
    /// When the driver checks the lane's progress.
    pub progress: Option<Instant>,
    /// When the driver calls [`Session::handle_timeout`](super::Session::handle_timeout),
    /// after which the linger time may be over.
    pub linger: Option<Instant>,
    /// Whether the lane ends at once, even with bytes in flight: the application has abandoned the
    /// stream, and the linger time is over.
    pub lingered: bool,
    /// Whether the lane ends at once, because another connection has taken its place.
    pub replaced: bool,
}

impl Lane {
    /// A lane that has joined. The peer knows `window` as its first limit.
    pub(super) fn joined(window: u64) -> Self {
        Self { up: true, acknowledger: Acknowledger::new(window), ..Self::default() }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// Another connection takes the lane's place.
    pub(super) fn replace(&mut self) {
        self.replaced = true;
    }

    /// Whether another connection has taken the lane's place.
    pub(super) fn is_replaced(&self) -> bool {
        self.replaced
    }

    // Whether the lane asks for something to send.

    /// Notes that the lane asks for something to send.
    pub(super) fn ask(&mut self) {
        self.woken = false;
    }

    /// Notes that the lane has room, and nothing to send: it is idle.
    pub(super) fn rest(&mut self) {
        self.idle = true;
    }

    /// Wakes the lane if it is idle. Returns whether it was.
    pub(super) fn wake(&mut self) -> bool {
        self.woken |= self.idle;
        std::mem::take(&mut self.idle)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.idle
    }

    /// Whether a wake found the lane idle, and the lane has not asked since.
    pub(super) fn is_woken(&self) -> bool {
        self.woken
    }

    /// Has the lane reset the stream. Returns whether that is news to the peer.
    pub(super) fn say_reset(&mut self) -> bool {
        !std::mem::replace(&mut self.reset_sent, true)
    }

    /// Has the lane say that this end reads no more. Returns whether that is news to the peer.
    pub(super) fn say_stop(&mut self) -> bool {
        !std::mem::replace(&mut self.stop_sent, true)
    }

    // How the lane leaves the stream.

    /// The lane leaves the stream. Returns whether that is news.
    pub(super) fn begin_leave(&mut self) -> bool {
        self.up && self.leave.begin()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leave.has_begun()
    }

    /// The peer said whether this end has acknowledged everything that it sent on the lane.
    pub(super) fn peer_says_leave(&mut self, drained: bool) {
        self.leave.peer_says(drained);
    }

    /// Whether the lane says `Leave` now. `drained` says whether the peer has acknowledged
    /// everything sent on it.
    pub(super) fn says_leave(&mut self, drained: bool) -> bool {
        self.leave.says(drained)
    }

    /// Whether the lane has left: each end has acknowledged all that the other sent on it.
    pub(super) fn has_left(&self) -> bool {
        self.leave.is_agreed() && !self.acknowledger.has_unacknowledged()
    }

    // Arrivals on the lane.

    /// A chunk of `length` bytes has arrived whole. Returns whether an acknowledgement is due now.
    pub(super) fn arrived(&mut self, now: Instant, length: u32, window: u64) -> bool {
        self.acknowledger.arrived(now, length, window)
    }

    /// The chunk that arrived had `bytes` that had arrived before.
    pub(super) fn count_duplicate(&mut self, bytes: u64) {
        self.duplicates.add(bytes);
    }

    /// Bytes and chunks that arrived on the lane and had arrived before.
    pub(super) fn duplicates(&self) -> ByteCount {
        self.duplicates
    }

    /// The acknowledgements that this end sends on the lane.
    pub(super) fn acknowledger(&self) -> &Acknowledger {
        &self.acknowledger
    }

    /// Has an acknowledgement become due if the peer may wait for the limit. Returns whether that
    /// is news for the lane's timer.
    pub(super) fn owe_limit(&mut self, now: Instant, limit: u64, arrived: u64) -> bool {
        self.acknowledger.owe_limit(now, limit, arrived)
    }

    /// Makes an acknowledgement if one is due, or if a chunk goes out anyway and the
    /// acknowledgement says something new.
    pub(super) fn acknowledge(&mut self, now: Instant, state: ReceiveState, has_chunk: bool) -> Option<Ack> {
        self.acknowledger.acknowledge(now, state, has_chunk)
    }

    // The lane's progress, and its use by the scheduler.

    /// The progress of the lane.
    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    /// Checks whether the lane makes progress; see [`Health::check`].
    pub(super) fn check(
        &mut self,
        now: Instant,
        link: &LinkSample,
        stalled_for: Option<Duration>,
        progress_at: Option<Instant>,
    ) -> CheckOutcome {
        self.health.check(now, link, stalled_for, progress_at)
    }

    /// Has the lane checked at `at`, or not at all.
    pub(super) fn set_check(&mut self, at: Option<Instant>) {
        self.health.set_check(at);
    }

    /// Has the lane checked by `at`. Returns whether that is earlier than before.
    pub(super) fn check_by(&mut self, at: Instant) -> bool {
        self.health.check_by(at)
    }

    /// The lane stalls. Returns when to check it next, if not only an event can change anything.
    pub(super) fn stall(&mut self, now: Instant) -> Option<Instant> {
        self.health.stall(now)
    }

    /// The stalled lane makes progress again. Returns since when it was stalled.
    pub(super) fn restore(&mut self) -> Option<Instant> {
        self.unused.begin_anew();
        self.health.restore()
    }

    /// The link went down. Returns whether the lane stalls by that.
    pub(super) fn link_down(&mut self) -> bool {
        self.up && self.health.link_down()
    }

    /// The link is up again. Returns whether the lane is to be checked now.
    pub(super) fn link_up(&mut self) -> bool {
        self.health.link_up()
    }

    /// The policy gave the lane something.
    pub(super) fn used(&mut self, now: Instant) {
        self.unused.used(self.clock.left_to_others(now));
    }

    /// Whether the lane, which asks and gets nothing else, gets a probe now.
    pub(super) fn take_probe(&mut self) -> bool {
        self.unused.take_probe()
    }

    /// The stream is at work, and the lane is idle: it checks by `at` whether the others take the
    /// work. Returns whether that is earlier than the lane knows.
    pub(super) fn stand_by(&mut self, now: Instant, at: Instant) -> bool {
        self.unused.begin(now);
        self.health.check_by(at)
    }

    /// The lane needs no check.
    pub(super) fn stand_down(&mut self) {
        self.unused.end();
        self.health.set_check(None);
    }

    /// The lane stands by, and checks whether the others take the work. Returns whether a probe is
    /// due, of a lane that `may_probe`.
    pub(super) fn probe_if_due(&mut self, now: Instant, may_probe: bool) -> bool {
        self.unused.begin(now);
        may_probe && self.unused.probe_if_due(now)
    }

    /// Returns for how long the lane has not been used, if an event is to report it.
    pub(super) fn report_unused(&mut self, now: Instant) -> Option<Duration> {
        self.unused.report(self.clock.left_to_others(now))
    }

    /// Whether an event has reported the lane as unused.
    pub(super) fn is_unused(&self) -> bool {
        self.unused.is_reported()
    }

    // The lane's time.

    /// Switches the lane's clock at `now`, while the stream does not send more for that cause.
    pub(super) fn observe(&mut self, now: Instant, cause: Cause) {
        self.clock.switch(now, cause, self.health.is_stalled(), self.idle);
    }

    /// The lane's time while it was up, by activity.
    pub(super) fn times(&self, now: Instant) -> LaneTimes {
        self.clock.times(now)
    }

    pub(super) fn state(&self) -> LaneState {
        match () {
            () if self.health.is_link_down() => LaneState::LinkDown,
            () if self.health.is_stalled() => LaneState::Stalled,
            () if self.is_leaving() => LaneState::Leaving,
            () if self.idle => LaneState::Idle,
            () => LaneState::Busy,
        }
    }
}
