//! What a stream of a crowd carries, and how it ends.

use super::Crowd;
use bytes::Bytes;
use rails_proto::stream_number::{Side, StreamNumber};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::time::Duration;

/// What a stream carries in one direction, and how it ends: a function of its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Story {
    pub(super) total: u64,
    /// The sender resets the stream when it has written that much.
    pub(super) reset_at: Option<u64>,
    /// The sender resets the stream after it has finished it.
    pub(super) resets_finished: bool,
    /// The sender finishes the stream in the same moment in which it writes the last bytes.
    pub(super) ends_with_bytes: bool,
    /// The receiver stops the stream when it has read that much.
    pub(super) stop_at: Option<u64>,
    /// The receiver stops the stream when everything has arrived.
    pub(super) stops_whole: bool,
    /// The receiver drops its handle when it has read that much.
    pub(super) drop_at: Option<u64>,
    pub(super) code: u64,
    pub(super) urgency: i32,
    /// The receiver begins to read after this time.
    pub(super) pause: Duration,
}

impl Story {
    pub(super) fn of(crowd: &Crowd, number: StreamNumber, sender: Side) -> Self {
        let seed = crowd.scenario.seed ^ number.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (sender as u64) << 40;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let total = match random.random_range(0..4) {
            0 => 0,
            1 => random.random_range(0..=crowd.longest.min(100)),
            _ => random.random_range(0..=crowd.longest),
        };
        let mut sometimes = |one_in: u32| random.random_ratio(1, one_in).then(|| random.random_range(0..=total));
        let (reset_at, stop_at, drop_at) = (sometimes(8), sometimes(8), sometimes(8));
        let [resets_finished, ends_with_bytes, stops_whole] = [10, 2, 10].map(|one_in| random.random_ratio(1, one_in));
        let (code, urgency) = (random.random_range(0..1 << 60), random.random_range(-1..2));
        let pause = Duration::from_millis(if random.random_ratio(1, 8) { random.random_range(0..2_000) } else { 0 });
        Self { total, reset_at, resets_finished, ends_with_bytes, stop_at, stops_whole, drop_at, code, urgency, pause }
    }

    /// Whether the sender may reset the stream.
    pub(super) fn may_be_reset(&self) -> bool {
        self.reset_at.is_some() || self.resets_finished
    }

    /// Whether a peer that stops the stream does so with that code: 0 of a handle that was dropped.
    pub(super) fn stops_with(&self, code: u64) -> bool {
        code == self.code ^ 1 || code == 0 && self.drop_at.is_some()
    }
}

/// The bytes of a stream from an offset on.
pub(super) fn pattern(number: StreamNumber, sender: Side, offset: u64, length: u64) -> Bytes {
    let mix = number.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ sender as u64;
    (offset..offset + length).map(|at| (at.wrapping_mul(31) ^ at >> 8 ^ mix >> (at & 31)) as u8).collect()
}
