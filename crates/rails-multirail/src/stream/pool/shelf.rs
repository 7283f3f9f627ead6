//! The unused buffers of one owner, by length.

use super::Memory;
use std::collections::{BTreeMap, VecDeque};

/// Buffers by length; those of one length in the order in which they came back.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    by_length: BTreeMap<usize, VecDeque<ShelvedBuffer>>,
}

#[derive(Debug)]
struct ShelvedBuffer {
    /// The round in which the buffer came back.
    since: u64,
    memory: Memory,
}

/// The lengths that fit.
pub(super) struct Fit {
    pub(super) min: usize,
    pub(super) max: usize,
}

impl Shelf {
    /// Takes the shortest buffer that fits; among equals the one used last, which is likely to be
    /// in a cache.
    pub(super) fn take(&mut self, fit: Fit) -> Option<Memory> {
        let (&length, kept) = self.by_length.range_mut(fit.min..=fit.max).next()?;
        let taken = kept.pop_back();
        if kept.is_empty() {
            self.by_length.remove(&length);
        }
        taken.map(|kept| kept.memory)
    }

    pub(super) fn put(&mut self, memory: Memory, round: u64) {
        self.by_length.entry(memory.bytes()).or_default().push_back(ShelvedBuffer { since: round, memory });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_length.is_empty()
    }

    /// The round of the buffer that has been unused longest.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.by_length.values().filter_map(|kept| kept.front()).map(|kept| kept.since).min()
    }

    pub(super) fn remove_oldest(&mut self) -> Option<Memory> {
        let oldest = self.oldest()?;
        let of = |kept: &VecDeque<ShelvedBuffer>| kept.front().is_some_and(|kept| kept.since == oldest);
        let (&length, kept) = self.by_length.iter_mut().find(|(_, kept)| of(kept))?;
        let removed = kept.pop_front();
        if kept.is_empty() {
            self.by_length.remove(&length);
        }
        removed.map(|kept| kept.memory)
    }

    /// Takes out the buffers that came back before that round.
    pub(super) fn remove_before(&mut self, round: u64) -> Vec<Memory> {
        let mut removed = Vec::new();
        self.by_length.retain(|_, kept| {
            let old = kept.partition_point(|kept| kept.since < round);
            removed.extend(kept.drain(..old).map(|kept| kept.memory));
            !kept.is_empty()
        });
        removed
    }
}
