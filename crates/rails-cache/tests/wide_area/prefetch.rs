//! A node at the end of a link that answers each request after a round trip, one block after the
//! other.

use crate::job::{ARRAY, Job, Outcome, PATH};
use rails_array::{Selection, Shape};
use rails_cache::{BudgetId, DatasetId, Limits, NodeConfig, Policy, Reader, rehearsal::Rehearsal};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A reader far from its data.
pub(crate) struct Prefetching {
    rehearsal: Rehearsal,
    reader: Reader,
    budget: BudgetId,
    is_ahead: bool,
}

impl Prefetching {
    /// Runs a job, with prefetching or without.
    pub(crate) fn run(job: &Job, slots: u32, is_ahead: bool) -> Outcome {
        let start = Instant::now();
        let config = NodeConfig { slots, slot_bytes: 65_536, max_block_slots: 16, window_slots: slots / 4, seed: 1 };
        let mut rehearsal = Rehearsal::new(config, PATH, start);
        rehearsal.declare_dataset(DatasetId(0), Arc::new(job.grid()), 4).unwrap();
        let budget = rehearsal.node_mut().declare_budget(DatasetId(0), Limits::default(), Policy::Lru).unwrap();
        let reader = Reader::new(budget, &Shape::new(ARRAY).unwrap());
        let mut run = Self { rehearsal, reader, budget, is_ahead };
        let read = |(selection, compute): &(Selection, Duration)| {
            let wait = run.read(selection);
            let end = run.rehearsal.now() + *compute;
            assert!(run.rehearsal.run(Some(end)).is_empty(), "nobody reads while the job computes");
            wait
        };
        let waits = job.reads.iter().map(read).collect();
        let (now, stats) = (run.rehearsal.now(), run.rehearsal.node().stats(budget));
        Outcome { whole: now - start, waits, blocks: run.rehearsal.source().sent_blocks(), stats }
    }

    /// Reads a selection. Returns how long that took.
    fn read(&mut self, selection: &Selection) -> Duration {
        let asked = self.rehearsal.now();
        let node = self.rehearsal.node_mut();
        let request = if self.is_ahead {
            self.reader.read(node, selection, &PATH, asked).unwrap()
        } else {
            let blocks = node.blocks_of_selection(self.budget, selection).unwrap();
            node.read(self.budget, blocks).unwrap()
        };
        assert_eq!(self.rehearsal.run(None), [request]);
        self.reader.ended(request, self.rehearsal.now());
        self.rehearsal.now() - asked
    }
}
