//! When a receiver looks for segments at fixed times instead of at each arrival, so that one wake
//! takes several.

use std::time::{Duration, Instant};

/// The hold-off of a receiver's wakes, as a network card has it for its interrupts. On a path of
/// some hundred Mbit/s packets come one by one, each tens of microseconds after the one before, and
/// a wake costs several times the call that receives one.
#[derive(Debug)]
pub struct HoldOff {
    /// When the time of these counts began.
    since: Instant,
    trains: u64,
    bytes: u64,
    until: Option<Instant>,
}

impl HoldOff {
    /// Begins without a hold.
    pub fn new(now: Instant) -> Self {
        Self { since: now, trains: 0, bytes: 0, until: None }
    }

    /// Notes that all segments which had come by `now` were received: `trains` more, with `bytes`
    /// together. A hold is a small part of the path's least round trip, as the peer has measured
    /// it: it delays messages, and the news of segments. The time of a handshake may be much
    /// longer.
    pub fn received(&mut self, now: Instant, trains: u64, bytes: u64, rtt: Option<Duration>) {
        self.trains += trains;
        self.bytes += bytes;
        let hold = rtt.map_or(Duration::ZERO, |rtt| (rtt / RTT_PART).min(MAX_HOLD));
        let passed = now.saturating_duration_since(self.since);
        if self.until.is_some_and(|until| now < until) || passed < hold {
            return;
        }
        // A hold that would take in fewer saves nothing.
        let is_worthwhile = hold >= MIN_HOLD
            && u128::from(self.trains) * hold.as_nanos() >= u128::from(MIN_TRAINS) * passed.as_nanos()
            && self.bytes <= MAX_BYTES;
        *self = Self { until: is_worthwhile.then(|| now + hold), ..Self::new(now) };
    }

    /// The time until which segments need not wake the receiver, if there is one.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }
}

/// A hold is at most this part of the round trip.
const RTT_PART: u32 = 32;
/// The longest hold.
const MAX_HOLD: Duration = Duration::from_micros(500);
/// A shorter hold is none: to set a timer costs as much as a wake.
const MIN_HOLD: Duration = Duration::from_micros(50);
/// The least number of trains for which a hold is worth its timer.
const MIN_TRAINS: u64 = 4;
/// The most bytes that may come in one hold: a socket's buffer has to take them.
const MAX_BYTES: u64 = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Receives a segment each `interval`, as long as nothing is held, for 10 ms. Returns the
    /// number of looks.
    fn looks(interval: Duration, bytes: u64, rtt: Duration) -> u32 {
        let begin = Instant::now();
        let (mut hold_off, mut now, mut looks) = (HoldOff::new(begin), begin, 0);
        while now < begin + 10_000 * US {
            let next = (now + interval).max(hold_off.until().unwrap_or(begin));
            let segments = (next - now).as_nanos() / interval.as_nanos();
            now = next;
            hold_off.received(now, segments as u64, segments as u64 * bytes, Some(rtt));
            looks += 1;
        }
        looks
    }

    #[test]
    fn packets_that_come_one_by_one_are_received_together() {
        assert!(looks(25 * US, 1500, 19_000 * US) < 50, "{}", looks(25 * US, 1500, 19_000 * US));
    }

    #[test]
    fn rare_packets_and_short_paths_are_not_held() {
        assert_eq!(looks(250 * US, 1500, 19_000 * US), 40);
        assert_eq!(looks(25 * US, 1500, 1_000 * US), 400);
    }

    #[test]
    fn nothing_is_held_before_the_rtt_is_known() {
        let begin = Instant::now();
        let mut hold_off = HoldOff::new(begin);
        hold_off.received(begin + 600 * US, 24, 36_000, None);
        assert_eq!(hold_off.until(), None);
    }

    #[test]
    fn more_than_a_buffer_takes_is_not_held_again() {
        let held = looks(10 * US, 9_000, 19_000 * US);
        assert!(held > 300, "{held}");
    }

    #[test]
    fn a_pause_ends_the_hold() {
        let begin = Instant::now();
        let mut hold_off = HoldOff::new(begin);
        hold_off.received(begin + 600 * US, 24, 36_000, Some(19_000 * US));
        assert_eq!(hold_off.until(), Some(begin + 1100 * US));
        // A look in between, which another event has caused, ends no hold.
        hold_off.received(begin + 700 * US, 0, 0, Some(19_000 * US));
        assert_eq!(hold_off.until(), Some(begin + 1100 * US));
        hold_off.received(begin + 1100 * US, 3, 4_500, Some(19_000 * US));
        assert_eq!(hold_off.until(), None);
    }
}
