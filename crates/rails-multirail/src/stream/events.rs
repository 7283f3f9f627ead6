//! The record of events of a stream and its lanes.

use crate::RailId;
use rails_proto::{
    handshake::StreamId,
    session::{Event, EventKind, LaneProgress, StandstillCause},
};
use serde::Serialize;
use serde_with::{As, DurationMilliSecondsWithFrac};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};
use tokio::sync::broadcast;

/// An event of one lane of a stream, or of the stream as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamEvent {
    /// Time since this end of the stream began.
    #[serde(rename = "at_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
    pub at: Duration,
    /// The lane's number; `None` if the event is the stream's.
    pub lane: Option<u16>,
    /// The rail that the lane runs on at this end.
    pub rail: Option<RailId>,
    /// The event.
    #[serde(flatten)]
    pub kind: EventKind,
    /// The error with which the lane ended, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Keeps the newest events, and those that were not published to subscribers and the log yet.
#[derive(Debug)]
pub(super) struct EventLog {
    start: Instant,
    kept: VecDeque<StreamEvent>,
    /// The events to publish; a standstill with the state of each lane.
    unpublished: Vec<UnpublishedEvent>,
    /// Whether a thread publishes events.
    is_publishing: bool,
    /// Made for the first subscriber: the queue is several times the size of all else in a stream.
    listeners: Option<broadcast::Sender<StreamEvent>>,
}

impl EventLog {
    pub(super) fn new() -> Self {
        let (kept, unpublished, is_publishing, listeners) = Default::default();
        Self { start: Instant::now(), kept, unpublished, is_publishing, listeners }
    }

    /// Adds an event; `whose` is the lane's number and rail, `error` the error with which the lane
    /// ended, and `lanes` the state of each lane in a standstill. If `loses_nothing`, all bytes
    /// of both ends have arrived, and a peer that has ended is no reason for a warning.
    pub(super) fn add(
        &mut self,
        event: Event,
        whose: Option<(u16, RailId)>,
        error: Option<String>,
        lanes: Vec<LaneProgress>,
        loses_nothing: bool,
    ) {
        let at = event.at.saturating_duration_since(self.start);
        let (lane, rail) = whose.unzip();
        let event = StreamEvent { at, lane, rail, kind: event.kind, error };
        if self.kept.len() == MAX_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(event.clone());
        self.unpublished.push(UnpublishedEvent { event, lanes, loses_nothing });
    }

    /// Whether there are events to publish.
    pub(super) fn has_news(&self) -> bool {
        !self.unpublished.is_empty()
    }

    /// Takes the events to publish, with the sender for subscribers, if there are any. `None` if
    /// there are no events, or another thread publishes them: that thread calls this once more.
    pub(super) fn begin_publishing(
        &mut self,
    ) -> Option<(Vec<UnpublishedEvent>, Option<broadcast::Sender<StreamEvent>>)> {
        if self.is_publishing || self.unpublished.is_empty() {
            return None;
        }
        self.is_publishing = true;
        Some((std::mem::take(&mut self.unpublished), self.listeners.clone()))
    }

    pub(super) fn end_publishing(&mut self) {
        self.is_publishing = false;
    }

    pub(super) fn kept(&self) -> Vec<StreamEvent> {
        self.kept.iter().cloned().collect()
    }

    pub(super) fn subscribe(&mut self) -> broadcast::Receiver<StreamEvent> {
        self.listeners.get_or_insert_with(|| broadcast::Sender::new(MAX_KEPT)).subscribe()
    }
}

/// An event that is to be published to subscribers and to the log.
#[derive(Debug)]
pub(super) struct UnpublishedEvent {
    pub(super) event: StreamEvent,
    lanes: Vec<LaneProgress>,
    loses_nothing: bool,
}

impl UnpublishedEvent {
    pub(super) fn log(&self, stream: StreamId) {
        self.event.log(stream, &self.lanes, self.loses_nothing);
    }
}

impl StreamEvent {
    /// Logs a lost, stalled or unused lane and a standstill, with the state of each of the `lanes`,
    /// as a warning, and other events at a lower level; so too the ends of lanes with which
    /// nothing is lost.
    fn log(&self, stream: StreamId, lanes: &[LaneProgress], loses_nothing: bool) {
        let lane = self.lane.map(tracing::field::display);
        let error = self.error.as_ref().map(tracing::field::display);
        match self.kind {
            EventKind::Stalled { cause, stalled_for, bytes_at_risk } => {
                tracing::warn!(%stream, lane, ?stalled_for, bytes_at_risk, "a lane cannot be used: {cause}");
            }
            EventKind::Outage if loses_nothing => tracing::debug!(%stream, "no lane is left"),
            EventKind::Outage => tracing::warn!(%stream, "an outage begins: no lane can be used"),
            EventKind::Unused { unused_for, own, others } => {
                let [own, others] = [own, others].map(|time| time.map(tracing::field::debug));
                tracing::warn!(%stream, lane, ?unused_for, own, others, "a lane is not used, because others are faster");
            }
            EventKind::Ended { bytes_at_risk } if error.is_some() && loses_nothing => {
                tracing::info!(%stream, lane, error, bytes_at_risk, "a lane has ended, and nothing is lost with it");
            }
            EventKind::Ended { bytes_at_risk } if error.is_some() => {
                tracing::warn!(%stream, lane, error, bytes_at_risk, "a lane was lost");
            }
            EventKind::Restored { after } | EventKind::Resumed { after } => {
                tracing::info!(%stream, lane, ?after, "a lane can be used again");
            }
            EventKind::Standstill { cause: StandstillCause::NoLane, stood_for } if loses_nothing => {
                tracing::info!(%stream, ?stood_for, "the peer has gone with all bytes, and without the end");
            }
            EventKind::Standstill { cause, stood_for } => {
                let lanes = lanes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                tracing::warn!(%stream, ?stood_for, lanes, "the stream makes no progress: {cause}");
            }
            EventKind::Moved { after } => tracing::warn!(%stream, ?after, "the stream makes progress again"),
            _ => tracing::debug!(%stream, lane, event = ?self.kind, "an event of a lane"),
        }
    }
}

/// The most events that are kept, and the most that a subscriber may lag behind.
const MAX_KEPT: usize = 256;
