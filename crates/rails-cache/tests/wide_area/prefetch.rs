//! A node at the end of a link that answers each request after a round trip, one block after the
//! other.

use crate::job::{ARRAY, BYTES_PER_SECOND, Job, Outcome, ROUND_TRIP, on_link};
use rails_array::{Selection, Shape};
use rails_cache::{
    Action, BlockId, BudgetId, DatasetId, Generation, Limits, Node, NodeConfig, Policy, Reader, pattern::Path,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// A reader far from its data.
pub(crate) struct Prefetching {
    node: Node,
    reader: Reader,
    budget: BudgetId,
    is_ahead: bool,
    now: Instant,
    /// When the link is free for the next answer.
    link_free: Instant,
    /// Blocks on their way, by the time of their arrival.
    coming: BTreeMap<(Instant, BlockId), ()>,
    block_bytes: u64,
    blocks: u64,
}

impl Prefetching {
    /// Runs a job, with prefetching or without.
    pub(crate) fn run(job: &Job, slots: u32, is_ahead: bool) -> Outcome {
        let start = Instant::now();
        let config = NodeConfig { slots, slot_bytes: 65_536, max_block_slots: 16, window_slots: slots / 4, seed: 1 };
        let mut node = Node::new(config, start);
        node.declare_dataset(DatasetId(0), Arc::new(job.grid()), 4, Generation(0)).unwrap();
        let budget = node.declare_budget(DatasetId(0), Limits::default(), Policy::Lru).unwrap();
        let mut run = Self {
            node,
            reader: Reader::new(budget, &Shape::new(ARRAY).unwrap()),
            budget,
            is_ahead,
            now: start,
            link_free: start,
            coming: BTreeMap::new(),
            block_bytes: job.block_bytes(),
            blocks: 0,
        };
        let read = |(selection, compute): &(Selection, Duration)| {
            let wait = run.read(selection);
            run.run_until(Some(run.now + *compute));
            wait
        };
        let waits = job.reads.iter().map(read).collect();
        Outcome { whole: run.now - start, waits, blocks: run.blocks, stats: run.node.stats(budget) }
    }

    /// Reads a selection. Returns how long that took.
    fn read(&mut self, selection: &Selection) -> Duration {
        let path = Path { round_trip: ROUND_TRIP, storage_latency: Duration::ZERO, bytes_per_second: BYTES_PER_SECOND };
        let asked = self.now;
        let request = if self.is_ahead {
            self.reader.read(&mut self.node, selection, &path, asked).unwrap()
        } else {
            let blocks = self.node.blocks_of_selection(self.budget, selection).unwrap();
            self.node.read(self.budget, blocks).unwrap()
        };
        self.run_until(None);
        self.reader.ended(request, self.now);
        self.now - asked
    }

    /// Does what the node asks for. Returns whether a request has ended.
    fn act(&mut self) -> bool {
        let mut has_ended = false;
        while let Some(action) = self.node.poll(self.now) {
            match action {
                Action::Fetch { block, .. } => {
                    let asked = self.now + ROUND_TRIP / 2;
                    self.link_free = self.link_free.max(asked) + on_link(self.block_bytes);
                    self.coming.insert((self.link_free + ROUND_TRIP / 2, block), ());
                    self.blocks += 1;
                }
                Action::Copy { request, block } => self.node.copied(request, block, self.now),
                Action::Done { .. } => has_ended = true,
                Action::Raise { .. } => {}
                other => panic!("nothing fails here: {other:?}"),
            }
        }
        has_ended
    }

    /// Lets time pass until then, or until a request has ended.
    fn run_until(&mut self, end: Option<Instant>) {
        loop {
            if self.act() && end.is_none() {
                return;
            }
            let next = self.coming.first_key_value().map(|(key, ())| *key);
            match (next, end) {
                (Some((at, block)), end) if end.is_none_or(|end| at <= end) => {
                    self.coming.remove(&(at, block));
                    self.now = self.now.max(at);
                    assert!(self.node.arrived(block, self.now));
                }
                (_, Some(end)) => {
                    self.now = self.now.max(end);
                    return;
                }
                (_, None) => panic!("a request waits for nothing"),
            }
        }
    }
}
