//! A long-distance link in user space: rate, delay, loss and a queue that ends.
//!
//! `EmulatedLink` describes it, `line` decides for each frame of one direction whether and when it
//! is delivered, `thread` moves the frames between two TAP devices as decided, `tap` opens them,
//! `counters` counts the outcomes.

mod counters;
mod line;
mod tap;
mod thread;

use crate::Side;
pub(crate) use counters::Outages;
pub use counters::{EmulatedCounters, LineCounters};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};
pub(crate) use tap::open;
pub(crate) use thread::Carrier;

/// A link of a rate, a round-trip time, a queue that ends, and a probability of loss, both ways
/// alike.
///
/// The kernel's own means is netem, which not every kernel has. An emulated link is a thread that
/// moves Ethernet frames between two TAP devices, one at each end.
///
/// ```
/// use std::time::Duration;
/// use rails_lab::EmulatedLink;
///
/// let wan = EmulatedLink::mbit(500).rtt(Duration::from_millis(19)).loss(1e-3).seed(7);
/// assert_eq!(wan.to_string(), "500 Mbit/s, RTT 19ms, queue 20ms, loss 0.001 a>b and 0.001 b>a, seed 7");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[must_use = "an emulated link is only described until a lab is built with it"]
pub struct EmulatedLink {
    bits_per_second: u64,
    rtt: Duration,
    queue: Queue,
    /// The probabilities of loss from A and from B.
    loss: [f64; 2],
    seed: u64,
}

/// The limit on the bytes ahead of an accepted frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Queue {
    Time(Duration),
    Bytes(u64),
}

impl EmulatedLink {
    /// An emulated link of `mbit` megabits (10^6 bits) per second without delay or loss, with 20 ms
    /// of queue and seed 0.
    ///
    /// Like a token bucket's, the rate counts Ethernet headers, but neither checksum nor preamble.
    pub const fn mbit(mbit: u64) -> Self {
        Self::bits_per_second(mbit.saturating_mul(1_000_000))
    }

    /// [`EmulatedLink::mbit`] in bits per second.
    pub const fn bits_per_second(bits: u64) -> Self {
        Self { bits_per_second: bits, rtt: Duration::ZERO, queue: Queue::Time(DEFAULT_QUEUE), loss: [0.0; 2], seed: 0 }
    }

    /// The round-trip time of the line: each direction delays every frame by half of it, in
    /// addition to the frame's time in the queue and its transmission time. At most 20 s; default
    /// 0.
    pub const fn rtt(mut self, rtt: Duration) -> Self {
        self.rtt = rtt;
        self
    }

    /// The longest wait of a frame in the queue; a frame that would wait longer is dropped (tail
    /// drop). At most 10 s; default 20 ms.
    pub const fn queue(mut self, longest: Duration) -> Self {
        self.queue = Queue::Time(longest);
        self
    }

    /// The queue's limit in bytes ahead of a frame, which does not depend on the rate.
    pub const fn queue_bytes(mut self, bytes: u64) -> Self {
        self.queue = Queue::Bytes(bytes);
        self
    }

    /// The probability that a frame is lost, independently of others, in both directions: 0 to 1;
    /// default 0.
    pub const fn loss(mut self, probability: f64) -> Self {
        self.loss = [probability; 2];
        self
    }

    /// The probability of loss for the frames from one side only.
    pub const fn loss_from(mut self, side: Side, probability: f64) -> Self {
        self.loss[side as usize] = probability;
        self
    }

    /// The seed of the losses. Whether the n-th frame of a direction is lost depends on the seed,
    /// the direction and n alone, not on timing; default 0.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Refuses impossible values, with the reason.
    pub(crate) fn validate(self) -> Result<(), &'static str> {
        let reason = if !(MIN_BITS_PER_SECOND..=MAX_BITS_PER_SECOND).contains(&self.bits_per_second) {
            "the rate is outside 10 kbit/s to 10 Gbit/s"
        } else if self.rtt > MAX_RTT {
            "the round-trip time is above 20 s"
        } else if self.longest_wait() > MAX_QUEUE {
            "the queue is longer than 10 s at that rate"
        } else if !self.loss.iter().all(|probability| (0.0..=1.0).contains(probability)) {
            "a probability of loss is outside 0 to 1"
        } else {
            return Ok(());
        };
        Err(reason)
    }

    /// The time from a frame's first bit to its last, rounded up: the rate is never exceeded.
    fn time_to_send(self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * 8 * NANOS_PER_SECOND).div_ceil(u128::from(self.bits_per_second.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn longest_wait(self) -> Duration {
        match self.queue {
            Queue::Time(longest) => longest,
            Queue::Bytes(bytes) => self.time_to_send(bytes),
        }
    }

    fn delay(self) -> Duration {
        self.rtt / 2
    }
}

/// Writes one line, seed included, so that a printed link can be made again.
impl fmt::Display for EmulatedLink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbit = self.bits_per_second as f64 / 1e6;
        write!(formatter, "{mbit} Mbit/s, RTT {:?}, queue ", self.rtt)?;
        match self.queue {
            Queue::Time(longest) => write!(formatter, "{longest:?}")?,
            Queue::Bytes(bytes) => write!(formatter, "{bytes} B")?,
        }
        write!(formatter, ", loss {} a>b and {} b>a, seed {}", self.loss[0], self.loss[1], self.seed)
    }
}

const DEFAULT_QUEUE: Duration = Duration::from_millis(20);
const MIN_BITS_PER_SECOND: u64 = 10_000;
/// Far above the rate of a thread between two TAPs (see `thread`), so that nanoseconds are fine
/// enough.
const MAX_BITS_PER_SECOND: u64 = 10_000_000_000;
const MAX_RTT: Duration = Duration::from_secs(20);
const MAX_QUEUE: Duration = Duration::from_secs(10);
const NANOS_PER_SECOND: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabError, description::Description};

    #[test]
    fn impossible_links_are_refused_with_the_reason() {
        let good = EmulatedLink::mbit(500);
        good.rtt(MAX_RTT).queue(MAX_QUEUE).loss(1.0).validate().unwrap();
        good.queue(Duration::ZERO).validate().unwrap();
        for (bad, said) in [
            (EmulatedLink::mbit(0), "rate"),
            (EmulatedLink::mbit(u64::MAX), "rate"),
            (good.rtt(MAX_RTT + Duration::from_nanos(1)), "round-trip"),
            (good.queue(MAX_QUEUE + Duration::from_nanos(1)), "queue"),
            (good.queue_bytes(u64::MAX), "queue"),
            (good.loss(1.1), "loss"),
            (good.loss(-0.1), "loss"),
            (good.loss_from(Side::B, f64::NAN), "loss"),
        ] {
            let error = Description::Emulated(bad).validate().unwrap_err();
            assert!(matches!(&error, LabError::BadEmulatedLink { reason, .. } if reason.contains(said)), "{error}");
        }
    }

    #[test]
    fn a_queue_in_bytes_is_a_time_at_the_rate() {
        assert_eq!(EmulatedLink::mbit(8).queue_bytes(1000).longest_wait(), Duration::from_millis(1));
        assert_eq!(EmulatedLink::mbit(500).time_to_send(1514), Duration::from_nanos(24_224));
        assert_eq!(EmulatedLink::bits_per_second(3_000_000_000).time_to_send(1), Duration::from_nanos(3), "rounded up");
    }

    #[test]
    fn each_side_has_its_own_loss() {
        let link = EmulatedLink::mbit(1).loss(0.5).loss_from(Side::B, 0.25);
        assert_eq!(link.loss, [0.5, 0.25]);
    }
}
