//! The encoding of a block, chosen so that the block arrives soonest.

use crate::wire::{Encoding, Encodings};
use std::{collections::VecDeque, time::Duration};

/// Chooses the encodings of blocks of one kind, such as those of an array, on one link.
///
/// Each block is encoded so that it is expected to arrive soonest: it is encoded while the bytes
/// before it leave, then leaves itself, and is decoded. Rate and ratio of an encoding are those of
/// the last [`WINDOW`](Self::WINDOW) blocks; one block in so many tries an encoding that is not in
/// use, so that other data or an idle processor are noticed. A link that is faster than an encoder
/// has its blocks as they are, however many of them wait: the encoder would hold them up.
///
/// The peer does not tell how long it decodes, so that is taken for half of the time for encoding.
///
/// ```
/// use rails_lambdaram::{encoding::{Chooser, LinkLoad, SUPPORTED}, wire::Encoding};
/// use std::time::Duration;
///
/// let mut chooser = Chooser::new(SUPPORTED);
/// let link = LinkLoad { bytes_per_second: Some(62_500_000), queued_bytes: 0 };
/// // Nothing is known of the encoding yet: the first block tries it.
/// assert_eq!(chooser.choose(1 << 20, &link), Encoding::Decimal);
/// chooser.record(Encoding::Decimal, 1 << 20, 600_000, Duration::from_millis(2));
/// ```
#[derive(Debug, Clone)]
pub struct Chooser {
    /// The number of blocks that were chosen for.
    blocks: u64,
    /// The number of the block that was last a trial.
    last_trial: Option<u64>,
    candidates: Vec<Candidate>,
}

/// The state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkLoad {
    /// The measured rate; `None` if nothing has been measured yet, which counts as 100 Mbit/s.
    pub bytes_per_second: Option<u64>,
    /// The bytes that are ready, and leave before the block.
    pub queued_bytes: u64,
}

/// An encoding, and its last blocks.
#[derive(Debug, Clone)]
struct Candidate {
    encoding: Encoding,
    /// The number of the block for which it was last chosen.
    last_chosen: Option<u64>,
    samples: VecDeque<Sample>,
}

/// A block that was encoded.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// The number of blocks that had been chosen for.
    at: u64,
    block_bytes: u64,
    payload_bytes: u64,
    seconds: f64,
}

impl Chooser {
    /// The number of blocks over which rates and ratios are measured, and of which one is a trial.
    pub const WINDOW: usize = 64;

    /// A chooser among encodings: those that this build and the peer have.
    pub fn new(encodings: Encodings) -> Self {
        let of = |encoding| Candidate { encoding, last_chosen: None, samples: VecDeque::new() };
        // The one that makes most blocks shortest is tried first: a young link is slow.
        let candidates = Encoding::ALL.into_iter().rev().filter(|encoding| *encoding != Encoding::None);
        // Blocks that are no decimal fractions are encoded by Zstandard instead.
        let takes = |encoding: &Encoding| encodings.contains(*encoding);
        let fits = |encoding: &Encoding| takes(encoding) && (*encoding != Encoding::Decimal || takes(&Encoding::Zstd));
        let candidates = candidates.filter(fits).map(of).collect();
        Self { blocks: 0, last_trial: None, candidates }
    }

    /// The encoding of the next block. The caller [records](Self::record) what became of it.
    pub fn choose(&mut self, block_bytes: usize, link: &LinkLoad) -> Encoding {
        let at = self.blocks;
        self.blocks += 1;
        let best = self.best(block_bytes, link);
        let chosen = match self.due_trial(best) {
            Some(encoding) => {
                self.last_trial = Some(at);
                encoding
            }
            None => best,
        };
        if let Some(candidate) = self.candidate(chosen) {
            candidate.last_chosen = Some(at);
        }
        chosen
    }

    /// Tells the size and the time of a block that was encoded as chosen. One that did not get
    /// shorter has the payload of its own size.
    pub fn record(&mut self, encoding: Encoding, block_bytes: usize, payload_bytes: usize, took: Duration) {
        let at = self.blocks;
        let Some(candidate) = self.candidate(encoding) else { return };
        let window = Self::WINDOW as u64;
        candidate.samples.retain(|sample| at - sample.at < window);
        if candidate.samples.len() == Self::WINDOW {
            candidate.samples.pop_front();
        }
        candidate.samples.push_back(Sample {
            at,
            block_bytes: block_bytes as u64,
            payload_bytes: payload_bytes as u64,
            seconds: took.as_secs_f64(),
        });
    }

