//! Whether files are put on disk together, or one by one.

use std::time::Duration;

/// The costs of the two ways, as the receiver found them last. It takes the cheaper way. A call for
/// all files waits for the bytes of other programs too, which are many at one time and few at
/// another, so that the receiver tries it again.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    /// The time of the last call for all files.
    together: Option<Duration>,
    /// The time of a call for one file.
    alone: Option<Duration>,
    /// The time that calls for one file have taken since the last one for all.
    since: Duration,
    is_refused: bool,
}

impl Syncs {
    /// Whether so many files are put on disk together.
    pub(crate) fn are_together(&self, files: usize) -> bool {
        let are_many = files >= MIN_TOGETHER;
        match (self.together, self.alone) {
            _ if self.is_refused => false,
            (Some(together), Some(alone)) => {
                let all = alone.saturating_mul(u32::try_from(files).unwrap_or(u32::MAX));
                together <= all || are_many && self.since >= together.saturating_mul(RETRY_AFTER)
            }
            (Some(together), None) => are_many && together <= SLOW,
            (None, _) => are_many,
        }
    }

    /// A call for all files took that long.
    pub(crate) fn took_together(&mut self, time: Duration) {
        (self.together, self.since) = (Some(time), Duration::ZERO);
    }

    /// Calls for so many files, one by one, took that long.
    pub(crate) fn took_alone(&mut self, files: usize, time: Duration) {
        if let Ok(count @ 1..) = u32::try_from(files) {
            self.alone = Some(time / count);
            self.since += time;
        }
    }

    /// There is no call for all files here, or it failed.
    pub(crate) fn refuse_together(&mut self) {
        self.is_refused = true;
    }
}

/// For fewer files, a call for all of them is not tried to find its cost.
const MIN_TOGETHER: usize = 16;
/// A call for all files that takes longer is compared with calls for one.
const SLOW: Duration = Duration::from_millis(250);
/// So many times the cost of the last call for all files goes into others before the next try.
const RETRY_AFTER: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The time of so many batches, of which a call for one file takes `alone`, and the n-th call
    /// for all files that of `together`.
    fn time_of(batches: usize, alone: Duration, mut together: impl FnMut(usize) -> Duration) -> Duration {
        let (mut syncs, mut total, mut calls) = (Syncs::default(), Duration::ZERO, 0);
        for _ in 0..batches {
            if syncs.are_together(FILES) {
                let time = together(calls);
                syncs.took_together(time);
                (total, calls) = (total + time, calls + 1);
            } else {
                let time = alone * FILES as u32;
                syncs.took_alone(FILES, time);
                total += time;
            }
        }
        total
    }

    const FILES: usize = 64;

    #[test]
    fn few_files_and_a_call_that_is_refused() {
        let mut syncs = Syncs::default();
        assert!(!syncs.are_together(MIN_TOGETHER - 1) && syncs.are_together(MIN_TOGETHER));
        syncs.took_alone(0, Duration::ZERO);
        syncs.took_alone(1, Duration::from_millis(3));
        syncs.took_together(Duration::from_millis(10));
        assert!(!syncs.are_together(3) && syncs.are_together(4), "the costs are known");
        syncs.refuse_together();
        assert!(!syncs.are_together(1000));
    }

    #[test]
    fn one_slow_call_is_not_the_last() {
        let ms = Duration::from_millis;
        // Others have written much just before, and then nothing more.
        let total = time_of(300, ms(3), |call| if call == 0 { ms(2000) } else { ms(15) });
        assert!(total < ms(12_000), "{total:?}; one by one it would be {:?}", ms(3) * 64 * 300);
    }

    proptest! {
        #[test]
        fn the_cheaper_way_is_taken_most_of_the_time(alone in 100_u64..10_000, together in 100_u64..5_000_000) {
            let [alone, together] = [alone, together].map(Duration::from_micros);
            let total = time_of(400, alone, |_| together);
            let best = (alone * FILES as u32).min(together) * 400;
            let most = if together <= SLOW { together * 400 } else { best + best / 2 + together * 2 };
            prop_assert!(total <= most, "{total:?} of {best:?}");
        }
    }
}
