//! An estimate with a half-life.

use crate::policy::HALF_LIFE;
use std::time::Duration;

/// A mean of observations, each weighted by its duration. A half-life of newer observations halves
/// the weight of the older ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Estimate(Option<f64>);

impl Estimate {
    pub(super) fn get(self) -> Option<f64> {
        self.0
    }

    /// Takes an observation of `value` over `time`.
    pub(super) fn update(&mut self, time: Duration, value: f64) {
        let kept = 0.5f64.powf(time.as_secs_f64() / HALF_LIFE.as_secs_f64());
        self.0 = Some(self.0.map_or(value, |known| known * kept + value * (1.0 - kept)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_life_of_an_estimate_in_any_parts() {
        let mut whole = Estimate(Some(100.0));
        whole.update(HALF_LIFE, 0.0);
        assert!((whole.get().unwrap() - 50.0).abs() < 1e-9);
        let mut parts = Estimate(Some(100.0));
        (0..10).for_each(|_| parts.update(HALF_LIFE / 10, 0.0));
        assert!((parts.get().unwrap() - 50.0).abs() < 1e-9);
    }
}
