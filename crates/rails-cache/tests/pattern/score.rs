//! How well a detector foretells a trace.

use rails_array::{Region, Shape};
use rails_cache::pattern::Detector;
use std::collections::HashSet;

/// A read of a trace.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) region: Region,
    /// Whether the detector has seen enough to foretell it.
    pub(crate) counts: bool,
}

/// The fate of the reads and predictions of a trace.
#[derive(Debug, Default)]
pub(crate) struct Score {
    reads: usize,
    /// Reads after which something was predicted.
    predicting: usize,
    /// Reads that count, and those of them that were foretold.
    counted: usize,
    hits: usize,
    /// Regions that were predicted when they were not held, and those of them that were never read.
    brought: usize,
    unused: usize,
}

impl Score {
    /// Every read is followed by a prediction of eight regions, which are brought and stay.
    pub(crate) fn of(array: &Shape, trace: &[Read]) -> Self {
        let mut detector = Detector::new(array);
        let mut score = Self::default();
        let mut foretold = HashSet::new();
        let mut held = HashSet::new();
        let mut last = None;
        for read in trace {
            if last == Some(&read.region) {
                // A detector need not foretell that a job reads a region again at once.
                detector.observe(&read.region);
                continue;
            }
            last = Some(&read.region);
            score.reads += 1;
            let hit = foretold.remove(&read.region);
            score.counted += usize::from(read.counts);
            score.hits += usize::from(read.counts && hit);
            held.insert(read.region.clone());
            detector.observe(&read.region);
            let predictions = detector.predict(8).next;
            score.predicting += usize::from(!predictions.is_empty());
            for prediction in predictions {
                score.brought += usize::from(held.insert(prediction.region.clone()));
                foretold.insert(prediction.region);
            }
        }
        let read: HashSet<_> = trace.iter().map(|read| &read.region).collect();
        score.unused = held.iter().filter(|region| !read.contains(region)).count();
        score
    }

    /// The part of the reads that count which was foretold, in percent.
    pub(crate) fn hit_ratio(&self) -> f64 {
        percent(self.hits, self.counted)
    }

    /// The part of the regions brought ahead of time that were never read, in percent.
    pub(crate) fn waste(&self) -> f64 {
        percent(self.unused, self.brought)
    }

    /// The part of the reads after which something was predicted, in percent.
    pub(crate) fn predicting(&self) -> f64 {
        percent(self.predicting, self.reads)
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}
