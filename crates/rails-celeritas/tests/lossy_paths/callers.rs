//! The callers that receive the messages of a peer.

use crate::network::{End, Network};
use rails_celeritas::proto::incoming::Outcome;
use rand::{Rng, RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::time::Duration;

/// The callers at one end: from `come_at` on, `at_a_time` wait at once, some of them with blocks of
/// their own, and some go before their message has come.
pub(crate) struct Callers {
    end: End,
    come_at: Duration,
    at_a_time: usize,
    /// The messages that are waited for.
    waiting: Vec<u32>,
    /// The peer sends no more.
    is_over: bool,
    with_blocks: f64,
    impatience: f64,
    rng: ChaCha8Rng,
}

impl Callers {
    pub(crate) fn new(end: End, rng: &mut impl Rng) -> Self {
        let impatience = if rng.random_bool(0.2) { 0.01 } else { 0.0 };
        Self {
            end,
            come_at: [0, 0, 50, 2_000].map(Duration::from_millis)[rng.random_range(0..4)],
            at_a_time: rng.random_range(1..10),
            waiting: Vec::new(),
            is_over: false,
            with_blocks: [0.0, 0.5, 1.0][rng.random_range(0..3)],
            impatience,
            rng: ChaCha8Rng::seed_from_u64(rng.random()),
        }
    }

    /// Takes the messages that have come, and waits for others; at last also if their time has not
    /// come.
    pub(crate) fn work(&mut self, network: &mut Network, is_last: bool) {
        if network.is_stopped(self.end) {
            return;
        }
        self.waiting.retain(|number| {
            let outcome = network.take(self.end, *number);
            self.is_over |= matches!(outcome, Some(Outcome::None));
            outcome.is_none()
        });
        if !self.waiting.is_empty() && self.rng.random_bool(self.impatience) {
            let gone = self.waiting.swap_remove(self.rng.random_range(0..self.waiting.len()));
            network.release(self.end, gone);
            // Another caller gets its message.
            self.is_over = false;
        }
        self.come(network, is_last);
    }

    /// Takes the messages that no caller has taken when both ends have closed.
    pub(crate) fn take_the_rest(&mut self, network: &mut Network) {
        self.waiting.drain(..).for_each(|number| drop(network.take(self.end, number)));
        loop {
            let number = network.reserve(self.end, None);
            if let None | Some(Outcome::None) = network.take(self.end, number) {
                return;
            }
        }
    }

    fn come(&mut self, network: &mut Network, is_last: bool) {
        if network.passed() < self.come_at && !is_last {
            return;
        }
        while !self.is_over && self.waiting.len() < self.at_a_time {
            let blocks = self.rng.random_bool(self.with_blocks).then(|| match self.rng.random_bool(0.9) {
                true => 200_000,
                false => self.rng.random_range(0..10_000),
            });
            self.waiting.push(network.reserve(self.end, blocks));
        }
    }
}