    /// The encoding with which a block is expected to arrive soonest, among those that were tried.
    fn best(&self, block_bytes: usize, link: &LinkLoad) -> Encoding {
        let bytes_per_second = link.bytes_per_second.unwrap_or(DEFAULT_RATE).max(1);
        let (rate, bytes) = (bytes_per_second as f64, block_bytes as f64);
        let queued = link.queued_bytes as f64 / rate;
        let mut best = (queued + bytes / rate, Encoding::None);
        for candidate in &self.candidates {
            let Some((seconds_per_byte, part)) = candidate.measured() else { continue };
            let encoding = seconds_per_byte * bytes;
            let arrival = encoding.max(queued) + part * bytes / rate + DECODING * encoding;
            if seconds_per_byte * rate < 1.0 && arrival < best.0 {
                best = (arrival, candidate.encoding);
            }
        }
        best.1
    }

    /// The encoding that this block tries, if one is due: one that was never chosen, which is due
    /// sooner, or the one that was not chosen for the longest time.
    fn due_trial(&self, best: Encoding) -> Option<Encoding> {
        let others = self.candidates.iter().filter(|candidate| candidate.encoding != best);
        let longest = others.min_by_key(|candidate| candidate.last_chosen)?;
        // The first blocks of a link are worth most, so other encodings wait for the later ones.
        let blocks = if longest.last_chosen.is_none() { Self::WINDOW / 4 } else { Self::WINDOW };
        let is_due = |last: u64| self.blocks > last + blocks as u64;
        self.last_trial.is_none_or(is_due).then_some(longest.encoding)
    }

    fn candidate(&mut self, encoding: Encoding) -> Option<&mut Candidate> {
        self.candidates.iter_mut().find(|candidate| candidate.encoding == encoding)
    }
}

impl Candidate {
    /// Seconds for a byte of a block, and the part of it that remains; `None` before the first.
    ///
    /// The time is the median: an encoder that another program has interrupted for some
    /// milliseconds is no slow one, and the bytes that wait on the link leave meanwhile.
    fn measured(&self) -> Option<(f64, f64)> {
        let sum = |number: fn(&Sample) -> f64| self.samples.iter().map(number).sum::<f64>();
        let block_bytes = sum(|sample| sample.block_bytes as f64);
        let mut seconds: Vec<f64> =
            self.samples.iter().map(|sample| sample.seconds / sample.block_bytes.max(1) as f64).collect();
        seconds.sort_unstable_by(f64::total_cmp);
        let median = *seconds.get(seconds.len() / 2)?;
        (block_bytes > 0.0).then(|| (median, sum(|sample| sample.payload_bytes as f64) / block_bytes))
    }
}

