//! The decisions of a policy as a record: its views, its answers, and the events that followed.
//!
//! On request, a [connection](crate::session::Session::record_decisions) keeps the newest of
//! its decisions in a ring. [`Display`](std::fmt::Display) writes a [`Record`] as text and
//! [`FromStr`](std::str::FromStr) reads it. [`Record::replay`] makes its decisions again under a
//! policy.
//!
//! Each `lane` in a record is a lane's slot ([`LaneId`](crate::session::LaneId)).
//! [`Record::numbers`] and [`RecordedEvent::Joined`] map it to the lane's number, which the log,
//! the events and the statistics use.

mod file;
mod replay;
mod ring;

use crate::policy::{ChunkView, Decision, InFlight, LaneView, Policy, Requeued, SchedulerView, Sent, Streak};
pub use file::RecordError;
pub use replay::Difference;
pub(crate) use ring::Recorder;
use serde::{Deserialize, Serialize};
use serde_with::{As, DurationNanoSeconds};
use std::time::Duration;

/// The decisions and events of one direction of a stream, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The policy; `None` if it is the application's own.
    pub policy: Option<Policy>,
    /// The number of entries dropped before the first one in the record.
    pub dropped: u64,
    /// The number of the lane in each slot before the first entry in the record; `None` if there
    /// was none.
    pub numbers: Vec<Option<u16>>,
    /// The entries.
    pub entries: Vec<Entry>,
}

/// An event, and its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Time since the first entry of the stream.
    #[serde(rename = "at_ns", with = "As::<DurationNanoSeconds<u64>>")]
    pub at: Duration,
    /// The event.
    pub event: RecordedEvent,
}

/// An event: a decision, one of the callbacks of a [policy](crate::policy::StripePolicy), or a lane
/// that joined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedEvent {
    /// A lane with room asked for bytes.
    Decided(Decided),
    /// A lane has joined. A replay ignores it: no policy knows a lane's number.
    Joined {
        /// The lane's slot.
        slot: usize,
        /// The lane's number, the same at both ends and in all of its connections.
        number: u16,
    },
    /// A lane took bytes.
    Sent(Sent),
    /// The peer acknowledged bytes.
    Acked {
        /// The lane that had the bytes in flight.
        lane: usize,
        /// The number of bytes.
        bytes: u64,
    },
    /// A lane was lost, or has stalled.
    Lost {
        /// The lane.
        lane: usize,
    },
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// The lane that asked.
    pub lane: usize,
    /// The policy's answer.
    pub decision: Decision,
    /// The scheduler's own decision, if it overruled a policy that left the stream standing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overruled: Option<Decision>,
    /// The policy's view.
    pub view: Snapshot,
}

/// A copy of a [`SchedulerView`], with the chunks that it would look up for the lane that asks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// As [`SchedulerView::waiting`].
    pub waiting: Option<usize>,
    /// As [`SchedulerView::requeued`].
    pub requeued: Option<Requeued>,
    /// As [`SchedulerView::longest_chunk`].
    pub longest_chunk: usize,
    /// As [`SchedulerView::streak`].
    pub streak: Option<Streak>,
    /// As [`SchedulerView::lanes`].
    pub lanes: Vec<LaneView>,
    /// As [`SchedulerView::first`].
    pub first: Option<ChunkView>,
    /// As [`SchedulerView::oldest`], for each other lane that has such a chunk.
    pub oldest: Vec<ChunkView>,
}

impl Snapshot {
    /// The recorded view.
    pub fn view(&self) -> SchedulerView<'_> {
        let Self { waiting, requeued, longest_chunk, streak, ref lanes, .. } = *self;
        SchedulerView { waiting, requeued, longest_chunk, streak, lanes, in_flight: Some(self) }
    }

    /// Makes this a copy of the policy's view for `lane`, and reuses its memory.
    pub(crate) fn of(mut self, view: &SchedulerView<'_>, lane: usize) -> Self {
        let SchedulerView { waiting, requeued, longest_chunk, streak, lanes, in_flight: _ } = *view;
        (self.waiting, self.requeued, self.longest_chunk, self.streak) = (waiting, requeued, longest_chunk, streak);
        self.lanes.clear();
        self.lanes.extend_from_slice(lanes);
        self.first = view.first(lane);
        self.oldest.clear();
        let others = (0..lanes.len()).filter(|other| *other != lane);
        self.oldest.extend(others.filter_map(|other| view.oldest(other, lane)));
        self
    }
}

impl InFlight for Snapshot {
    fn first(&self, _: usize) -> Option<ChunkView> {
        self.first
    }

    fn oldest(&self, lane: usize, _: usize) -> Option<ChunkView> {
        self.oldest.iter().find(|chunk| chunk.lane == lane).copied()
    }
}

#[cfg(test)]
mod tests;
