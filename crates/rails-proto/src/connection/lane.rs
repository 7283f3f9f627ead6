//! The state of a lane at one end, and the acknowledgements that it sends.

use super::{Connection, LaneId, health::Health, stalls::LaneClock, unused::Unused};
use crate::{
    parameters::ACK_DELAY,
    scheduler::ByteCount,
    wire::{Ack, Frame},
};
use std::time::Instant;

/// A lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) up: bool,
    pub(super) number: u16,
    /// Its last answer was [`Transmit::Idle`](super::Transmit::Idle), and it was not woken since.
    pub(super) idle: bool,
    /// It was woken while idle, and has not asked since.
    pub(super) called: bool,
    /// Chunks that have arrived whole.
    pub(super) chunks: u64,
    /// The last acknowledgement that was sent on this lane.
    pub(super) last_ack: LastAckSent,
    /// Bytes that have arrived since then.
    pub(super) unacknowledged: u64,
    /// When the first of them arrived.
    pub(super) since: Option<Instant>,
    pub(super) reset_sent: bool,
    pub(super) stop_sent: bool,
    pub(super) health: Health,
    pub(super) unused: Unused,
    /// Another connection has taken its place.
    pub(super) replaced: bool,
    /// The lane is taken out of the stream.
    pub(super) leaving: bool,
    /// The last `Leave` that was sent on this lane: whether everything sent on it is acknowledged.
    pub(super) leave_sent: Option<bool>,
    /// The peer said that everything it sent on the lane is acknowledged.
    pub(super) other_drained: bool,
    pub(super) clock: LaneClock,
    /// Bytes and chunks that arrived on it and had arrived before.
    pub(super) duplicates: ByteCount,
}

/// Why a lane does not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLane {
    /// The stream is over.
    StreamOver,
    /// It has as many as it may have, [`MOST_LANES`](crate::parameters::MOST_LANES).
    Full,
}

/// When a lane has to act without an event; `None` is never.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneTimeouts {
    /// The lane sends an acknowledgement, unless a chunk carries it before.
    pub acknowledge: Option<Instant>,
    /// Its progress is checked.
    pub progress: Option<Instant>,
    /// The lane ends, even with bytes in flight: its stream was abandoned, and the linger time is over.
    pub end: Option<Instant>,
    /// It ends at once: another connection has taken its place.
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
    /// Wakes it if it is idle. Gives whether it was.
    pub(super) fn call(&mut self) -> bool {
        self.called |= self.idle;
        std::mem::take(&mut self.idle)
    }
}

impl Connection {
    /// When `lane` has to act without an event. Calls that name the lane may change it. After any other change,
    /// [`Wakes::lanes`](super::Wakes::lanes) names the lane.
    pub fn lane_timeouts(&mut self, lane: LaneId) -> LaneTimeouts {
        self.wakes.unset_timer(lane);
        let state = &self.lanes[lane.0];
        LaneTimeouts {
            acknowledge: state.since.map(|since| since + ACK_DELAY),
            progress: self.progress_check_at(lane),
            end: self.lanes_end(),
            replaced: state.replaced,
        }
    }

    /// Ends the connections with that lane number. Gives whether one of them was being taken out of the stream.
    pub(super) fn replace(&mut self, number: u16) -> bool {
        let mut was_leaving = false;
        for (index, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.up && lane.number == number) {
            lane.replaced = true;
            was_leaving |= lane.leaving;
            self.wakes.set_timer(LaneId(index));
        }
        was_leaving
    }

    /// Appends an acknowledgement if one is due, or if there is news and a chunk goes out anyway.
    pub(super) fn acknowledge(&mut self, now: Instant, lane: LaneId, riding: bool, control: &mut Vec<u8>) -> bool {
        let complete = self.incoming.is_complete() && !self.refuses();
        let limit = self.incoming.limit();
        let state = &mut self.lanes[lane.0];
        let news = state.chunks > state.last_ack.chunks;
        let due = complete && (news || !state.last_ack.complete)
            || state.unacknowledged >= part(self.parameters.window, ACKS_PER_WINDOW)
            || state.since.is_some_and(|since| now >= since + ACK_DELAY)
            || limit - state.last_ack.limit >= part(self.parameters.window, LIMITS_PER_WINDOW) && !complete;
        let worthwhile = due || riding && news;
        if !worthwhile {
            return false;
        }
        control.extend_from_slice(&Frame::Ack(Ack { chunks: state.chunks, limit, complete }).encode());
        state.last_ack = LastAckSent { chunks: state.chunks, limit, complete };
        state.unacknowledged = 0;
        state.since = None;
        true
    }

    /// Appends `Leave`, and once more when everything sent on the lane has been acknowledged.
    pub(super) fn say_leave(&mut self, lane: LaneId, control: &mut Vec<u8>) -> bool {
        let drained = self.scheduler.in_flight_chunks(lane.0) == 0;
        let state = &mut self.lanes[lane.0];
        if state.leave_sent == Some(drained) || state.leave_sent == Some(true) {
            return false;
        }
        state.leave_sent = Some(drained);
        control.extend_from_slice(&Frame::Leave { drained }.encode());
        true
    }
}

/// A part of the window, at least a byte: else a small window would be acknowledged without end.
pub(super) fn part(window: u64, parts: u64) -> u64 {
    (window / parts).max(1)
}

/// A lane acknowledges at the latest after this part of the window.
pub(super) const ACKS_PER_WINDOW: u64 = 8;
/// The limit is told anew when it has moved by this part of the window.
pub(super) const LIMITS_PER_WINDOW: u64 = 4;
