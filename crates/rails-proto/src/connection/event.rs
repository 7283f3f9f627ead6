//! What happens to the lanes of a stream, for whoever wants to know.

use super::{LaneId, StandstillCause};
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds, DurationMilliSecondsWithFrac};
use std::time::{Duration, Instant};

/// Something that happened to a lane or to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// The lane; `None` where it is about all of them.
    pub lane: Option<LaneId>,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The lane has joined.
    Joined,
    /// The lane has stalled: what it has in flight goes out on the others as well, and it is given nothing more until it answers.
    Stalled {
        /// How that was found out.
        cause: StallCause,
        /// How long nothing was heard.
        #[serde(rename = "stalled_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        stalled_for: Duration,
        /// Bytes in flight on it, which nobody knows the fate of.
        bytes_at_risk: u64,
    },
    /// The lane answers again and is used as before.
    Restored {
        /// How long it was stalled.
        #[serde(rename = "after_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        after: Duration,
    },
    /// The lane is up and was given nothing for a while, though the stream had work: what waited was sooner there by others, as far as is known. It goes on being tried.
    Unused {
        /// For how long it left what waited to others.
        #[serde(rename = "unused_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        unused_for: Duration,
        /// How long a chunk would take by this lane.
        #[serde(rename = "own_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
        own: Option<Duration>,
        /// How long all that waits would take by the best of the others.
        #[serde(rename = "others_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
        others: Option<Duration>,
    },
    /// The lane is taken out of the stream, by this end or the other.
    Leaving,
    /// The lane has ended.
    Ended {
        /// Bytes in flight on it that are not known to have arrived.
        bytes_at_risk: u64,
    },
    /// The stream waits for something, and nothing has moved for a second. It is told again each time that twice as long has passed.
    Standstill {
        /// Why nothing moves.
        cause: StandstillCause,
        /// How long nothing has moved.
        #[serde(rename = "stood_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        stood_for: Duration,
    },
    /// The stream moves again after a [`Standstill`](Self::Standstill).
    Moved {
        /// How long nothing had moved.
        #[serde(rename = "after_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        after: Duration,
    },
    /// No lane is left that can be used: the stream stands still, and waits.
    Outage,
    /// A lane can be used again.
    Resumed {
        /// How long there was none.
        #[serde(rename = "after_ms", serialize_with = "As::<DurationMilliSecondsWithFrac>::serialize")]
        after: Duration,
    },
}

/// How it was found out that a lane has stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StallCause {
    /// Nothing that was sent on it was acknowledged for much longer than its round trip.
    NoProgress,
    /// The link under it went down.
    LinkDown,
}
