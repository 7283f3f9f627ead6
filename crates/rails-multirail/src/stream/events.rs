//! The record of events of a stream and its lanes.

use crate::RailId;
use rails_proto::{
    handshake::StreamId,
    lane::LaneError,
    session::{Event, EventKind, LaneProgress, StallCause, StandstillCause},
};
use serde::Serialize;
use serde_with::{As, DurationMilliSecondsWithFrac};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    net::SocketAddr,
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
    /// The lanes of whose loss a warning tells, by number, and when each was lost.
    missed: BTreeMap<u16, Duration>,
    /// Made for the first subscriber: the queue is several times the size of all else in a stream.
    listeners: Option<broadcast::Sender<StreamEvent>>,
}

impl EventLog {
    pub(super) fn new() -> Self {
        let (kept, unpublished, is_publishing, missed, listeners) = Default::default();
        Self { start: Instant::now(), kept, unpublished, is_publishing, missed, listeners }
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
        let back_after = self.back_after(&event, loses_nothing);
        self.unpublished.push(UnpublishedEvent { event, lanes, loses_nothing, back_after });
    }

    /// How long a lane was missed that is back now, if a warning told of its loss.
    fn back_after(&mut self, event: &StreamEvent, loses_nothing: bool) -> Option<Duration> {
        let lane = event.lane?;
        if event.is_loss() && !loses_nothing {
            self.missed.entry(lane).or_insert(event.at);
        }
        let is_back = matches!(event.kind, EventKind::Joined | EventKind::Restored { .. });
        let since = if is_back { self.missed.remove(&lane)? } else { return None };
        Some(event.at.saturating_sub(since))
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
    /// How long the lane was missed that is back, if a warning told of its loss.
    back_after: Option<Duration>,
}

/// The ends of a lane, in the log.
#[derive(Debug)]
pub(super) struct LaneEnds {
    pub(super) interface: Option<String>,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
}

impl UnpublishedEvent {
    /// Logs the event of a lane with these ends, or of the stream. Warnings are those of a lost
    /// lane, of its return, of an unused one and of a standstill with the state of each lane; and
    /// not the ends of lanes with which nothing is lost. A lane that gets no acknowledgement for
    /// moments is no fault: others carry its bytes, or a standstill is told.
    pub(super) fn log(&self, stream: StreamId, ends: Option<&LaneEnds>) {
        use tracing::field::display;
        let Self { event, lanes, loses_nothing, back_after } = self;
        let (lane, rail) = (event.lane.map(display), event.rail.map(display));
        let interface = ends.and_then(|ends| ends.interface.as_ref()).map(display);
        let (local, remote) = ends.map(|ends| (display(ends.local), display(ends.remote))).unzip();
        let error = event.error.as_ref().map(display);
        macro_rules! tell {
            ($level:ident, { $($field:tt)* }, $($text:tt)*) => {
                tracing::$level!(%stream, lane, rail, interface, local, remote, $($field)* $($text)*)
            };
        }
        match &event.kind {
            EventKind::Joined | EventKind::Restored { .. } if back_after.is_some() => {
                tell!(warn, { after = back_after.map(|after| display(words(after))), }, "a lane is back");
            }
            EventKind::Joined => tell!(debug, {}, "a lane has joined"),
            EventKind::Stalled { cause: StallCause::LinkDown, bytes_at_risk, .. } => {
                tell!(warn, { bytes_at_risk, }, "a lane cannot be used: {}", StallCause::LinkDown);
            }
            EventKind::Stalled { cause, stalled_for, bytes_at_risk } => {
                tell!(info, { stalled_for = %words(*stalled_for), bytes_at_risk, }, "a lane cannot be used: {cause}");
            }
            EventKind::Outage if *loses_nothing => tracing::debug!(%stream, "no lane is left"),
            EventKind::Outage => tracing::info!(%stream, "an outage begins: no lane can be used"),
            EventKind::Unused { unused_for, own, others } => {
                let [own, others] = [own, others].map(|time| time.map(|time| display(words(time))));
                let unused_for = words(*unused_for);
                tell!(warn, { %unused_for, own, others, }, "a lane is not used, because others are faster");
            }
            EventKind::Ended { .. } if event.is_replaced() => tell!(debug, { error, }, "a lane has another connection"),
            EventKind::Ended { bytes_at_risk } if error.is_some() && *loses_nothing => {
                tell!(info, { error, bytes_at_risk, }, "a lane has ended, and nothing is lost with it");
            }
            EventKind::Ended { bytes_at_risk } if error.is_some() => {
                tell!(warn, { error, bytes_at_risk, }, "a lane was lost");
            }
            EventKind::Restored { after } | EventKind::Resumed { after } => {
                tell!(info, { after = %words(*after), }, "a lane can be used again");
            }
            EventKind::Standstill { cause: StandstillCause::NoLane, stood_for } if *loses_nothing => {
                let stood_for = words(*stood_for);
                tracing::info!(%stream, %stood_for, "the peer has gone with all bytes, and without the end");
            }
            EventKind::Standstill { cause, stood_for } => {
                let lanes = lanes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                tracing::warn!(%stream, stood_for = %words(*stood_for), lanes, "the stream makes no progress: {cause}");
            }
            EventKind::Moved { after } => {
                tracing::warn!(%stream, after = %words(*after), "the stream makes progress again");
            }
            EventKind::Leaving => tell!(debug, {}, "a lane is taken out of the stream"),
            _ => tell!(debug, {}, "a lane has ended"),
        }
    }
}

/// A time as people write it: `64 ms`, `1.1 s`.
fn words(time: Duration) -> impl fmt::Display {
    match time.as_secs_f64() {
        short if short < 0.001 => format!("{:.1} ms", short * 1e3),
        short if short < 1.0 => format!("{:.0} ms", short * 1e3),
        long => format!("{long:.1} s"),
    }
}

impl StreamEvent {
    /// Whether the event is the loss of a lane that is missed until it is back.
    fn is_loss(&self) -> bool {
        match self.kind {
            EventKind::Ended { .. } => self.error.is_some() && !self.is_replaced(),
            EventKind::Stalled { cause, .. } => cause == StallCause::LinkDown,
            _ => false,
        }
    }

