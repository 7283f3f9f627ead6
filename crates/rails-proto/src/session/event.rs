//! Events of a stream and its lanes.

use super::{LaneId, StandstillCause};
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds, DurationMilliSecondsWithFrac};
use std::{
    fmt,
    time::{Duration, Instant},
};

/// An event of a lane, or of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The time of the event.
    pub at: Instant,
    /// The lane; `None` for an event of the stream.
    pub lane: Option<LaneId>,
    /// The kind of the event.
    pub kind: EventKind,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The lane has joined.
    Joined,
    /// The lane has stalled. Other lanes send its chunks in flight again, and the scheduler gives
    /// it nothing until it answers.
    Stalled {
        /// The sign by which this end noticed.
        cause: StallCause,
        /// The time without an acknowledgement.
        #[serde(rename = "stalled_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        stalled_for: Duration,
        /// Bytes in flight on the lane.
        bytes_at_risk: u64,
    },
    /// The lane answers again, and the scheduler uses it as before.
    Restored {
        /// How long the lane was stalled.
        #[serde(rename = "after_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        after: Duration,
    },
    /// The lane is up, and the scheduler has given it nothing for a while, though the stream had
    /// work: by the estimates, other lanes were faster. Probes go on.
    Unused {
        /// How long the lane left waiting bytes to other lanes.
        #[serde(rename = "unused_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        unused_for: Duration,
        /// How long a chunk would take on this lane.
        #[serde(rename = "own_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
        own: Option<Duration>,
        /// How long all waiting bytes would take on the best of the other lanes.
        #[serde(rename = "others_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
        others: Option<Duration>,
    },
    /// This end or the peer takes the lane out of the stream.
    Leaving,
    /// The lane has ended.
    Ended {
        /// Bytes in flight on the lane that the peer had not acknowledged.
        bytes_at_risk: u64,
    },
    /// The stream has made no progress for a second or more, though it waits for something. The
    /// event comes again each time that twice as long has passed.
    Standstill {
        /// Why there is no progress.
        cause: StandstillCause,
        /// How long the standstill has lasted so far.
        #[serde(rename = "stood_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        stood_for: Duration,
    },
    /// The stream makes progress again after a [`Standstill`](Self::Standstill).
    Moved {
        /// How long the standstill lasted.
        #[serde(rename = "after_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        after: Duration,
    },
    /// No usable lane is left. The stream waits for one.
    Outage,
    /// The stream delivers again: a lane is usable, and the peer has acknowledged bytes, or none
    /// waited for that.
    Resumed {
        /// How long the outage lasted.
        #[serde(rename = "after_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        after: Duration,
    },
}

/// How this end noticed that a lane has stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StallCause {
    /// No acknowledgement came on the lane for much longer than its round trip.
    NoProgress,
    /// The link under the lane went down.
    LinkDown,
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoProgress => "no acknowledgement comes",
            Self::LinkDown => "its link is down",
        })
    }
}
