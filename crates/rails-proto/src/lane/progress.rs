//! The progress of a lane, from the transport's figures.

use super::StreamAccess;
use crate::session::{LaneId, LaneTimeouts, LinkSample};
use std::time::{Duration, Instant};

/// A transport's figures of its connection; `None` is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransportSample {
    /// The link's round trips.
    pub link: LinkSample,
    /// The number of this end's bytes that the peer has acknowledged since the connection was made.
    pub bytes_acknowledged: Option<u64>,
    /// The time since the last acknowledgement, even if that acknowledged nothing new.
    pub since_acknowledgement: Option<Duration>,
    /// The number of packets in flight.
    pub unacknowledged_packets: Option<u64>,
    /// The number of bytes that the peer's host takes at the moment.
    pub peer_window_bytes: Option<u64>,
    /// The number of probes of the peer's host since it last answered anything.
    pub unanswered_probes: Option<u64>,
    /// The number of bytes that wait in the transport to be sent.
    pub unsent_bytes: Option<u64>,
}

/// Watches the transport's figures for acknowledgements of new bytes, and checks the lane's
/// progress by them.
#[derive(Debug)]
pub(super) struct Progress {
    lane: LaneId,
    acknowledged: u64,
    /// When the peer acknowledged these bytes, as far as this end knows.
    since: Option<Instant>,
}

impl Progress {
    /// Creates the state of a lane that has joined.
    pub(super) fn new(lane: LaneId) -> Self {
        Self { lane, acknowledged: 0, since: None }
    }

    /// Handles [`LaneTimeouts::progress`] when its time has come, and returns the lane's next
    /// timeouts.
    pub(super) fn handle_timeout<S: StreamAccess>(
        &mut self,
        now: Instant,
        stream: &mut S,
        sample: &TransportSample,
    ) -> LaneTimeouts {
        let stalled_for = self.stalled_for(now, sample);
        stream.with(|session| {
            session.check_progress(now, self.lane, &sample.link, stalled_for);
            session.lane_timeouts(self.lane)
        })
    }

    /// The time since the last new acknowledgement; `None` while nothing waits for one. The peer's
    /// data carries acknowledgements even while this end's packets are lost, so only an
    /// acknowledgement of new bytes counts. A lane whose transport does not give both figures never
    /// stalls.
    ///
    /// While the peer's window is closed, its host waits for the peer's process, which is busy or
    /// stopped: no other lane would get further. The transport goes on asking. A host that does
    /// not answer has gone, or the way to it has: the lane stalls, and has been silent
    /// since the last answer.
    fn stalled_for(&mut self, now: Instant, sample: &TransportSample) -> Option<Duration> {
        let acknowledged = sample.bytes_acknowledged.unwrap_or_default();
        if acknowledged > self.acknowledged || self.since.is_none() {
            self.acknowledged = acknowledged;
            self.since = now.checked_sub(sample.since_acknowledgement.unwrap_or_default()).or(Some(now));
        }
        let is_silent = sample.unanswered_probes.is_some_and(|probes| probes >= MAX_UNANSWERED_PROBES);
        let has_room = sample.peer_window_bytes.is_none_or(|bytes| bytes > 0);
        let is_in_flight = sample.unacknowledged_packets.is_some_and(|packets| packets > 0);
        // A packet that this host drops on its way out is not in flight (NET_XMIT_DROP), and TCP tries
        // again.
        let is_held_back = match (sample.unsent_bytes, sample.peer_window_bytes) {
            (Some(unsent), Some(window)) => unsent > 0 && window >= unsent.min(MAX_SEGMENT),
            _ => false,
        };
        let awaits_news = sample.bytes_acknowledged.is_some() && (has_room && is_in_flight || is_held_back);
        let since = match sample.since_acknowledgement {
            Some(silent_for) if is_silent => now.checked_sub(silent_for),
            _ => self.since.filter(|_| is_silent || awaits_news),
        };
        since.map(|since| now.saturating_duration_since(since))
    }
}

