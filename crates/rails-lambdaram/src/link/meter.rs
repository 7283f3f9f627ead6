//! The round trip and the rate of a link, from the blocks that come over it.

use rails_cache::pattern::Path;
use std::time::{Duration, Instant};

/// Measures a link by its answers.
///
/// The round trip is the shortest time from a question to its first answer in the last minutes. The
/// rate is that of the busiest of the last periods, in which blocks were always awaited: a reader
/// that asks for little does not make a link slow.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    round_trips: [Duration; 2],
    round_trip_since: Option<Instant>,
    /// The period in which blocks are awaited now.
    busy: Option<Busy>,
    /// The fastest periods of this span of time and of the one before, in bytes a second.
    rates: [u64; 2],
    rate_since: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Busy {
    /// The arrival of the first block: what comes after it was not waited for by a round trip.
    since: Option<Instant>,
    bytes: u64,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { round_trips: [Duration::MAX; 2], round_trip_since: None, busy: None, rates: [0; 2], rate_since: None }
    }

    /// A question was answered after that time.
    pub(super) fn answered(&mut self, after: Duration, now: Instant) {
        if self.round_trip_since.is_none_or(|since| now.saturating_duration_since(since) >= SPAN) {
            self.round_trips = [Duration::MAX, self.round_trips[0]];
            self.round_trip_since = Some(now);
        }
        self.round_trips[0] = self.round_trips[0].min(after);
    }

    /// A block of so many decoded bytes has come; `is_last` says that none is awaited now.
    pub(super) fn received(&mut self, bytes: u64, is_last: bool, now: Instant) {
        let busy = self.busy.get_or_insert(Busy { since: None, bytes: 0 });
        match busy.since {
            None => busy.since = Some(now),
            Some(since) => {
                busy.bytes += bytes;
                let took = now.saturating_duration_since(since);
                if took >= PERIOD {
                    let rate = (u128::from(busy.bytes) * 1_000_000_000 / took.as_nanos()) as u64;
                    *busy = Busy { since: Some(now), bytes: 0 };
                    if self.rate_since.is_none_or(|since| now.saturating_duration_since(since) >= SPAN) {
                        self.rates = [0, self.rates[0]];
                        self.rate_since = Some(now);
                    }
                    self.rates[0] = self.rates[0].max(rate);
                }
            }
        }
        if is_last {
            self.busy = None;
        }
    }

    /// The way over the link.
    pub(crate) fn path(&self) -> Path {
        let round_trip = self.round_trips[0].min(self.round_trips[1]);
        let rate = self.rates[0].max(self.rates[1]);
        Path {
            round_trip: if round_trip == Duration::MAX { DEFAULT_ROUND_TRIP } else { round_trip },
            storage_latency: Duration::ZERO,
            bytes_per_second: if rate == 0 { DEFAULT_RATE } else { rate },
        }
    }
}

/// The time over which the best figures are kept.
const SPAN: Duration = Duration::from_secs(60);
/// The shortest time over which a rate is measured: some dozen blocks on a link of 1 Gbit/s.
const PERIOD: Duration = Duration::from_millis(50);
/// Before the first answer: that of a wide area.
const DEFAULT_ROUND_TRIP: Duration = Duration::from_millis(20);
/// Before the first period: 1 Gbit/s.
const DEFAULT_RATE: u64 = 125_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_busy_link_shows_its_rate() {
        let (mut meter, start) = (Meter::new(), Instant::now());
        assert_eq!(meter.path().bytes_per_second, DEFAULT_RATE);
        for number in 0..100_u32 {
            meter.received(100_000, number == 99, start + MS * number);
        }
        assert_eq!(meter.path().bytes_per_second, 100_000_000);
        // A reader that asks for one block now and then.
        for number in 0..100_u32 {
            meter.received(100_000, true, start + MS * 100 * (number + 2));
        }
        assert_eq!(meter.path().bytes_per_second, 100_000_000);
    }

    #[test]
    fn the_round_trip_is_the_shortest_of_late() {
        let (mut meter, start) = (Meter::new(), Instant::now());
        meter.answered(MS * 19, start);
        meter.answered(MS * 80, start + MS);
        assert_eq!(meter.path().round_trip, MS * 19);
        meter.answered(MS * 40, start + SPAN);
        assert_eq!(meter.path().round_trip, MS * 19);
        meter.answered(MS * 50, start + SPAN * 2);
        assert_eq!(meter.path().round_trip, MS * 40);
    }
}
