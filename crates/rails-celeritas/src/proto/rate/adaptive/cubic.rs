//! A window that grows as CUBIC's (RFC 9438), for a path whose queue others keep full.

use std::time::{Duration, Instant};

/// A window in packets of 1,500 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cubic {
    /// The window at the last loss, and that with which growth began then.
    w_max: f64,
    cwnd_epoch: f64,
    epoch_start: Instant,
}

impl Cubic {
    /// A window that carries `rate` over this round trip.
    pub(super) fn new(now: Instant, rate: f64, rtt: Duration) -> Self {
        let window = rate * rtt.as_secs_f64() / PACKET;
        Self { w_max: window, cwnd_epoch: window, epoch_start: now }
    }

    /// The rate that the window carries.
    pub(super) fn rate(&self, now: Instant, rtt: Duration) -> f64 {
        self.window(now, rtt) * PACKET / rtt.as_secs_f64().max(1e-6)
    }

    /// The queue has overflowed. Losses of the next two round trips are of the same overflow.
    pub(super) fn cut(&mut self, now: Instant, rtt: Duration) {
        if now < self.epoch_start + 2 * rtt {
            return;
        }
        let window = self.window(now, rtt);
        *self = Self { w_max: window, cwnd_epoch: window * BETA, epoch_start: now };
    }

    /// Takes out a time in which the window was not used, and does not grow.
    pub(super) fn hold(&mut self, time: Duration) {
        self.epoch_start += time;
    }

    fn window(&self, now: Instant, rtt: Duration) -> f64 {
        let time = now.saturating_duration_since(self.epoch_start).as_secs_f64();
        let middle = ((self.w_max - self.cwnd_epoch) / C).max(0.0).cbrt();
        let cubic = self.w_max + C * (time - middle).powi(3);
        let reno = self.cwnd_epoch + ALPHA * time / rtt.as_secs_f64().max(1e-6);
        cubic.max(reno)
    }
}

/// The bits of a packet.
const PACKET: f64 = 12_000.0;
/// RFC 9438, sections 4.1 and 4.6: C, beta, and the packets by which the window grows each round
/// trip where Reno's would grow faster.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
