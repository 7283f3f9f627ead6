//! What happened to a stream's lanes, as a record.

use crate::RailId;
use rails_proto::{
    connection::{Event, EventKind, LaneProgress, StandstillCause},
    handshake::StreamId,
};
use serde::Serialize;
use serde_with::{As, DurationMilliSecondsWithFrac};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};
use tokio::sync::broadcast;

/// Something that happened to a lane of a stream, or to all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamEvent {
    /// Time since this end of the stream was made.
    #[serde(rename = "at_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
    pub at: Duration,
    /// The lane's number; `None` where it is about all of them.
    pub lane: Option<u16>,
    /// The rail that the lane runs on at this end.
    pub rail: Option<RailId>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
    /// How the lane ended, where it ended otherwise than it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Keeps the newest events, and tells those who listen.
#[derive(Debug)]
pub(super) struct EventLog {
    stream: StreamId,
    start: Instant,
    kept: VecDeque<StreamEvent>,
    listeners: broadcast::Sender<StreamEvent>,
}

impl EventLog {
    pub(super) fn new(stream: StreamId) -> Self {
        Self { stream, start: Instant::now(), kept: VecDeque::new(), listeners: broadcast::Sender::new(MOST_KEPT) }
    }

    /// Takes an event; `whose` is the lane's number and rail, and `error` how it ended.
    pub(super) fn add(&mut self, event: Event, whose: Option<(u16, RailId)>, error: Option<String>) {
        let at = event.at.saturating_duration_since(self.start);
        let (lane, rail) = whose.unzip();
        let event = StreamEvent { at, lane, rail, kind: event.kind, error };
        event.log(self.stream);
        if self.kept.len() == MOST_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(event.clone());
        // Nobody may be listening, and that is fine.
        let _ = self.listeners.send(event);
    }

    /// Says why the stream stands still, and what each lane does meanwhile.
    pub(super) fn log_standstill(&self, cause: StandstillCause, stood_for: Duration, lanes: &[LaneProgress]) {
        let lanes: Vec<String> = lanes.iter().map(ToString::to_string).collect();
        let lanes = lanes.join("; ");
        tracing::warn!(stream = %self.stream, ?cause, ?stood_for, lanes, "the stream makes no progress: {cause}");
    }

    pub(super) fn kept(&self) -> Vec<StreamEvent> {
        self.kept.iter().cloned().collect()
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<StreamEvent> {
        self.listeners.subscribe()
    }
}

impl StreamEvent {
    /// A lane that was lost, has stalled or is of no use, and a stream that stands still, are warnings; the rest is quieter.
    fn log(&self, stream: StreamId) {
        let lane = self.lane.map(tracing::field::display);
        let error = self.error.as_ref().map(tracing::field::display);
        match self.kind {
            EventKind::Stalled { .. } | EventKind::Outage => {
                tracing::warn!(%stream, lane, event = ?self.kind, "a lane cannot be used");
            }
            EventKind::Unused { .. } => tracing::warn!(%stream, lane, event = ?self.kind, "a lane is not used"),
            EventKind::Ended { .. } if error.is_some() => {
                tracing::warn!(%stream, lane, error, event = ?self.kind, "a lane was lost");
            }
            EventKind::Restored { .. } | EventKind::Resumed { .. } => {
                tracing::info!(%stream, lane, event = ?self.kind, "a lane can be used again");
            }
            // It was logged with its lanes.
            EventKind::Standstill { .. } => {}
            EventKind::Moved { after } => tracing::warn!(%stream, ?after, "the stream makes progress again"),
            _ => tracing::debug!(%stream, lane, event = ?self.kind, "a lane's life"),
        }
    }
}

/// How many events are kept, and how many a listener may lag behind.
const MOST_KEPT: usize = 256;
