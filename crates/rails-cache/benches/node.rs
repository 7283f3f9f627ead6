//! The cost of a node's decisions, with a million blocks in its memory.
#![allow(clippy::disallowed_methods)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rails_array::{BlockGrid, BlockIndex, Grid, Region, Selection, Shape};
use rails_cache::{
    Action, BudgetId, DatasetId, Generation, Limits, Node, NodeConfig, Policy, Reader, RequestId, pattern::Path,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

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
        let shape = Shape::new(ARRAY).expect("four axes");
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
        self.act();
    }

    fn act(&mut self) -> Option<RequestId> {
        let mut done = None;
        while let Some(action) = self.node.poll(self.now) {
            match action {
                Action::Fetch { block, .. } => assert!(self.node.arrived(block, self.now)),
                Action::Copy { request, block } => self.node.copied(request, block, self.now),
                Action::Done { request } => done = Some(request),
                _ => {}
            }
        }
        done
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

/// Hits of one budget beside others, each of which holds some blocks.
fn hits_beside_budgets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("budgets");
    group.throughput(Throughput::Elements(READS));
    for budgets in [1, 16, 1024] {
        let mut site = Site::filled(Policy::Lru);
        let first = site.budget;
        for number in 1..budgets {
            let limits = Limits::default();
            site.budget = site.node.declare_budget(DatasetId(0), limits, Policy::Lru).expect("a budget fits");
            (0..16).for_each(|block| site.read(BLOCKS - 1 - 16 * number - block));
        }
        site.budget = first;
        let mut at = HELD / 2;
        group.bench_function(format!("hit beside {budgets} budgets"), |bencher| {
            bencher.iter(|| {
                for _ in 0..READS {
                    at = HELD / 2 + (at + 7_919) % (HELD / 4);
                    site.read(at);
                }
            });
        });
    }
    group.finish();
}

/// Reads by selections, all of whose blocks are there, with the search for the next ones.
fn hits_of_a_reader(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reader");
    let mut site = Site::filled(Policy::Lru);
    let path =
        Path { round_trip: Duration::from_millis(19), storage_latency: Duration::ZERO, bytes_per_second: 62_500_000 };
    for (name, rows, step) in [("16 blocks", 128, 1), ("16 blocks, every other", 128, 256), ("128 blocks", 1024, 1)] {
        let mut reader = Reader::new(site.budget, &Shape::new(ARRAY).expect("four axes"));
        let mut at = 0;
        let columns = 128 * 16 * if step > 1 { 2 } else { 1 };
        let blocks = rows / 128 * 16;
        group.throughput(Throughput::Elements(blocks));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                // Planes of one after the other, which are held.
                at = (at + 1) % 512;
                let extents = Shape::new([1, 1, rows, columns]).expect("four axes");
                let region = Region::new([at / 64, at % 64, 0, 0], extents).expect("a box of the array");
                let selection = Selection::new(region, [1, 1, 1, step]).expect("four steps");
                site.now += Duration::from_millis(1);
                reader.read(&mut site.node, &selection, &path, site.now).expect("the blocks exist");
                let done = site.act().expect("all of its blocks are there");
                reader.ended(done, site.now);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decisions, hits_beside_budgets, hits_of_a_reader);
criterion_main!(benches);

const ARRAY: [u64; 4] = [64, 64, 1024, 16_384];
const SLOTS: u32 = 1_300_000;
const BLOCKS: u64 = 64 * 64 * 8 * 128;
/// As many as stay: the collector keeps the memory at 78 %.
const HELD: u64 = 1_000_000;
const READS: u64 = 1_000;
