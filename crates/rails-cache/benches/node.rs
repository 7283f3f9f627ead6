//! The cost of a node's decisions, with a million blocks in its memory.
#![allow(clippy::disallowed_methods)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rails_array::{BlockGrid, BlockIndex, Grid, Region, Shape};
use rails_cache::{Action, BudgetId, DatasetId, Generation, Limits, Node, NodeConfig, Policy};
use std::{sync::Arc, time::Instant};

/// A node that was read through once, and its driver.
struct Site {
    node: Node,
    budget: BudgetId,
    now: Instant,
    next: u64,
}

impl Site {
    fn filled(policy: Policy) -> Self {
        let now = Instant::now();
        let config = NodeConfig { slots: SLOTS, slot_bytes: 65_536, max_block_slots: 4, window_slots: 64, seed: 1 };
        let mut node = Node::new(config, now);
        // 4,194,304 blocks of one slot, four times what the memory takes.
        let shape = Shape::new([64, 64, 1024, 16_384]).expect("four axes");
        let block = Shape::new([1, 1, 128, 128]).expect("four axes");
        let grid = Grid::new(BlockGrid::new(Region::whole(&shape), block).expect("blocks fit the array"));
        node.declare_dataset(DatasetId(0), Arc::new(grid), 4, Generation(0)).expect("a new dataset");
        let budget = node.declare_budget(DatasetId(0), Limits::default(), policy).expect("a budget fits");
        let mut site = Self { node, budget, now, next: 0 };
        (0..HELD).for_each(|_| site.read_next());
        site
    }

    /// Reads a block that was not read before.
    fn read_next(&mut self) {
        let block = self.next % BLOCKS;
        self.next += 1;
        self.read(block);
    }

    fn read(&mut self, block: u64) {
        self.node.read(self.budget, vec![BlockIndex(block)]).expect("the block exists");
        while let Some(action) = self.node.poll(self.now) {
            match action {
                Action::Fetch { block, .. } => assert!(self.node.arrived(block, self.now)),
                Action::Copy { request, block } => self.node.copied(request, block, self.now),
                _ => {}
            }
        }
    }
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("node");
    group.sample_size(20);
    group.throughput(Throughput::Elements(READS));
    for policy in [Policy::Lru, Policy::Mru] {
        let mut site = Site::filled(policy);
        let held: u32 = site.node.usage().cached;
        group.bench_function(format!("hit, {policy:?}, {held} blocks"), |bencher| {
            let mut at = 0;
            bencher.iter_batched(
                || (),
                |()| {
                    for _ in 0..READS {
                        // A stride that no cache of a processor foresees.
                        at = (at + 7_919) % HELD;
                        site.read(at);
                    }
                },
                BatchSize::SmallInput,
            );
        });
        group.bench_function(format!("miss and reclamation, {policy:?}, {held} blocks"), |bencher| {
            bencher.iter(|| (0..READS).for_each(|_| site.read_next()));
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);

const SLOTS: u32 = 1_300_000;
const BLOCKS: u64 = 64 * 64 * 8 * 128;
/// As many as stay: the collector keeps the memory at 78 %.
const HELD: u64 = 1_000_000;
const READS: u64 = 1_000;
