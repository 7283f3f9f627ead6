//! The least round trip of the last seconds.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The least round trip of a window of time: older samples are forgotten, so that a path may become
/// a longer one.
#[derive(Debug, Default)]
pub(crate) struct WindowedMin {
    /// Samples of which no later one is shorter: the first is the least.
    samples: VecDeque<(Instant, Duration)>,
}

impl WindowedMin {
    pub(crate) fn sample(&mut self, now: Instant, rtt: Duration) {
        while self.samples.back().is_some_and(|(_, last)| *last >= rtt) {
            self.samples.pop_back();
        }
        self.samples.push_back((now, rtt));
        while self.samples.front().is_some_and(|(at, _)| *at + WINDOW <= now) {
            self.samples.pop_front();
        }
    }

    pub(crate) fn get(&self) -> Option<Duration> {
        self.samples.front().map(|(_, least)| *least)
    }
}

/// The time for which a round trip is the path's least one (10 s in BBR).
const WINDOW: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_forgotten() {
        let (begin, ms) = (Instant::now(), Duration::from_millis(1));
        let mut least = WindowedMin::default();
        assert_eq!(least.get(), None);
        for (at, sample, expected) in
            [(0, 20, 20), (1_000, 30, 20), (2_000, 25, 20), (10_000, 40, 25), (12_000, 50, 40)]
        {
            least.sample(begin + at * ms, sample * ms);
            assert_eq!(least.get(), Some(expected * ms), "after {at} ms");
        }
    }
}
