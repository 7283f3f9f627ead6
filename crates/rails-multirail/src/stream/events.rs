//! The record of events of a stream and its lanes.

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

/// Keeps the newest events, and passes them to subscribers.
#[derive(Debug)]
pub(super) struct EventLog {
    stream: StreamId,
    start: Instant,
    kept: VecDeque<StreamEvent>,
    /// Made by the first subscriber: its queue is several times the size of all else in a stream.
    listeners: Option<broadcast::Sender<StreamEvent>>,
}

impl EventLog {
    pub(super) fn new(stream: StreamId) -> Self {
        Self { stream, start: Instant::now(), kept: VecDeque::new(), listeners: None }
    }

    /// Adds an event; `whose` is the lane's number and rail, and `error` the error with which the lane ended. If
    /// `loses_nothing`, all bytes of both ends have arrived, and a peer that has ended is no reason for a warning.
    pub(super) fn add(
        &mut self,
        event: Event,
        whose: Option<(u16, RailId)>,
        error: Option<String>,
        loses_nothing: bool,
    ) {
        let at = event.at.saturating_duration_since(self.start);
        let (lane, rail) = whose.unzip();
        let event = StreamEvent { at, lane, rail, kind: event.kind, error };
        event.log(self.stream, loses_nothing);
        if self.kept.len() == MOST_KEPT {
            self.kept.pop_front();
        }
        if let Some(listeners) = &self.listeners {
            // This fails if the subscribers are gone, which is fine.
            let _ = listeners.send(event.clone());
        }
        self.kept.push_back(event);
    }

    /// Logs why the stream stands still, and the state of each lane.
    pub(super) fn log_standstill(
        &self,
        cause: StandstillCause,
        stood_for: Duration,
        lanes: &[LaneProgress],
        loses_nothing: bool,
    ) {
        if loses_nothing && cause == StandstillCause::NoLane {
            tracing::info!(stream = %self.stream, ?stood_for, "the peer has gone with all bytes, and without the end");
            return;
        }
        let lanes: Vec<String> = lanes.iter().map(ToString::to_string).collect();
        let lanes = lanes.join("; ");
        tracing::warn!(stream = %self.stream, ?cause, ?stood_for, lanes, "the stream makes no progress: {cause}");
    }

    pub(super) fn kept(&self) -> Vec<StreamEvent> {
        self.kept.iter().cloned().collect()
    }

    pub(super) fn subscribe(&mut self) -> broadcast::Receiver<StreamEvent> {
        self.listeners.get_or_insert_with(|| broadcast::Sender::new(MOST_KEPT)).subscribe()
    }
}

impl StreamEvent {
    /// Logs a lost, stalled or unused lane and a standstill as a warning, and other events at a lower level; so too the
    /// ends of lanes with which nothing is lost.
    fn log(&self, stream: StreamId, loses_nothing: bool) {
        let lane = self.lane.map(tracing::field::display);
        let error = self.error.as_ref().map(tracing::field::display);
        match self.kind {
            EventKind::Stalled { .. } => tracing::warn!(%stream, lane, event = ?self.kind, "a lane cannot be used"),
            EventKind::Outage if loses_nothing => tracing::debug!(%stream, event = ?self.kind, "no lane is left"),
            EventKind::Outage => tracing::warn!(%stream, event = ?self.kind, "no lane can be used"),
            EventKind::Unused { .. } => tracing::warn!(%stream, lane, event = ?self.kind, "a lane is not used"),
            EventKind::Ended { .. } if error.is_some() && loses_nothing => {
                tracing::info!(%stream, lane, error, event = ?self.kind, "a lane has ended, and nothing is lost with it");
            }
            EventKind::Ended { .. } if error.is_some() => {
                tracing::warn!(%stream, lane, error, event = ?self.kind, "a lane was lost");
            }
            EventKind::Restored { .. } | EventKind::Resumed { .. } => {
                tracing::info!(%stream, lane, event = ?self.kind, "a lane can be used again");
            }
            // `log_standstill` has logged it with its lanes.
            EventKind::Standstill { .. } => {}
            EventKind::Moved { after } => tracing::warn!(%stream, ?after, "the stream makes progress again"),
            _ => tracing::debug!(%stream, lane, event = ?self.kind, "an event of a lane"),
        }
    }
}

/// The most events that are kept, and the most that a subscriber may lag behind.
const MOST_KEPT: usize = 256;
