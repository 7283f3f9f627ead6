//! The figures of a contender over all rounds.

use super::plan::{Blocks, Figures};
use rails_cli::spread::Spread;
use rails_lab::EmulatedCounters;
use serde::Serialize;

/// One run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    /// The round, from 1.
    pub(crate) round: usize,
    /// The contender.
    pub(crate) name: &'static str,
    /// The figures.
    pub(crate) figures: Figures,
    /// Bytes of frames that arrived at the reader, on all links.
    pub(crate) received: u64,
    /// The counts of each link.
    pub(crate) links: Vec<EmulatedCounters>,
    /// Segments that TCP sent again, at both ends.
    pub(crate) retransmitted: u64,
    /// The machine's load average over a minute, when the run began.
    pub(crate) load: f64,
    /// The seed of the links.
    pub(crate) seed: u64,
}

/// The figures of a contender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Outcome {
    /// The contender.
    pub(crate) name: &'static str,
    /// The seconds for all steps.
    pub(crate) seconds: Spread,
    /// The seconds of waiting.
    pub(crate) waited: Option<Spread>,
    /// The share of waits in the time.
    pub(crate) stall: Option<Spread>,
    /// The share of blocks that were there or on their way, after two steps.
    pub(crate) hits: Option<Spread>,
    /// The share of blocks that came ahead of time in vain.
    pub(crate) waste: Option<Spread>,
    /// The share of blocks that a node had for the application.
    pub(crate) node_hits: Option<Spread>,
    /// The application's smallest memory as a share of its `min`.
    pub(crate) min_share: Option<Spread>,
    /// The versions of a rival's libraries.
    pub(crate) version: Option<String>,
}

impl Outcome {
    /// The figures of a contender's samples, each of so many steps, whose seconds are multiplied by
    /// `scale`; `None` without a sample.
    pub(crate) fn of(name: &'static str, steps: usize, scale: f64, samples: &[Sample]) -> Option<Self> {
        let of = || samples.iter().filter(|sample| sample.name == name).map(|sample| &sample.figures);
        let waited = |figures: &&Figures| !figures.waits.is_empty();
        Some(Self {
            name,
            seconds: Spread::of(of().map(|figures| figures.seconds * scale))?,
            waited: Spread::of(of().filter(waited).map(Figures::waited)),
            stall: Spread::of(of().filter(waited).map(|figures| figures.waited() / figures.seconds)),
            hits: Spread::of(of().filter_map(|figures| hits(&figures.blocks?, steps))),
            waste: Spread::of(of().filter_map(|figures| waste(&figures.blocks?))),
            node_hits: Spread::of(of().filter_map(|figures| Some(figures.shared?.hit_ratio))),
            min_share: Spread::of(of().filter_map(|figures| figures.shared?.min_share)),
            version: of().find_map(|figures| figures.version.clone()),
        })
    }
}

/// The share of blocks that were there or on their way when they were asked for, without those of
/// two steps, from which a reader's stride is seen.
fn hits(blocks: &Blocks, steps: usize) -> Option<f64> {
    let asked = blocks.hits + blocks.ahead_hits + blocks.late_ahead + blocks.misses;
    let first = asked.checked_div(steps as u64)? * 2;
    let later = asked.checked_sub(first).filter(|later| *later > 0)?;
    Some((later as f64 - blocks.misses.saturating_sub(first) as f64) / later as f64)
}

fn waste(blocks: &Blocks) -> Option<f64> {
    let ahead = blocks.ahead_fetched + blocks.pushed;
    Some(if ahead == 0 { 0.0 } else { blocks.unused as f64 / ahead as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Blocks =
        Blocks { hits: 0, ahead_hits: 0, late_ahead: 0, misses: 0, ahead_fetched: 0, pushed: 0, used: 0, unused: 0 };

    #[test]
    fn misses_of_two_steps_are_forgiven() {
        let blocks = Blocks { hits: 90, ahead_hits: 6, misses: 4, ..NONE };
        assert_eq!(hits(&blocks, 50), Some(1.0));
        assert_eq!(hits(&Blocks { hits: 48, late_ahead: 0, misses: 52, ..NONE }, 50), Some(0.5));
        assert_eq!(hits(&NONE, 50), None);
    }

    #[test]
    fn waste_is_a_share_of_blocks_ahead_of_time() {
        assert_eq!(waste(&NONE), Some(0.0));
        assert_eq!(waste(&Blocks { ahead_fetched: 6, pushed: 4, unused: 1, ..NONE }), Some(0.1));
    }
}
