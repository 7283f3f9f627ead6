//! Work of a fixed amount, for threads that compute.

use std::{
    hint,
    time::{Duration, Instant},
};

/// An amount of work: arithmetic in registers, which needs a CPU and no memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    steps: u64,
}

impl Work {
    /// Work that takes about `time` on the calling thread's CPU while no other thread runs there.
    pub(crate) fn lasting(time: Duration) -> Self {
        let mut probe = Self { steps: 1000 };
        while probe.run() < PROBE {
            probe.steps *= 2;
        }
        // Other threads make the probe slower and never faster, so the shortest time counts.
        let least = (0..PROBES).map(|_| probe.run()).min().unwrap_or(PROBE).max(Duration::from_nanos(1));
        Self { steps: (probe.steps as f64 * time.as_secs_f64() / least.as_secs_f64()).max(1.0) as u64 }
    }

    /// Does the work, and returns the time that it took.
    pub(crate) fn run(self) -> Duration {
        let start = Instant::now();
        let mut value = hint::black_box(1_u64);
        for _ in 0..self.steps {
            value ^= value << 13;
            value ^= value >> 7;
            value ^= value << 17;
        }
        hint::black_box(value);
        start.elapsed()
    }
}

/// The time of the work that is measured.
const PROBE: Duration = Duration::from_millis(1);
/// The number of measurements.
const PROBES: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_work_has_more_steps() {
        let [short, long] = [1, 100].map(|millis| Work::lasting(Duration::from_millis(millis)));
        assert!(short.steps > 0 && long.steps > short.steps, "{short:?} {long:?}");
        assert!(!short.run().is_zero());
    }
}
