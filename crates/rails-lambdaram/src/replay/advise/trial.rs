//! A setting that was tried.

use crate::replay::{
    Outcome, Setting,
    outcome::{mean, p99},
};
use std::time::Duration;

/// A setting, and the figures of its replay.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// The setting.
    pub setting: Setting,
    /// The sum of the waits.
    pub waited: Duration,
    /// The mean wait.
    pub mean: Duration,
    /// The wait that 99 of 100 reads do not exceed.
    pub p99: Duration,
    /// The bytes that came over the path.
    pub path_bytes: u64,
}

impl Trial {
    pub(super) fn new(setting: Setting, outcome: &Outcome) -> Self {
        Self {
            setting,
            waited: outcome.waited(),
            mean: mean(&outcome.waits),
            p99: p99(&outcome.waits),
            path_bytes: outcome.path_bytes,
        }
    }

    /// The part of another trial's waits that this one does without. Negative if it waits longer.
    pub fn gain_over(&self, other: &Self) -> f64 {
        if other.waited.is_zero() {
            return 0.0;
        }
        1.0 - self.waited.as_secs_f64() / other.waited.as_secs_f64()
    }

    /// How many settings differ from those of another trial, the memory not among them.
    pub(super) fn changes_from(&self, other: &Setting) -> usize {
        let Setting { policy, prefetch, views, block_shapes, .. } = &self.setting;
        let truths = [*policy != other.policy, *prefetch != other.prefetch, *views != other.views];
        block_shapes.len() + truths.iter().filter(|differs| **differs).count()
    }
}
