//! The decisions of a policy as a record: what it saw, what it answered, and what became of that.
//!
//! A [scheduler](crate::scheduler::Scheduler::record_decisions) that was asked to keeps the newest of its decisions in a ring. A
//! [`Record`] is written as text by [`Display`](std::fmt::Display) and read by [`FromStr`](std::str::FromStr), and its decisions can be
//! [replayed](Record::replay) under a policy.

mod file;
mod replay;
mod ring;

pub use file::RecordError;
pub use replay::Difference;
pub(crate) use ring::Recorder;

use crate::policy::{ChunkView, Decision, InFlight, LaneView, Policy, Requeued, SchedulerView, Sent, Streak};
use serde::{Deserialize, Serialize};
use serde_with::{As, DurationNanoSeconds};
use std::time::Duration;

/// What one direction of a stream decided, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The policy; `None` if it is the application's own.
    pub policy: Option<Policy>,
    /// How many entries there were before the first that is left.
    pub dropped: u64,
    /// What happened.
    pub entries: Vec<Entry>,
}

/// Something that happened, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Time since the first entry of the stream.
    #[serde(rename = "at_ns", with = "As::<DurationNanoSeconds<u64>>")]
    pub at: Duration,
    /// What happened.
    pub event: RecordedEvent,
}

/// What happened: a decision, or one of the callbacks of a [policy](crate::policy::StripePolicy).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedEvent {
    /// A lane with room asked.
    Decided(Decided),
    /// A lane was given bytes.
    Sent(Sent),
    /// The peer acknowledged bytes.
    Acked {
        /// The lane that had them in flight.
        lane: usize,
        /// How many.
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
    /// The answer of the policy.
    pub decision: Decision,
    /// What the scheduler did instead, because the policy left the stream standing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overruled: Option<Decision>,
    /// What the policy saw.
    pub view: Snapshot,
}

/// A [`SchedulerView`] that is kept, with what it would look up for the lane that asks.
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
    /// As [`SchedulerView::oldest`], of each other lane that has such a chunk.
    pub oldest: Vec<ChunkView>,
}

impl Snapshot {
    /// The view that was kept.
    pub fn view(&self) -> SchedulerView<'_> {
        let Self { waiting, requeued, longest_chunk, streak, ref lanes, .. } = *self;
        SchedulerView { waiting, requeued, longest_chunk, streak, lanes, in_flight: Some(self) }
    }

    /// Keeps what the policy sees for `lane`, in the memory that there is.
    fn keep(&mut self, view: &SchedulerView<'_>, lane: usize) {
        let SchedulerView { waiting, requeued, longest_chunk, streak, lanes, in_flight: _ } = *view;
        (self.waiting, self.requeued, self.longest_chunk, self.streak) = (waiting, requeued, longest_chunk, streak);
        self.lanes.clear();
        self.lanes.extend_from_slice(lanes);
        self.first = view.first(lane);
        self.oldest.clear();
        let others = (0..lanes.len()).filter(|other| *other != lane);
        self.oldest.extend(others.filter_map(|other| view.oldest(other, lane)));
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
