//! One lane as the scheduler sees it: what it has in flight, and how it has done up to now.

use super::Chunk;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// A lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) up: bool,
    /// Chunks given to this lane, oldest first; the first of them was the lane's `first`-th.
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) first: u64,
    /// How long a chunk takes on this lane from being taken to being acknowledged, smoothed.
    pub(super) service: Option<Duration>,
    /// That was not seen to the end: chunks take longer.
    pub(super) service_is_least: bool,
    /// Bytes per second that were acknowledged while there was something to acknowledge, smoothed.
    pub(super) rate: Option<f64>,
    /// When the last news of an acknowledgement came.
    pub(super) acknowledged_at: Option<Instant>,
    /// Chunks dealt to this lane that it has not taken yet ([`Policy::Static`](super::Policy::Static)).
    pub(super) dealt: VecDeque<Chunk>,
}

/// A chunk on its way.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) chunk: Chunk,
    pub(super) taken: Instant,
    /// Another lane has taken it over, and is the one to be watched.
    pub(super) passed_on: bool,
    /// The lanes that it was on when this one took it, and this one: none of them takes it again.
    pub(super) carriers: u64,
}

impl Lane {
    /// Notes how long the last of the first `chunks` took and how fast they went, if there is news of them.
    pub(super) fn observe(&mut self, now: Instant, chunks: u64) {
        let news = chunks.saturating_sub(self.first) as usize;
        let Some(newest) = news.checked_sub(1).and_then(|index| self.in_flight.get(index)) else { return };
        let took = now.saturating_duration_since(newest.taken);
        // The lane was busy with these since the first of them was taken, or since those before it were acknowledged.
        let bytes: u64 = self.in_flight.iter().take(news).map(|sent| u64::from(sent.chunk.length)).sum();
        let since = self.acknowledged_at.map_or(self.in_flight[0].taken, |at| at.max(self.in_flight[0].taken));
        let time = now.saturating_duration_since(since).max(SHORTEST_SAMPLE);
        let rate = bytes as f64 / time.as_secs_f64();
        // A quarter for the newest: a lane that has slowed down is known for it within a few acknowledgements.
        let before = self.service.filter(|_| !self.service_is_least);
        self.service = Some(before.map_or(took, |service| (service * 3 + took) / 4));
        self.service_is_least = false;
        self.rate = Some(self.rate.map_or(rate, |known| (known * 3.0 + rate) / 4.0));
        self.acknowledged_at = Some(now);
    }

    /// How long a chunk should take: no less than the oldest has taken up to now, for the lane keeps them in order.
    pub(super) fn expected(&self, now: Instant) -> Option<Duration> {
        let oldest = self.in_flight.front().map(|sent| now.saturating_duration_since(sent.taken));
        self.service.max(oldest)
    }

    /// When the chunk at `index` has taken so much longer than chunks did before that something must be wrong. Where none was
    /// seen to arrive, that is four times as long as they take on a lane that would take it over, for which chunks take `others`.
    pub(super) fn overdue_at(&self, index: usize, others: Option<Duration>) -> Instant {
        let unknown = || others.map_or(UNKNOWN_SERVICE, |others| (4 * others).clamp(LEAST_GAIN, UNKNOWN_SERVICE));
        let known = self.service.filter(|_| !self.service_is_least);
        self.in_flight[index].taken + known.map_or_else(unknown, |service| (2 * service).max(LEAST_OVERDUE))
    }

    /// Lets go of the first `chunks` that this lane was given, and of those that lie below `consumed`.
    pub(super) fn release(&mut self, now: Instant, chunks: u64, consumed: u64) {
        while let Some(front) = self.in_flight.front()
            && (self.first < chunks || front.chunk.is_known_below(consumed))
        {
            if self.first >= chunks && front.passed_on {
                // It came by the lane that took it over. How long this one takes is not known, but that it is longer.
                let least = now.saturating_duration_since(front.taken);
                if self.service.is_none_or(|service| service < least) {
                    (self.service, self.service_is_least) = (Some(least), true);
                }
            }
            self.in_flight.pop_front();
            self.first += 1;
        }
    }
}

/// How long a chunk may take at most on a lane that has not had one acknowledged yet.
pub(super) const UNKNOWN_SERVICE: Duration = Duration::from_millis(500);
/// No chunk is overdue before this on a lane that is known: acknowledgements wait for 10 ms, and a busy machine schedules as it
/// likes. TCP waits as long before it sends again for want of news (`TCP_RTO_MIN` in Linux).
const LEAST_OVERDUE: Duration = Duration::from_millis(200);
/// The shortest time a rate is taken from: two acknowledgements that come together say nothing of it.
const SHORTEST_SAMPLE: Duration = Duration::from_millis(1);
/// Less time than this is not worth sending a chunk twice.
pub(super) const LEAST_GAIN: Duration = Duration::from_millis(50);
