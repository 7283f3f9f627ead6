//! The far end of a path.

use crate::{action::Purpose, block::BlockId, pattern::Path};
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

/// A source of blocks at the far end of a path, as a model: a question travels for half of the
/// round trip, the storage answers after its latency, and the link carries one block after the
/// other at its rate. Blocks that a reader waits for are sent before those that were asked for
/// ahead of time, as a node that serves sends them.
#[derive(Debug, Clone)]
pub struct FarSource {
    path: Path,
    /// By the time, and the number of the event.
    events: BTreeMap<(Instant, u64), Event>,
    count: u64,
    /// The blocks that were asked for and have not left.
    asked: BTreeMap<BlockId, Asked>,
    /// Blocks that are ready to be sent, by urgency. One that was raised is in both.
    ready: [VecDeque<BlockId>; 2],
    is_sending: bool,
    sent_blocks: u64,
    sent_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    bytes: u64,
    purpose: Purpose,
    is_ready: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The storage has a block.
    Ready(BlockId),
    /// The source hears that a block is waited for.
    Raised(BlockId),
    /// The link is free.
    Free,
    /// A block has come.
    Arrived(BlockId),
}

impl FarSource {
    /// A source that was asked for nothing yet. A path without a rate brings a byte in a second.
    pub fn new(path: Path) -> Self {
        Self {
            path,
            events: BTreeMap::new(),
            count: 0,
            asked: BTreeMap::new(),
            ready: [VecDeque::new(), VecDeque::new()],
            is_sending: false,
            sent_blocks: 0,
            sent_bytes: 0,
        }
    }

    /// A node asks for a block of so many bytes. A block that is asked for again before it has left
    /// is sent once.
    pub fn ask(&mut self, block: BlockId, bytes: u64, purpose: Purpose, now: Instant) {
        self.asked.insert(block, Asked { bytes, purpose, is_ready: false });
        self.after(self.path.round_trip / 2 + self.path.storage_latency, now, Event::Ready(block));
    }

    /// A block that was asked for ahead of time is waited for.
    pub fn raise(&mut self, block: BlockId, now: Instant) {
        self.after(self.path.round_trip / 2, now, Event::Raised(block));
    }

    /// When to call [`poll`](Self::poll).
    pub fn next_event(&self) -> Option<Instant> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next block that has come by now.
    pub fn poll(&mut self, now: Instant) -> Option<BlockId> {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), event) = entry.remove_entry();
            match event {
                Event::Ready(block) => {
                    if let Some(asked) = self.asked.get_mut(&block) {
                        asked.is_ready = true;
                        self.ready[asked.purpose as usize].push_back(block);
                    }
                }
                Event::Raised(block) => {
                    if let Some(asked) = self.asked.get_mut(&block)
                        && asked.purpose == Purpose::Ahead
                    {
                        asked.purpose = Purpose::Demand;
                        if asked.is_ready {
                            self.ready[Purpose::Demand as usize].push_back(block);
                        }
                    }
                }
                Event::Free => self.is_sending = false,
                Event::Arrived(block) => return Some(block),
            }
            self.send(at);
        }
        None
    }

    /// The blocks that were sent.
    pub fn sent_blocks(&self) -> u64 {
        self.sent_blocks
    }

    /// The bytes of the blocks that were sent.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Sends the next block, if the link is free.
    fn send(&mut self, now: Instant) {
        while !self.is_sending {
            let [demanded, ahead] = &mut self.ready;
            let Some(block) = demanded.pop_front().or_else(|| ahead.pop_front()) else { return };
            // One that was raised has been sent, or is about to be, from the other line.
            let Some(asked) = self.asked.remove(&block) else { continue };
            let on_link = Duration::from_secs_f64(asked.bytes as f64 / self.path.bytes_per_second.max(1) as f64);
            self.is_sending = true;
            self.sent_blocks += 1;
            self.sent_bytes += asked.bytes;
            self.after(on_link, now, Event::Free);
            self.after(on_link + self.path.round_trip / 2, now, Event::Arrived(block));
        }
    }

    fn after(&mut self, time: Duration, now: Instant, event: Event) {
        self.count += 1;
        self.events.insert((now + time, self.count), event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{DatasetId, Generation};
    use rails_array::BlockIndex;

    const MS: Duration = Duration::from_millis(1);

    fn block(number: u64) -> BlockId {
        BlockId { dataset: DatasetId(0), generation: Generation(0), index: BlockIndex(number) }
    }

    /// The blocks in the order of their arrival, with the milliseconds after which they came.
    fn arrivals(source: &mut FarSource, start: Instant) -> Vec<(u64, u128)> {
        let mut all = Vec::new();
        while let Some(at) = source.next_event() {
            while let Some(block) = source.poll(at) {
                all.push((block.index.0, (at - start).as_millis()));
            }
        }
        all
    }

    #[test]
    fn a_link_carries_one_block_after_the_other() {
        let start = Instant::now();
        let mut source =
            FarSource::new(Path { round_trip: MS * 20, storage_latency: MS * 3, bytes_per_second: 1_000_000 });
        (0..3).for_each(|number| source.ask(block(number), 5000, Purpose::Ahead, start));
        assert_eq!(arrivals(&mut source, start), [(0, 28), (1, 33), (2, 38)]);
        source.ask(block(9), 1000, Purpose::Demand, start + MS * 100);
        assert_eq!(arrivals(&mut source, start), [(9, 124)]);
        assert_eq!((source.sent_blocks(), source.sent_bytes()), (4, 16_000));
    }

    #[test]
    fn blocks_that_are_waited_for_come_first() {
        let start = Instant::now();
        let mut source =
            FarSource::new(Path { round_trip: MS * 20, storage_latency: Duration::ZERO, bytes_per_second: 1_000_000 });
        (0..4).for_each(|number| source.ask(block(number), 10_000, Purpose::Ahead, start));
        source.ask(block(4), 10_000, Purpose::Demand, start + MS);
        source.raise(block(3), start + MS * 2);
        // The first one was on the link before the others were asked for.
        let order: Vec<u64> = arrivals(&mut source, start).into_iter().map(|(number, _)| number).collect();
        assert_eq!(order, [0, 4, 3, 1, 2]);
    }
}