    /// Whether the event is the end of a connection whose place another one has taken.
    fn is_replaced(&self) -> bool {
        self.error.as_ref().is_some_and(|error| *error == LaneError::Replaced.to_string())
    }
}

/// The most events that are kept, and the most that a subscriber may lag behind.
const MAX_KEPT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use rails_proto::session::LaneId;

    #[test]
    fn times_in_words() {
        let said = [400, 64_000, 999_000, 1_130_000].map(|us| words(Duration::from_micros(us)).to_string());
        assert_eq!(said, ["0.4 ms", "64 ms", "999 ms", "1.1 s"]);
    }

    /// How long lane 0 was missed after each of these events, a second apart.
    fn missed(events: &[(EventKind, Option<LaneError>)]) -> Vec<Option<u64>> {
        let mut log = EventLog::new();
        for (second, (kind, error)) in events.iter().enumerate() {
            let at = log.start + Duration::from_secs(second as u64);
            let event = Event { at, lane: Some(LaneId(0)), kind: *kind };
            log.add(event, Some((0, RailId(0))), error.as_ref().map(ToString::to_string), Vec::new(), false);
        }
        log.unpublished.iter().map(|news| news.back_after.map(|after| after.as_secs())).collect()
    }

    #[test]
    fn lanes_that_are_back() {
        let ended = || EventKind::Ended { bytes_at_risk: 0 };
        let stalled = |cause| EventKind::Stalled { cause, stalled_for: Duration::ZERO, bytes_at_risk: 0 };
        let restored = || EventKind::Restored { after: Duration::ZERO };
        let lost = missed(&[(ended(), Some(LaneError::Closed)), (EventKind::Joined, None), (restored(), None)]);
        assert_eq!(lost, [None, Some(1), None]);
        let down = missed(&[(stalled(StallCause::LinkDown), None), (restored(), None)]);
        assert_eq!(down, [None, Some(1)]);
        // None of these is told as a loss.
        let moment = missed(&[(stalled(StallCause::NoProgress), None), (restored(), None)]);
        assert_eq!(moment, [None, None]);
        let replaced = missed(&[(ended(), Some(LaneError::Replaced)), (EventKind::Joined, None)]);
        assert_eq!(replaced, [None, None]);
    }
}