/// A peer's host may lose one answer, and holds another back that comes within half a second of the
/// one before (`net.ipv4.tcp_invalid_ratelimit`).
const MAX_UNANSWERED_PROBES: u64 = 3;
/// No segment is longer. A window that takes a part of one alone leaves the rest to the kernel's
/// probes.
const MAX_SEGMENT: u64 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn sample(acknowledged: u64, since: Duration) -> TransportSample {
        TransportSample {
            bytes_acknowledged: Some(acknowledged),
            since_acknowledgement: Some(since),
            unacknowledged_packets: Some(1),
            ..TransportSample::default()
        }
    }

    #[test]
    fn acknowledgements_of_nothing_new() {
        let begin = Instant::now();
        let mut progress = Progress::new(LaneId(0));
        assert_eq!(progress.stalled_for(begin + 100 * MS, &sample(1_000, 10 * MS)), Some(10 * MS));
        // The peer's data carries acknowledgements of nothing new.
        assert_eq!(progress.stalled_for(begin + 300 * MS, &sample(1_000, MS)), Some(210 * MS));
        assert_eq!(progress.stalled_for(begin + 400 * MS, &sample(1_001, 5 * MS)), Some(5 * MS));
    }

    #[test]
    fn nothing_unacknowledged_is_no_stall() {
        let mut progress = Progress::new(LaneId(0));
        let idle = TransportSample { unacknowledged_packets: Some(0), ..sample(1_000, 900 * MS) };
        assert_eq!(progress.stalled_for(Instant::now(), &idle), None);
        assert_eq!(progress.stalled_for(Instant::now(), &TransportSample::default()), None);
    }

    #[test]
    fn a_peer_without_room_is_no_stall() {
        let begin = Instant::now();
        let mut progress = Progress::new(LaneId(0));
        let at = |bytes| TransportSample { peer_window_bytes: Some(bytes), ..sample(1_000, 31_000 * MS) };
        assert_eq!(progress.stalled_for(begin + 31_000 * MS, &at(0)), None);
        assert_eq!(progress.stalled_for(begin + 31_000 * MS, &at(1)), Some(31_000 * MS));
    }

    /// The first hop drops each packet, and says so.
    #[test]
    fn bytes_that_this_host_cannot_send_are_a_stall() {
        let begin = Instant::now();
        let mut progress = Progress::new(LaneId(0));
        let mut at = |unsent, window| {
            let held_back = TransportSample {
                unacknowledged_packets: Some(0),
                peer_window_bytes: Some(window),
                unsent_bytes: Some(unsent),
                ..sample(1_000, 31_000 * MS)
            };
            progress.stalled_for(begin + 31_000 * MS, &held_back)
        };
        assert_eq!(at(0, 64_256), None);
        assert_eq!(at(16_384, 0), None, "the peer takes none");
        assert_eq!(at(16_384, 500), None, "the peer takes a part of a segment");
        assert_eq!(at(16_384, 64_256), Some(31_000 * MS));
        assert_eq!(at(1 << 20, 1 << 16), Some(31_000 * MS));
    }

    #[test]
    fn a_host_that_answers_no_probe_is_a_stall() {
        let mut progress = Progress::new(LaneId(0));
        // The kernel probes while no packet is in flight.
        let mut at = |unanswered, since| {
            let closed = TransportSample {
                unacknowledged_packets: Some(0),
                peer_window_bytes: Some(0),
                unanswered_probes: Some(unanswered),
                ..sample(1_000, since)
            };
            progress.stalled_for(Instant::now() + 31_000 * MS, &closed)
        };
        assert_eq!(at(1, 1_000 * MS), None);
        assert_eq!(at(2, 2_000 * MS), None);
        assert_eq!(at(3, 3_000 * MS), Some(3_000 * MS));
        assert_eq!(at(0, MS), None, "it has answered");
    }
}