/// The rate of a link of which nothing is known, in bytes a second: TCP begins with ten packets a
/// round trip, which are less over any wide area. Over a short path the rate is known soon.
const DEFAULT_RATE: u64 = 12_500_000;
/// The time for decoding as a part of that for encoding. `benches/encoding.rs` has 0.49 of LZ4 and
/// 0.51 of Zstandard, on blocks of 256 KiB of 4-byte numbers that get 1.8 times shorter.
const DECODING: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use std::collections::HashMap;

    /// What an encoder makes of a kind of data: bytes a second, and how many times shorter.
    type Power = HashMap<Encoding, (f64, f64)>;

    const BLOCK: usize = 256 << 10;
    const MBIT: u64 = 125_000;

    /// LZ4 at 600 MB/s and Zstandard at 300 MB/s, with these ratios.
    fn power(lz4: f64, zstd: f64) -> Power {
        [(Encoding::Lz4, (600e6, lz4)), (Encoding::Zstd, (300e6, zstd))].into()
    }

    fn both() -> Chooser {
        Chooser::new(Encodings::NONE.with(Encoding::Lz4).with(Encoding::Zstd))
    }

    /// Sends blocks, and counts their encodings.
    fn send(chooser: &mut Chooser, blocks: usize, mbit: u64, power: &Power) -> HashMap<Encoding, usize> {
        let mut counts = HashMap::new();
        for _ in 0..blocks {
            let load = LinkLoad { bytes_per_second: Some(mbit * MBIT), queued_bytes: 0 };
            let encoding = chooser.choose(BLOCK, &load);
            *counts.entry(encoding).or_default() += 1;
            let (rate, ratio) = power.get(&encoding).copied().unwrap_or((1.0, 1.0));
            let took = Duration::from_secs_f64(BLOCK as f64 / rate);
            chooser.record(encoding, BLOCK, (BLOCK as f64 / ratio) as usize, took);
        }
        counts
    }

    #[test]
    fn a_slow_link_gets_encoded_blocks() {
        let mut chooser = Chooser::new(Encodings::NONE.with(Encoding::Lz4));
        assert_eq!(send(&mut chooser, 1000, 500, &power(1.6, 0.0)), [(Encoding::Lz4, 1000)].into());
        // The slower the link, the more a higher ratio is worth.
        let counts = send(&mut both(), 1000, 500, &power(1.6, 1.7));
        assert!(counts[&Encoding::Lz4] > 980 - Chooser::WINDOW / 4, "{counts:?}");
        let counts = send(&mut both(), 1000, 50, &power(1.6, 1.7));
        assert!(counts[&Encoding::Zstd] > 980, "{counts:?}");
    }

    #[test]
    fn a_fast_link_gets_blocks_as_they_are() {
        let counts = send(&mut both(), 1000, 10_000, &power(1.6, 2.0));
        assert!(counts[&Encoding::None] > 980, "{counts:?}");
        // However many bytes wait.
        let mut chooser = both();
        send(&mut chooser, 10, 10_000, &power(4.0, 8.0));
        let load = LinkLoad { bytes_per_second: Some(10_000 * MBIT), queued_bytes: 1 << 40 };
        assert_eq!(chooser.choose(BLOCK, &load), Encoding::None);
    }

    #[test]
    fn noise_is_only_tried() {
        let counts = send(&mut both(), 6400, 500, &power(1.0, 1.0));
        assert_eq!(counts[&Encoding::None], 6400 - 2 - 99, "{counts:?}");
        assert!(counts[&Encoding::Lz4].abs_diff(counts[&Encoding::Zstd]) <= 1, "{counts:?}");
    }

    #[test]
    fn time_behind_others_is_for_encoding() {
        // The encoder takes more time than it saves, unless the block waits anyway.
        let power = power(1.6, 1.0);
        let mut chooser = Chooser::new(Encodings::NONE.with(Encoding::Lz4));
        send(&mut chooser, 3, 2000, &power);
        let choose = |queued_bytes| {
            let load = LinkLoad { bytes_per_second: Some(2000 * MBIT), queued_bytes };
            chooser.clone().choose(BLOCK, &load)
        };
        assert_eq!((choose(0), choose(4 << 20)), (Encoding::None, Encoding::Lz4));
    }

    #[test]
    fn other_data_are_noticed() {
        let mut chooser = both();
        send(&mut chooser, 1000, 500, &power(1.0, 1.0));
        // Each encoding is tried once in two windows, and then it is used.
        let counts = send(&mut chooser, 1000, 500, &power(3.0, 3.0));
        assert!(counts[&Encoding::None] <= 2 * Chooser::WINDOW, "{counts:?}");
        let counts = send(&mut chooser, 1000, 500, &power(1.0, 1.0));
        assert!(counts[&Encoding::None] > 1000 - 2 * Chooser::WINDOW, "{counts:?}");
    }

    #[test]
    fn decimal_fractions_take_zstandard() {
        let load = LinkLoad { bytes_per_second: None, queued_bytes: 0 };
        let first = |encodings| Chooser::new(encodings).choose(BLOCK, &load);
        let decimal = Encodings::NONE.with(Encoding::Decimal);
        assert_eq!((first(decimal), first(decimal.with(Encoding::Lz4))), (Encoding::None, Encoding::Lz4));
        assert_eq!(first(decimal.with(Encoding::Zstd)), Encoding::Decimal);
    }

    #[test]
    fn a_link_without_a_rate_counts_as_a_slow_one() {
        let mut chooser = both();
        let load = LinkLoad { bytes_per_second: None, queued_bytes: 0 };
        let mut choose = || {
            let encoding = chooser.choose(BLOCK, &load);
            chooser.record(encoding, BLOCK, BLOCK / 2, Duration::from_secs_f64(BLOCK as f64 / 600e6));
            encoding
        };
        assert_eq!([choose(), choose(), choose()], [Encoding::Zstd; 3]);
    }

    #[test]
    fn only_allowed_encodings_are_chosen() {
        let counts = send(&mut Chooser::new(Encodings::NONE), 100, 1, &power(9.0, 9.0));
        assert_eq!(counts, [(Encoding::None, 100)].into());
        let counts = send(&mut Chooser::new(Encodings::NONE.with(Encoding::Zstd)), 100, 1, &power(9.0, 9.0));
        assert_eq!(counts, [(Encoding::Zstd, 100)].into());
    }

    proptest! {
        #[test]
        fn any_numbers_are_chosen_for(
            steps in vec((any::<usize>(), any::<Option<u64>>(), any::<u64>(), any::<u64>(), any::<usize>()), 0..300),
        ) {
            let mut chooser = both();
            for (block_bytes, bytes_per_second, queued_bytes, nanoseconds, payload_bytes) in steps {
                let encoding = chooser.choose(block_bytes, &LinkLoad { bytes_per_second, queued_bytes });
                chooser.record(encoding, block_bytes, payload_bytes, Duration::from_nanos(nanoseconds));
            }
            prop_assert!(chooser.candidates.iter().all(|candidate| candidate.samples.len() <= Chooser::WINDOW));
        }
    }
}
