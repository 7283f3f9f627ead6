//! Chunks that came back from lanes that were lost or fell silent.

use super::{Chunk, Scheduler};
use std::{collections::BTreeMap, ops::Range};

/// They lie in order and do not overlap.
#[derive(Debug, Default)]
pub(super) struct Returned {
    chunks: BTreeMap<u64, Back>,
    bytes: usize,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Back {
    pub(super) chunk: Chunk,
    /// The lanes that have had it.
    pub(super) carriers: u64,
}

impl Returned {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunks by offset.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.values().map(|back| &back.chunk)
    }

    pub(super) fn insert(&mut self, back: Back) {
        self.bytes += back.chunk.length as usize;
        self.chunks.insert(back.chunk.offset, back);
    }

    pub(super) fn remove(&mut self, offset: u64) -> Option<Back> {
        let back = self.chunks.remove(&offset)?;
        self.bytes -= back.chunk.length as usize;
        Some(back)
    }

    /// A lane has had none of them any more.
    pub(super) fn forget_carrier(&mut self, lane: u64) {
        self.chunks.values_mut().for_each(|back| back.carriers &= !lane);
    }

    /// Removes those that begin in the range; whether there were any.
    pub(super) fn remove_range(&mut self, range: Range<u64>) -> bool {
        let offsets: Vec<u64> = self.chunks.range(range).map(|(offset, _)| *offset).collect();
        offsets.iter().for_each(|offset| drop(self.remove(*offset)));
        !offsets.is_empty()
    }

    /// Removes those that the other end has read. No look is spent on those that stay.
    pub(super) fn remove_known_below(&mut self, consumed: u64) {
        while let Some((offset, _)) =
            self.chunks.first_key_value().filter(|(_, back)| back.chunk.is_known_below(consumed))
        {
            let offset = *offset;
            self.remove(offset);
        }
    }
}

impl Scheduler {
    /// What `lane` has in flight is for the others, but for what they have already.
    pub(super) fn give_back(&mut self, lane: usize) {
        if self.complete {
            return;
        }
        for sent in self.lanes[lane].in_flight.iter_mut().filter(|sent| !sent.passed_on) {
            sent.passed_on = true;
            if !sent.chunk.is_known_below(self.consumed) {
                self.returned.insert(Back { chunk: sent.chunk.clone(), carriers: sent.carriers });
            }
        }
    }

    /// A lane that was silent had the first of these chunks arrive after all: they need not go out again.
    pub(super) fn forget_returned(&mut self, lane: usize, chunks: u64) {
        let news = chunks.saturating_sub(self.lanes[lane].first) as usize;
        if self.returned.is_empty() {
            return;
        }
        for sent in self.lanes[lane].in_flight.iter().take(news).filter(|sent| sent.passed_on && !sent.chunk.fin) {
            self.returned.remove_range(sent.chunk.offset..sent.chunk.offset + u64::from(sent.chunk.length));
        }
    }

    /// The first chunk that came back from another lane, or as much of it as `lane` carries at a time.
    pub(super) fn take_returned(&mut self, lane: usize) -> Option<(Chunk, u64)> {
        let offset = self.returned.iter().find(|chunk| self.may_return_to(chunk, lane))?.offset;
        let most = self.policy.longest_chunk(&self.offer(0), lane).max(1);
        let Back { mut chunk, carriers } = self.returned.remove(offset)?;
        if let Some(rest) = chunk.split_off(most) {
            self.returned.insert(Back { chunk: rest, carriers });
        }
        Some((chunk, carriers))
    }

    /// Whether `lane` takes what came back from another: not if one that is faster will have it there sooner.
    pub(super) fn may_return_to(&self, chunk: &Chunk, lane: usize) -> bool {
        let offer = self.offer(self.returned.bytes());
        let length = self.policy.longest_chunk(&offer, lane).min(chunk.length as usize);
        !self.policy.overtakes() || !offer.is_sooner_elsewhere(lane, length)
    }
}
