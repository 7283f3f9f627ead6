//! Detectors of patterns over generated traces.

mod consecutive;
mod examples;
mod properties;
mod score;
mod traces;

use proptest::{prelude::*, test_runner::RngSeed};
use score::Score;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn strides_are_foretold(trace in traces::strides()) {
        let score = Score::of(&trace.array, &trace.reads);
        prop_assert!(score.hit_ratio() >= 95.0 && score.waste() <= 5.0, "{score:?}");
    }

    #[test]
    fn nests_are_foretold(trace in traces::nests()) {
        let score = Score::of(&trace.array, &trace.reads);
        prop_assert!(score.hit_ratio() >= 95.0 && score.waste() <= 5.0, "{score:?}");
    }

    #[test]
    fn cut_boxes_are_foretold(trace in traces::tiles()) {
        let score = Score::of(&trace.array, &trace.reads);
        prop_assert!(score.hit_ratio() >= 95.0 && score.waste() <= 5.0, "{score:?}");
    }

    #[test]
    fn noise_hides_no_nest(trace in traces::noisy()) {
        let score = Score::of(&trace.array, &trace.reads);
        prop_assert!(score.hit_ratio() >= 95.0 && score.waste() <= 5.0, "{score:?}");
    }

    #[test]
    fn threads_are_foretold_apart(trace in traces::threads()) {
        let score = Score::of(&trace.array, &trace.reads);
        prop_assert!(score.hit_ratio() >= 85.0 && score.waste() <= 5.0, "{score:?}");
    }

    #[test]
    fn random_reads_are_not_foretold(trace in traces::random()) {
        let score = Score::of(&trace.array, &trace.reads);
        prop_assert!(score.predicting() <= 2.0, "{score:?}");
    }
}

/// The traces are the same in each run. Of nests in one dimension, one in some ten thousand is
/// mistaken: its loops happen to go on where others would have.
fn config() -> ProptestConfig {
    ProptestConfig { cases: CASES, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() }
}

/// Each is a trace of about a thousand reads.
const CASES: u32 = 32;
