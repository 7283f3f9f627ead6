//! Budgets that share a memory, and memories at their levels.
#![allow(clippy::disallowed_methods)]

use rails_array::{BlockGrid, BlockIndex, Grid, Region, Shape};
use rails_cache::{
    Action, BlockId, BudgetId, DatasetId, DeclareError, Fault, Generation, Limits, Node, NodeConfig, Policy, ReadError,
    Reader, Refusal, pattern::Path,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A node of a line of blocks of one slot each, whose upstream answers at once.
struct Site {
    node: Node,
    now: Instant,
}

impl Site {
    fn new(slots: u32) -> Self {
        let now = Instant::now();
        let config = NodeConfig { slots, slot_bytes: 4, max_block_slots: 1, window_slots: 8, seed: 1 };
        let mut node = Node::new(config, now);
        let shape = |extent| Shape::new([extent]).unwrap();
        let grid = BlockGrid::new(Region::whole(&shape(100_000)), shape(1)).unwrap();
        let grid = Grid::with_partitions(grid, shape(16)).unwrap();
        node.declare_dataset(DATASET, Arc::new(grid), 4, Generation(0)).unwrap();
        Self { node, now }
    }

    fn budget(&mut self, limits: Limits, policy: Policy) -> BudgetId {
        self.node.declare_budget(DATASET, limits, policy).unwrap()
    }

    fn read(&mut self, budget: BudgetId, blocks: impl IntoIterator<Item = u64>) {
        let blocks: Vec<BlockIndex> = blocks.into_iter().map(BlockIndex).collect();
        self.node.read(budget, blocks).unwrap();
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.node.poll(self.now) {
            match action {
                Action::Fetch { block, .. } => assert!(self.node.arrived(block, self.now)),
                Action::Copy { request, block } => self.node.copied(request, block, self.now),
                _ => {}
            }
        }
    }

    /// The part of a pass over the blocks that is in memory, as a pass finds it.
    fn hit_ratio(&mut self, budget: BudgetId, passes: u64, blocks: u64, mut meanwhile: impl FnMut(&mut Self)) -> f64 {
        let before = self.node.stats(budget).hits;
        for _ in 0..passes {
            for block in 0..blocks {
                self.read(budget, [block]);
                meanwhile(self);
            }
        }
        (self.node.stats(budget).hits - before) as f64 / (passes * blocks) as f64
    }
}

#[test]
fn a_scan_leaves_the_share_of_others_alone() {
    let mut site = Site::new(1000);
    let [worker, scanner] = [3, 1].map(|weight| site.budget(Limits { weight, ..Limits::default() }, Policy::Lru));
    site.read(worker, 0..500);
    let alone = site.hit_ratio(worker, 4, 500, |_| {});
    let mut next = 50_000;
    let beside = site.hit_ratio(worker, 4, 500, |site| {
        for _ in 0..5 {
            site.read(scanner, [next]);
            next += 1;
        }
    });
    assert_eq!(alone, 1.0);
    assert!(beside >= 0.98, "{beside}");
    assert!(site.node.stats(scanner).reclaimed > 9_000);
}

#[test]
fn a_min_outlives_every_pressure() {
    let mut site = Site::new(1000);
    let small = site.budget(Limits { min: 300, ..Limits::default() }, Policy::Lru);
    let greedy = site.budget(Limits { weight: 1000, ..Limits::default() }, Policy::Lru);
    site.read(small, 0..300);
    site.read(greedy, 10_000..20_000);
    // Nothing but time passes, and the memory is at a level at which idle partitions go.
    site.now += Duration::from_secs(3600);
    site.act();
    assert_eq!(site.hit_ratio(small, 1, 300, |_| {}), 1.0);
}

#[test]
fn a_max_bounds_a_budget_that_is_alone() {
    let mut site = Site::new(1000);
    let bounded = site.budget(Limits { max: 100, ..Limits::default() }, Policy::Lru);
    for block in 0..1000 {
        site.read(bounded, [block]);
        assert!(site.node.usage().cached <= 100);
    }
    assert!((78..=80).contains(&site.node.usage().cached));
}

/// One more dataset like the first, for the same limits.
fn beside(site: &mut Site, sibling: BudgetId) -> BudgetId {
    let line = |extent| Shape::new([extent]).unwrap();
    let grid = BlockGrid::new(Region::whole(&line(100_000)), line(1)).unwrap();
    let grid = Grid::with_partitions(grid, line(16)).unwrap();
    let dataset = (1..)
        .map(DatasetId)
        .find(|dataset| site.node.declare_dataset(*dataset, Arc::new(grid.clone()), 4, Generation(0)).is_ok());
    site.node.declare_budget_beside(dataset.unwrap(), sibling, Policy::Lru).unwrap()
}

#[test]
fn limits_hold_for_all_budgets_that_share_them() {
    let mut site = Site::new(1000);
    let limits = Limits { min: 300, max: 400, weight: 1 };
    let first = site.budget(limits, Policy::Lru);
    let second = beside(&mut site, first);
    let greedy = site.budget(Limits { weight: 1000, ..Limits::default() }, Policy::Lru);
    for block in 0..1000 {
        site.read(first, [block]);
        site.read(second, [block]);
        assert!(
            site.node.used_together(first) <= 400 && site.node.used_together(second) == site.node.used_together(first)
        );
    }
    // The second alone fills what both may have.
    site.now += Duration::from_secs(10);
    site.read(second, 5000..5300);
    site.read(greedy, 10_000..20_000);
    assert!(site.node.used_together(first) >= 300);
    let before = site.node.stats(second).hits;
    site.read(second, 5000..5300);
    assert_eq!(site.node.stats(second).hits - before, 300, "blocks of the budget that was idle went first");
}

#[test]
fn shared_limits_end_with_the_last_budget() {
    let mut site = Site::new(100);
    let first = site.budget(Limits { min: 80, ..Limits::default() }, Policy::Lru);
    let second = beside(&mut site, first);
    let more = Limits { min: 50, ..Limits::default() };
    site.node.end_budget(first).unwrap();
    assert!(site.node.declare_budget(DATASET, more, Policy::Lru).is_err(), "the second one keeps the guarantee");
    let gone = site.node.declare_budget_beside(DATASET, first, Policy::Lru);
    assert!(matches!(gone, Err(DeclareError::UnknownBudget(_))), "{gone:?}");
    site.node.end_budget(second).unwrap();
    site.act();
    assert!(site.node.declare_budget(DATASET, more, Policy::Lru).is_ok());
}

#[test]
fn many_budgets_have_the_weight_of_one() {
    let mut site = Site::new(1000);
    let worker = site.budget(Limits::default(), Policy::Lru);
    let first = site.budget(Limits::default(), Policy::Lru);
    let scanners = [first, beside(&mut site, first), beside(&mut site, first), beside(&mut site, first)];
    site.read(worker, 0..350);
    let mut next = 50_000;
    let beside = site.hit_ratio(worker, 4, 350, |site| {
        for scanner in scanners {
            site.read(scanner, [next]);
            next += 1;
        }
    });
    assert!(beside >= 0.98, "{beside}");
}

#[test]
fn policies_keep_what_they_promise() {
    for (policy, kept) in [(Policy::Lru, 922..1000), (Policy::Mru, 0..78)] {
        let mut site = Site::new(100);
        let budget = site.budget(Limits::default(), policy);
        site.read(budget, 0..1000);
        // The pass that follows reads what is there, so that it changes nothing.
        let hits = |site: &mut Site, range: std::ops::Range<u64>| {
            let before = site.node.stats(budget).hits;
            site.read(budget, range);
            site.node.stats(budget).hits - before
        };
        assert!(hits(&mut site, kept) >= 77, "{policy:?}");
    }
}

#[test]
fn a_schedule_keeps_the_nearest_uses() {
    // Two passes over 100 blocks in a memory of 50. Belady's order hits in the second pass whatever
    // the memory held of the first; LRU hits nothing.
    let passes: Vec<u64> = (0..100).chain(0..100).collect();
    let hits = |policy, is_told: bool| {
        let mut site = Site::new(50);
        let budget = site.budget(Limits::default(), policy);
        if is_told {
            let blocks: Vec<BlockIndex> = passes.iter().copied().map(BlockIndex).collect();
            assert_eq!(site.node.expect(budget, blocks), Ok(200));
        }
        passes.iter().for_each(|block| site.read(budget, [*block]));
        site.node.stats(budget).hits
    };
    assert_eq!(hits(Policy::Lru, false), 0);
    // 78 % of 50 stay.
    assert!(hits(Policy::Schedule, true) >= 36, "{}", hits(Policy::Schedule, true));
    assert!(hits(Policy::Hinted, true) >= 36);
}

#[test]
fn what_a_reader_announces_is_kept() {
    // Two passes over 100 blocks in a memory of 50, over a path without a rate, so that next to
    // nothing comes ahead of time.
    let path = Path { round_trip: Duration::ZERO, storage_latency: Duration::ZERO, bytes_per_second: 0 };
    let line = |extent| Shape::new([extent]).unwrap();
    let regions = |passes: u64| -> Vec<Region> {
        (0..100 * passes).map(|at| Region::new([at % 100], line(1)).unwrap()).collect()
    };
    let fetches = |policy, is_told: bool, then: u64| {
        let mut site = Site::new(50);
        let budget = site.budget(Limits::default(), policy);
        let mut reader = Reader::new(budget, &line(100_000));
        if is_told {
            reader.tell(regions(2)).unwrap();
        }
        let elsewhere = (0..then).map(|at| Region::new([5000 + at * at], line(1)).unwrap());
        for region in regions(2).into_iter().take(if then > 0 { 50 } else { 200 }).chain(elsewhere) {
            reader.read(&mut site.node, &region.into(), &path, site.now).unwrap();
            site.act();
        }
        let fetched = |site: &Site| site.node.stats(budget).misses + site.node.stats(budget).ahead_fetched;
        let before = fetched(&site);
        site.read(budget, if then > 0 { 0..50 } else { 0..0 });
        (before, fetched(&site) - before)
    };
    for (policy, is_told) in [(Policy::Lru, false), (Policy::Lru, true), (Policy::Hinted, false)] {
        assert!(fetches(policy, is_told, 0).0 >= 199, "{policy:?}");
    }
    for policy in [Policy::Hinted, Policy::Schedule] {
        assert!(fetches(policy, true, 0).0 <= 164, "{policy:?}");
    }
    // A program that leaves its list has the blocks of the list in its way no longer.
    assert_eq!(fetches(Policy::Hinted, true, 200).1, 50);
}

#[test]
fn forgotten_expectations_keep_nothing() {
    for policy in [Policy::Hinted, Policy::Schedule] {
        let mut site = Site::new(100);
        let budget = site.budget(Limits::default(), policy);
        let announced: Vec<BlockIndex> = (1000..1075).map(BlockIndex).collect();
        site.node.expect(budget, announced.clone()).unwrap();
        site.node.prefetch(budget, announced).unwrap();
        site.act();
        assert_eq!(site.node.usage().cached, 75);
        site.node.forget_expected(budget);
        let twice: Vec<BlockIndex> = (0..50).chain(0..50).map(BlockIndex).collect();
        site.node.expect(budget, twice).unwrap();
        site.read(budget, 0..50);
        assert_eq!(site.hit_ratio(budget, 1, 50, |_| {}), 1.0, "{policy:?}");
    }
}

#[test]
fn expected_uses_that_are_left_out_keep_nothing() {
    for policy in [Policy::Hinted, Policy::Schedule] {
        let mut site = Site::new(100);
        let budget = site.budget(Limits::default(), policy);
        // Blocks are announced and prefetched, and then the application reads others of its list.
        let announced: Vec<BlockIndex> = (5000..5075).chain(0..1100).map(BlockIndex).collect();
        site.node.expect(budget, announced.clone()).unwrap();
        site.node.prefetch(budget, announced[..75].to_vec()).unwrap();
        site.act();
        site.read(budget, 0..1023);
        let held = |site: &Site| {
            let is_held = |index: &BlockIndex| {
                let block = BlockId { dataset: DATASET, generation: Generation(0), index: *index };
                site.node.slots(&block).next().is_some()
            };
            announced[..75].iter().filter(|index| is_held(index)).count()
        };
        assert!(held(&site) > 70, "{policy:?}: {} are held", held(&site));
        site.read(budget, 1023..1100);
        assert!(held(&site) < 10, "{policy:?}: {} are held", held(&site));
    }
}

#[test]
fn a_small_budget_keeps_a_block() {
    let mut site = Site::new(100);
    let one = site.budget(Limits { min: 1, max: 1, weight: 1 }, Policy::Lru);
    site.read(one, [0]);
    assert_eq!(site.hit_ratio(one, 5, 1, |_| ()), 1.0);
}

#[test]
fn a_warm_small_memory_still_prefetches() {
    let mut site = Site::new(16);
    let budget = site.budget(Limits::default(), Policy::Lru);
    for block in 0..500 {
        site.read(budget, [block]);
    }
    for block in 1000..1020 {
        site.node.prefetch(budget, vec![BlockIndex(block)]).unwrap();
        site.act();
        site.read(budget, [block]);
    }
    assert!(site.node.stats(budget).ahead_fetched >= 5, "{:?}", site.node.stats(budget));
}

#[test]
fn prefetched_blocks_outlive_those_that_were_used() {
    for policy in [Policy::Lru, Policy::Mru, Policy::Hinted, Policy::Schedule] {
        let mut site = Site::new(100);
        let budget = site.budget(Limits::default(), policy);
        site.read(budget, 0..60);
        site.node.prefetch(budget, (1000..1010).map(BlockIndex).collect::<Vec<_>>()).unwrap();
        site.act();
        site.read(budget, 60..80);
        site.read(budget, 1000..1010);
        assert_eq!(site.node.stats(budget).unused, 0, "{policy:?}");
    }
}

#[test]
fn idle_partitions_go_after_a_minute() {
    let mut site = Site::new(100);
    let budget = site.budget(Limits::default(), Policy::Lru);
    site.read(budget, 0..60);
    let timeout = site.node.poll_timeout().unwrap();
    // The node notes accesses by whole seconds of its clock, and a minute has to be over.
    assert_eq!(timeout, site.now + Duration::from_secs(61));
    site.now = timeout;
    site.act();
    // Down to half: a partition has 16 blocks, and goes one block after the other.
    assert!(site.node.usage().cached < 50);
    assert_eq!(site.node.level().number(), 0);
    assert_eq!(site.node.poll_timeout(), None, "an idle node has nothing to wake for");
}

#[test]
fn a_new_generation_is_read_anew() {
    let mut site = Site::new(100);
    let budget = site.budget(Limits::default(), Policy::Lru);
    site.read(budget, 0..10);
    let request = site.node.read(budget, vec![BlockIndex(50)]).unwrap();
    assert!(matches!(site.node.poll(site.now), Some(Action::Fetch { .. })));
    site.node.replace(DATASET, Generation(1)).unwrap();
    let refusal = Refusal { block: None, fault: Fault::Changed };
    assert_eq!(site.node.poll(site.now), Some(Action::Refuse { request, refusal }));
    assert_eq!(site.node.poll(site.now), None);
    assert_eq!(site.node.usage().cached, 0);
    site.read(budget, 0..10);
    assert_eq!((site.node.stats(budget).hits, site.node.stats(budget).misses), (0, 21));
    let error = site.node.replace(DATASET, Generation(1)).unwrap_err();
    assert_eq!(error.to_string(), "dataset 0 has generation 1, which 1 is not later than");
}

#[test]
fn guarantees_that_cannot_be_kept_are_refused() {
    let mut site = Site::new(100);
    let mut declare = |min, max, weight| {
        site.node.declare_budget(DATASET, Limits { min, max, weight }, Policy::Lru).map_err(|error| error.to_string())
    };
    let impossible = declare(100, 100, 1).unwrap_err();
    assert_eq!(
        impossible,
        "100 slots cannot be guaranteed: of 100, 0 are guaranteed to other budgets, and 1 have to be left to whoever asks"
    );
    assert!(declare(99, 100, 1).is_ok());
    assert!(declare(1, 100, 1).is_err() && declare(0, 100, 1).is_ok());
    assert!(declare(5, 4, 1).unwrap_err().starts_with("a budget of 5 to 4 slots"));
    assert_eq!(declare(0, 100, 0).unwrap_err(), "a budget of weight 0 would get no slots");
    let unknown = site.node.declare_budget(DatasetId(9), Limits::default(), Policy::Lru);
    assert_eq!(unknown, Err(DeclareError::UnknownDataset(DatasetId(9))));
}

#[test]
fn blocks_that_do_not_exist_are_refused() {
    let mut site = Site::new(100);
    let budget = site.budget(Limits::default(), Policy::Lru);
    let error = site.node.read(budget, vec![BlockIndex(99_999), BlockIndex(100_000)]).unwrap_err();
    assert!(matches!(&error, ReadError::NoSuchBlock { .. }), "{error}");
    let rank = Region::new([0, 0], Shape::new([1, 1]).unwrap()).unwrap();
    assert!(matches!(site.node.blocks_of(budget, &rank), Err(ReadError::BadRegion { .. })));
}

const DATASET: DatasetId = DatasetId(0);
