//! The state of a lane at one end, and the acknowledgements that it sends.

use super::{Connection, LaneId, health::Health, stalls::LaneClock, unused::Unused};
use crate::{
    parameters::ACK_TIMER,
    scheduler::ByteCount,
    wire::{Ack, Frame},
};
use std::time::Instant;

/// A lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) up: bool,
    /// The lane's last answer was [`Transmit::Idle`](super::Transmit::Idle), and nothing has woken it since.
    pub(super) idle: bool,
    /// A wake found the lane idle, and the lane has not asked since.
    pub(super) called: bool,
    /// Chunks that have arrived whole.
    pub(super) chunks: u64,
    /// When the last of them arrived.
    pub(super) arrived_at: Option<Instant>,
    /// The last acknowledgement that this end sent on the lane.
    pub(super) last_ack: LastAckSent,
    /// Bytes that have arrived since then.
    pub(super) unacknowledged: u64,
    /// When the first of them arrived.
    pub(super) since: Option<Instant>,
    pub(super) reset_sent: bool,
    pub(super) stop_sent: bool,
    pub(super) health: Health,
    pub(super) unused: Unused,
    /// Another connection has taken the lane's place.
    pub(super) replaced: bool,
    /// Whether the lane is leaving the stream.
    pub(super) leaving: bool,
    /// Whether the last `Leave` on this lane said that the peer has acknowledged everything sent on it; `None` before
    /// the first.
    pub(super) leave_sent: Option<bool>,
    /// The peer said that this end has acknowledged everything that it sent on the lane.
    pub(super) other_drained: bool,
    pub(super) clock: LaneClock,
    /// Bytes and chunks that arrived on the lane and had arrived before.
    pub(super) duplicates: ByteCount,
}

/// The reason why a lane does not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLane {
    /// The stream is over.
    StreamOver,
    /// The stream has [`MAX_LANES`](crate::parameters::MAX_LANES) lanes already.
    Full,
}

/// When a lane has to act without an event; `None` is never.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneTimeouts {
    /// When the lane sends an acknowledgement, unless it goes out with a chunk before.
    pub acknowledge: Option<Instant>,
    /// When the driver checks the lane's progress.
    pub progress: Option<Instant>,
    /// When the driver calls [`Connection::handle_timeout`], after which the linger time may be over.
    pub linger: Option<Instant>,
    /// Whether the lane ends at once, even with bytes in flight: the application has abandoned the stream, and the
    /// linger time is over.
    pub lingered: bool,
    /// Whether the lane ends at once, because another connection has taken its place.
    pub replaced: bool,
}

/// An acknowledgement that was sent.
#[derive(Debug, Default)]
pub(super) struct LastAckSent {
    pub(super) chunks: u64,
    pub(super) limit: u64,
    pub(super) complete: bool,
}

impl Lane {
    /// Wakes the lane if it is idle. Returns whether it was.
    pub(super) fn call(&mut self) -> bool {
        self.called |= self.idle;
        std::mem::take(&mut self.idle)
    }

    /// When the chunks that have arrived are to be acknowledged at the latest.
    fn acknowledge_at(&self) -> Option<Instant> {
        self.since.map(|since| since + ACK_TIMER)
    }

    /// Whether the chunks that have arrived are to be acknowledged now, with a receive window of `window` bytes.
    pub(super) fn owes_acknowledgement(&self, now: Instant, window: u64) -> bool {
        self.unacknowledged >= part(window, ACKS_PER_WINDOW) || self.acknowledge_at().is_some_and(|at| now >= at)
    }
}

impl Connection {
    /// When `lane` has to act without an event. Calls that name the lane may change it. After any other change,
    /// [`Wakes::lanes`](super::Wakes::lanes) names the lane.
    pub fn lane_timeouts(&mut self, lane: LaneId) -> LaneTimeouts {
        self.wakes.unset_timer(lane);
        let state = &self.lanes[lane.0];
        LaneTimeouts {
            acknowledge: state.acknowledge_at(),
            progress: self.progress_check_at(lane),
            linger: self.ending.check_at(self.is_done()),
            lingered: self.ending.has_lingered(),
            replaced: state.replaced,
        }
    }

    /// Ends the connections with that lane number. Returns whether one of them was leaving the stream.
    pub(super) fn replace(&mut self, number: u16) -> bool {
        let mut was_leaving = false;
        let scheduler = &self.scheduler;
        let is_earlier = |(index, lane): &(usize, &mut Lane)| lane.up && scheduler.lane(*index).number() == number;
        for (index, lane) in self.lanes.iter_mut().enumerate().filter(is_earlier) {
            lane.replaced = true;
            was_leaving |= lane.leaving;
            self.wakes.set_timer(LaneId(index));
        }
        was_leaving
    }

    /// Appends an acknowledgement if one is due, or if it says something new and a chunk goes out anyway.
    pub(super) fn acknowledge(&mut self, now: Instant, lane: LaneId, riding: bool, control: &mut Vec<u8>) -> bool {
        let complete = self.incoming.is_complete() && !self.ending.refuses();
        let (limit, window) = (self.incoming.limit(), self.incoming.window());
        let state = &mut self.lanes[lane.0];
        let news = state.chunks > state.last_ack.chunks;
        let due = complete && (news || !state.last_ack.complete)
            || state.owes_acknowledgement(now, window)
            || limit - state.last_ack.limit >= part(window, LIMITS_PER_WINDOW) && !complete;
        let worthwhile = due || riding && news;
        if !worthwhile {
            return false;
        }
        control.extend_from_slice(&Frame::Ack(Ack { chunks: state.chunks, limit, complete }).encode());
        state.last_ack = LastAckSent { chunks: state.chunks, limit, complete };
        state.unacknowledged = 0;
        state.since = None;
        self.has_acknowledged();
        true
    }

    /// Appends `Leave`, and once more when the peer has acknowledged everything sent on the lane.
    pub(super) fn say_leave(&mut self, lane: LaneId, control: &mut Vec<u8>) -> bool {
        let drained = self.scheduler.lane(lane.0).in_flight_chunks() == 0;
        let state = &mut self.lanes[lane.0];
        if state.leave_sent == Some(drained) || state.leave_sent == Some(true) {
            return false;
        }
        state.leave_sent = Some(drained);
        control.extend_from_slice(&Frame::Leave { drained }.encode());
        true
    }
}

/// A part of the window, at least a byte: else an end with a small window would send acknowledgements without end.
pub(super) fn part(window: u64, parts: u64) -> u64 {
    (window / parts).max(1)
}

/// A lane acknowledges at the latest after this part of the window.
const ACKS_PER_WINDOW: u64 = 8;
/// A lane tells the peer a new limit when the limit has moved by this part of the window.
pub(super) const LIMITS_PER_WINDOW: u64 = 4;
