//! Whether a stream that waits for something makes progress, and why it does not.
//!
//! A stream that stands still for a second reports it, and again each time that twice as long has
//! passed. While all that it waits for is an answer on one lane, that lane's own check begins this
//! watch, and so its thread must not be blocked. An idle stream waits for nothing and sets no
//! timer; the last timer runs out once after the stream has become idle.

use crate::{countdown::PAUSE, scheduler::Scheduler};
use serde::Serialize;
use std::{
    fmt,
    time::{Duration, Instant},
};

/// The reason why a stream stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StandstillCause {
    /// The stream has no usable lane.
    NoLane,
    /// One lane holds the bytes that the peer needs next, and nothing else is in flight: on the
    /// other lanes, the peer has acknowledged everything.
    LaneLate {
        /// The lane's number, the same at both ends.
        number: u16,
    },
    /// Bytes are in flight, and the peer acknowledges none of them.
    NotAcknowledged,
    /// Bytes wait, and no lane takes them: its thread is blocked, or its socket is full.
    NotTaken,
    /// The peer has received everything that its window takes, and its application reads none of
    /// it.
    PeerDoesNotRead,
    /// Bytes have arrived, and none can be read, because those before them have not.
    BytesMissing,
}

/// Watches whether a stream moves.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// When the stream last made progress, or began to wait; `None` while it waits for nothing.
    since: Option<Instant>,
    /// When to check next. The stream may have moved by then.
    check_at: Option<Instant>,
    /// Whether an event has reported the standstill.
    is_reported: bool,
    /// Whether the supervisor does not know the time of the check yet.
    is_check_new: bool,
}

impl Standstill {
    /// When to [check](Self::check) whether the stream stands still.
    pub(super) fn check_at(&self) -> Option<Instant> {
        self.check_at
    }

    /// Checks whether the stream stands still, if the time for that has come. Returns for how long
    /// it has, if an event is to report it.
    pub(super) fn check(&mut self, now: Instant, longest_round_trip: impl FnOnce() -> Duration) -> Option<Duration> {
        let late = self.check_at.and_then(|at| now.checked_duration_since(at))?;
        self.check_at = None;
        let since = self.since?;
        if late >= PAUSE {
            // This end's process was stopped, and the arrivals of that time are still to be taken in.
            self.since = Some(if self.is_reported { since } else { now });
            self.check_at = Some(now + FIRST_WARNING);
            return None;
        }
        let stood_for = now.saturating_duration_since(since);
        // The first acknowledgement of a distant peer takes several round trips.
        let least = FIRST_WARNING.max(4 * longest_round_trip());
        if !self.is_reported && stood_for < least {
            self.check_at = Some(since + least);
            return None;
        }
        self.is_reported = true;
        self.check_at = Some(now + stood_for);
        Some(stood_for)
    }

    /// Notes whether the stream waits for anything but its application, and whether the checks of
    /// one lane cover that: then the first of them that finds no progress [begins](Self::begin)
    /// the watch.
    pub(super) fn watch(&mut self, now: Instant, awaits_progress: bool, is_covered: impl FnOnce() -> bool) {
        if !awaits_progress {
            (self.since, self.is_reported) = (None, false);
            return;
        }
        self.since.get_or_insert(now);
        if self.check_at.is_none() && !is_covered() {
            self.begin();
        }
    }

    /// Has the driver check whether the stream stands still, if it waits for anything.
    pub(super) fn begin(&mut self) {
        if self.check_at.is_none()
            && let Some(since) = self.since
        {
            self.check_at = Some(since + FIRST_WARNING);
            self.is_check_new = true;
        }
    }

    /// Calls the check off for a driver that does not know of it yet.
    pub(super) fn call_off(&mut self) {
        if self.take_new_check() {
            self.check_at = None;
        }
    }

    /// Whether the check has a time which the driver does not know yet.
    pub(super) fn has_new_check(&self) -> bool {
        self.is_check_new
    }

    /// As [`has_new_check`](Self::has_new_check). The driver gets to know it now.
    pub(super) fn take_new_check(&mut self) -> bool {
        std::mem::take(&mut self.is_check_new)
    }

