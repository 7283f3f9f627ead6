//! A window that grows as CUBIC's (RFC 9438), for a path whose queue others keep full.

use std::time::{Duration, Instant};

/// A window in packets of 1,500 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cubic {
    /// The window at the last loss, and that with which growth began then.
    most: f64,
    first: f64,
    since: Instant,
}

impl Cubic {
    /// A window that carries `rate` over this round trip.
    pub(super) fn new(now: Instant, rate: f64, round_trip: Duration) -> Self {
        let window = rate * round_trip.as_secs_f64() / PACKET;
        Self { most: window, first: window, since: now }
    }

    /// The rate that the window carries.
    pub(super) fn rate(&self, now: Instant, round_trip: Duration) -> f64 {
        self.window(now, round_trip) * PACKET / round_trip.as_secs_f64().max(1e-6)
    }

    /// The queue has overflowed. Losses of the next two round trips are of the same overflow.
    pub(super) fn cut(&mut self, now: Instant, round_trip: Duration) {
        if now < self.since + 2 * round_trip {
            return;
        }
        let window = self.window(now, round_trip);
        *self = Self { most: window, first: window * KEPT, since: now };
    }

    /// Takes out a time in which the window was not used, and does not grow.
    pub(super) fn hold(&mut self, time: Duration) {
        self.since += time;
    }

    fn window(&self, now: Instant, round_trip: Duration) -> f64 {
        let time = now.saturating_duration_since(self.since).as_secs_f64();
        let middle = ((self.most - self.first) / GROWTH).max(0.0).cbrt();
        let cubic = self.most + GROWTH * (time - middle).powi(3);
        let reno = self.first + RENO * time / round_trip.as_secs_f64().max(1e-6);
        cubic.max(reno)
    }
}

/// The bits of a packet.
const PACKET: f64 = 12_000.0;
/// RFC 9438, sections 4.1 and 4.6: C, beta, and the packets by which the window grows each round
/// trip where Reno's would grow faster.
const GROWTH: f64 = 0.4;
const KEPT: f64 = 0.7;
const RENO: f64 = 3.0 * (1.0 - KEPT) / (1.0 + KEPT);
