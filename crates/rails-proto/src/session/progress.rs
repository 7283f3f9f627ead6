//! The progress of a lane, for the report of a standstill.

use super::LaneId;
use serde::Serialize;
use std::{fmt, time::Duration};

/// The progress of one lane, for the report of a standstill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneProgress {
    /// The lane's slot at this end.
    pub lane: LaneId,
    /// The lane's number, the same at both ends.
    pub number: u16,
    /// The lane's state.
    pub state: LaneState,
    /// Bytes in flight on the lane.
    pub unacknowledged: u64,
    /// The time since the peer last acknowledged a chunk on the lane; `None` if it never has.
    pub last_progress: Option<Duration>,
    /// The time since a chunk last arrived whole on the lane; `None` if none ever has.
    pub last_arrival: Option<Duration>,
    /// The lane's least round trip, if it is known.
    pub rtt: Option<Duration>,
}

/// The state of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneState {
    /// The lane sends, or waits for room in its socket.
    Busy,
    /// The lane has room, and the scheduler gives it nothing.
    Idle,
    /// The peer acknowledges nothing that was sent on the lane.
    Stalled,
    /// The link under the lane is down.
    LinkDown,
    /// The lane is leaving the stream.
    Leaving,
}

impl fmt::Display for LaneProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lane: _, number, state, unacknowledged, last_progress, last_arrival, rtt } = self;
        let state = match state {
            LaneState::Busy => "busy",
            LaneState::Idle => "idle",
            LaneState::Stalled => "stalled",
            LaneState::LinkDown => "link down",
            LaneState::Leaving => "leaving",
        };
        write!(f, "lane {number}: {state}, {unacknowledged} bytes unacknowledged, ")?;
        match last_progress {
            Some(ago) => write!(f, "last progress {ago:.1?} ago")?,
            None => f.write_str("no progress yet")?,
        }
        match last_arrival {
            Some(ago) => write!(f, ", last arrival {ago:.1?} ago")?,
            None => f.write_str(", no arrival yet")?,
        }
        rtt.map_or(Ok(()), |rtt| write!(f, ", rtt {rtt:.1?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_lane_s_progress_in_words() {
        let progress = LaneProgress {
            lane: LaneId(0),
            number: 3,
            state: LaneState::Stalled,
            unacknowledged: 65_536,
            last_progress: Some(1_234 * MS),
            last_arrival: Some(56_700 * MS),
            rtt: Some(Duration::from_micros(1_500)),
        };
        let words =
            "lane 3: stalled, 65536 bytes unacknowledged, last progress 1.2s ago, last arrival 56.7s ago, rtt 1.5ms";
        assert_eq!(progress.to_string(), words);
        let fresh =
            LaneProgress { last_progress: None, last_arrival: None, rtt: None, state: LaneState::Busy, ..progress };
        assert_eq!(fresh.to_string(), "lane 3: busy, 65536 bytes unacknowledged, no progress yet, no arrival yet");
    }
}