    /// Notes that the stream made progress at `at`: new bytes were acknowledged, have arrived or
    /// were read. Returns how long a standstill lasted which an event has reported.
    pub(super) fn moved(&mut self, now: Instant, at: Instant) -> Option<Duration> {
        let since = self.since.filter(|since| *since < at)?;
        self.since = Some(at);
        if !std::mem::take(&mut self.is_reported) {
            return None;
        }
        self.check_at = Some(at + FIRST_WARNING);
        // An event has reported more than up to `at`, where only a check that came later has found the
        // progress.
        Some(now.saturating_duration_since(since))
    }
}

impl StandstillCause {
    /// Why a stream makes no progress whose sending side waits for the peer, or does not.
    pub(super) fn of(scheduler: &Scheduler, has_usable_lane: bool, awaits_sending: bool) -> Self {
        match () {
            () if !has_usable_lane => Self::NoLane,
            () if !awaits_sending => Self::BytesMissing,
            () if scheduler.buffer().lanes_worth_of_work() > 0 && !scheduler.flight().is_in_flight() => Self::NotTaken,
            () if scheduler.flight().is_all_acknowledged() => Self::PeerDoesNotRead,
            () => scheduler
                .flight()
                .late_lane()
                .map_or(Self::NotAcknowledged, |lane| Self::LaneLate { number: scheduler.lane(lane).number() }),
        }
    }
}

impl fmt::Display for StandstillCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LaneLate { number } => {
                return write!(f, "lane {number} is late with the bytes that the peer needs next");
            }
            Self::NoLane => "no lane can be used",
            Self::NotAcknowledged => "the peer acknowledges nothing",
            Self::NotTaken => "no lane takes the waiting bytes",
            Self::PeerDoesNotRead => "the peer's application does not read",
            Self::BytesMissing => "bytes are missing before those that have arrived",
        })
    }
}

/// The shortest standstill that a stream reports: a reinjection takes half a second, and dialling a
/// lane again up to a second.
const FIRST_WARNING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        scheduler::LaneTraits,
        session::{EventKind, Session, Transmit, fixture},
        stream_number::StreamNumber,
        wire::{Ack, DataHeader},
    };
    use bytes::Bytes;

    const MS: Duration = Duration::from_millis(1);

    fn session() -> Session {
        fixture::end(1000, 1_000_000, 100 * MS)
    }

    #[test]
    fn timer_of_a_busy_and_of_an_idle_stream() {
        let mut session = session();
        let start = Instant::now();
        let lane = session.lane_up(start, LaneTraits::default()).unwrap();
        let _ = session.take_wakes();
        assert_eq!(session.poll_timeout(), None);
        for request in 0..10 {
            let now = start + request * 20 * MS;
            session.write(now, StreamNumber::FIRST, Bytes::from_static(b"request"));
            assert_eq!(session.take_wakes().supervisor, request == 0, "only the first request wakes the supervisor");
            assert!(matches!(session.poll_transmit(now, lane, &mut Vec::new()), Transmit::Send(Some(_))));
            let ack = Ack { chunks: u64::from(request) + 1, limit: 1_000_000, complete: false };
            session.handle_ack(now + 10 * MS, lane, &ack).unwrap();
            assert_eq!(session.poll_timeout(), Some(start + FIRST_WARNING));
        }
        session.handle_timeout(start + FIRST_WARNING);
        assert_eq!(
            (session.poll_timeout(), session.poll_event().map(|event| event.kind)),
            (None, Some(EventKind::Joined))
        );
        assert_eq!(session.poll_event(), None);
    }

    #[test]
    fn the_silent_lane_of_a_receiver() {
        let mut session = session();
        let start = Instant::now();
        let lanes =
            [4, 2].map(|number| session.lane_up(start, LaneTraits { number, ..LaneTraits::default() }).unwrap());
        let payload = Bytes::from_static(b"late");
        let header = DataHeader { stream: StreamNumber::FIRST, offset: 4, length: 4, fin: false, checksum: 0 };
        session.handle_data(start + 10 * MS, lanes[1], &header, payload).unwrap();
        let arrivals = session.lane_progress(start + 1_010 * MS).map(|lane| (lane.number, lane.last_arrival));
        assert_eq!(arrivals.collect::<Vec<_>>(), [(4, None), (2, Some(1_000 * MS))]);
    }
}
