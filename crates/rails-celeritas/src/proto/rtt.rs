//! The round-trip time, as RFC 9002 (section 5) estimates it.

use std::time::Duration;

/// An estimate of a path's round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttEstimator {
    smoothed: Duration,
    variation: Duration,
    min: Duration,
    latest: Duration,
}

impl RttEstimator {
    /// The estimate after its first sample.
    pub fn new(first: Duration) -> Self {
        Self { smoothed: first, variation: first / 2, min: first, latest: first }
    }

    /// Takes a sample. `delay` is the part of it for which the peer held its answer back.
    pub fn sample(&mut self, whole: Duration, delay: Duration) {
        self.min = self.min.min(whole);
        // A delay that would make the sample shorter than the path is not believed.
        let sample = if whole >= self.min + delay { whole - delay } else { whole };
        self.latest = sample;
        let difference = self.smoothed.abs_diff(sample);
        self.variation = (3 * self.variation + difference) / 4;
        self.smoothed = (7 * self.smoothed + sample) / 8;
    }

    /// The smoothed time.
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The mean deviation.
    pub fn variation(&self) -> Duration {
        self.variation
    }

    /// The least sample.
    pub fn min(&self) -> Duration {
        self.min
    }

    /// The time after which a packet is lost if a later one has arrived: 9/8 of a round trip (RFC
    /// 9002, section 6.1.2).
    pub fn loss_delay(&self) -> Duration {
        (self.smoothed.max(self.latest) * 9 / 8).max(GRANULARITY)
    }

    /// The time after which a packet that nothing was heard of is sent again (RFC 9002, section
    /// 6.2.1), if the peer answers within `delay`.
    pub fn pto(&self, delay: Duration) -> Duration {
        self.smoothed + (4 * self.variation).max(GRANULARITY) + delay
    }
}

/// RFC 9002's kGranularity.
const GRANULARITY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn samples_are_smoothed() {
        let mut rtt = RttEstimator::new(20 * MS);
        rtt.sample(30 * MS, 2 * MS);
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.min()), (21 * MS, Duration::from_micros(9_500), 20 * MS));
        rtt.sample(19 * MS, 5 * MS);
        assert_eq!(rtt.min(), 19 * MS, "the delay is not believed");
        assert_eq!(rtt.loss_delay(), rtt.smoothed() * 9 / 8);
    }
}
