//! Single events that a node has to take as its documentation says.
#![allow(clippy::disallowed_methods)]

use rails_array::{BlockGrid, BlockIndex, Grid, Region, Shape};
use rails_cache::{
    Action, BlockId, BudgetId, DatasetId, DownstreamId, Fault, Generation, Limits, Lost, Node, NodeConfig, Policy, Purpose, Refusal,
    UpstreamId,
};
use std::{sync::Arc, time::Instant};

/// A node with one dataset, all of whose blocks are of the same length, and one budget.
struct Site {
    node: Node,
    budget: BudgetId,
    now: Instant,
}

impl Site {
    fn new(slots: u32, block_slots: u32) -> Self {
        let now = Instant::now();
        let config = NodeConfig { slots, slot_bytes: 1, max_block_slots: block_slots, window_slots: slots, seed: 1 };
        let mut node = Node::new(config, now);
        let shape = |extent| Shape::new([extent]).unwrap();
        let whole = Region::whole(&shape(1000 * u64::from(block_slots)));
        let grid = BlockGrid::new(whole, shape(u64::from(block_slots))).unwrap();
        node.declare_dataset(DATASET, Arc::new(Grid::new(grid)), 1, Generation(0)).unwrap();
        let budget = node.declare_budget(DATASET, Limits::default(), Policy::Lru).unwrap();
        Self { node, budget, now }
    }

    fn poll_all(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.node.poll(self.now)).collect()
    }
}

fn block(index: u64) -> BlockId {
    BlockId { dataset: DATASET, generation: Generation(0), index: BlockIndex(index) }
}

#[test]
fn request_that_wants_a_block_twice_is_refused_once() {
    let mut site = Site::new(8, 1);
    let request = site.node.read(site.budget, vec![BlockIndex(0), BlockIndex(0)]).unwrap();
    assert_eq!(site.poll_all().len(), 1);
    assert!(site.node.failed(block(0), Fault::Missing));
    let refusal = Refusal { block: Some(block(0)), fault: Fault::Missing };
    assert_eq!(site.poll_all(), [Action::Refuse { request, refusal }]);
}

#[test]
fn push_of_a_past_generation_is_not_taken() {
    let mut site = Site::new(8, 1);
    site.node.read(site.budget, vec![BlockIndex(0)]).unwrap();
    assert_eq!(site.poll_all().len(), 1);
    assert_eq!(site.node.grant_credit(UPSTREAM, site.budget, 2), 2);
    site.node.replace(DATASET, Generation(1)).unwrap();
    for in_transit_or_not in [0, 1] {
        assert!(!site.node.pushed(UPSTREAM, site.budget, block(in_transit_or_not), site.now));
    }
    let (stats, usage) = (site.node.stats(site.budget), site.node.usage());
    assert_eq!((stats.pushed, stats.pushed_twice, site.node.pushed_amiss(), usage.credited), (0, 0, 2, 0));
    assert!(site.node.arrived(block(0), site.now));
    assert_eq!(site.node.usage().free, 8);
}

#[test]
fn credit_is_recalled_once_until_more_is_given() {
    let mut site = Site::new(3, 2);
    assert_eq!(site.node.grant_credit(UPSTREAM, site.budget, 2), 2);
    let request = site.node.read(site.budget, vec![BlockIndex(0)]).unwrap();
    let recall = Action::Recall { upstream: UPSTREAM, budget: site.budget };
    assert_eq!(site.poll_all(), [recall]);
    // All of it was used, and is on its way.
    site.node.return_credit(UPSTREAM, site.budget, 0);
    assert_eq!(site.poll_all(), []);
    assert!(site.node.pushed(UPSTREAM, site.budget, block(1), site.now));
    assert_eq!(site.poll_all(), [Action::Fetch { block: block(0), purpose: Purpose::Demand }]);
    site.node.cancel(request);
    assert!(site.node.failed(block(0), Fault::Missing));
    assert_eq!(site.poll_all(), []);
    assert_eq!(site.node.grant_credit(UPSTREAM, site.budget, 2), 2);
    site.node.read(site.budget, vec![BlockIndex(0)]).unwrap();
    assert_eq!(site.poll_all(), [recall]);
}

#[test]
fn cancelled_request_waits_for_nothing() {
    let mut site = Site::new(8, 1);
    let twice = [0, 1, 0].map(BlockIndex).to_vec();
    let [first, second] = [twice.clone(), twice].map(|blocks| site.node.read(site.budget, blocks).unwrap());
    assert_eq!(site.poll_all().len(), 2);
    site.node.cancel(first);
    assert!([0, 1].into_iter().all(|index| site.node.arrived(block(index), site.now)));
    let copy = |index| Action::Copy { request: second, block: block(index) };
    assert_eq!(site.poll_all(), [copy(0), copy(0), copy(1)]);
}

#[test]
fn credit_is_given_up_to_the_level_that_allows_it() {
    let mut site = Site::new(100, 1);
    assert_eq!([0, 79, u32::MAX, 1].map(|slots| site.node.grant_credit(UPSTREAM, site.budget, slots)), [0, 79, 1, 0]);
    assert_eq!(site.node.usage().credited, 80);
}

#[test]
fn unused_blocks_of_a_past_generation_are_counted() {
    let mut site = Site::new(100, 1);
    site.node.prefetch(site.budget, [0, 1, 2].map(BlockIndex).to_vec()).unwrap();
    assert_eq!(site.poll_all().len(), 3);
    assert!([0, 1].into_iter().all(|index| site.node.arrived(block(index), site.now)));
    site.node.read(site.budget, vec![BlockIndex(0)]).unwrap();
    let [Action::Copy { request, .. }] = site.poll_all()[..] else { panic!("a cached block is copied") };
    site.node.copied(request, block(0), site.now);
    site.node.replace(DATASET, Generation(1)).unwrap();
    site.poll_all();
    assert!(site.node.arrived(block(2), site.now));
    let stats = site.node.stats(site.budget);
    assert_eq!((stats.ahead_fetched, stats.ahead_hits, stats.unused, stats.reclaimed), (3, 1, 2, 3));
}

#[test]
fn blocks_that_go_are_told_to_those_who_follow() {
    let mut site = Site::new(100, 1);
    let budget = site.budget;
    let other = site.node.declare_budget(DATASET, Limits::default(), Policy::Lru).unwrap();
    let lost = |site: &mut Site, budget| {
        let Lost::Blocks(blocks) = site.node.take_lost(budget) else { panic!("too many are gone") };
        blocks.into_iter().map(|index| index.0).collect::<Vec<_>>()
    };
    site.node.follow_losses(budget).unwrap();
    let fill = |site: &mut Site, budget, blocks: std::ops::Range<u64>| {
        for index in blocks {
            site.node.read(budget, vec![BlockIndex(index)]).unwrap();
            while let Some(action) = site.node.poll(site.now) {
                match action {
                    Action::Fetch { block, .. } => assert!(site.node.arrived(block, site.now)),
                    Action::Copy { request, block } => site.node.copied(request, block, site.now),
                    _ => {}
                }
            }
        }
    };
    // Those of another budget count, too: an upstream knows of datasets.
    fill(&mut site, other, 0..100);
    let first = site.node.stats(other).reclaimed;
    assert_eq!(lost(&mut site, budget), (0..first).collect::<Vec<_>>());
    assert_eq!((lost(&mut site, budget), lost(&mut site, other)), (vec![], vec![]));
    fill(&mut site, other, 100..110);
    fill(&mut site, other, first..first + 2);
    let expected: Vec<u64> = (first + 2..site.node.stats(other).reclaimed).collect();
    assert_eq!(lost(&mut site, budget), expected);
    fill(&mut site, other, 200..210);
    site.node.replace(DATASET, Generation(1)).unwrap();
    assert_eq!(site.poll_all(), []);
    assert_eq!((site.node.usage().cached, lost(&mut site, budget)), (0, vec![]));
}

#[test]
#[should_panic(expected = "a window has slots")]
fn window_without_slots_is_refused() {
    let config = NodeConfig { slots: 1, slot_bytes: 1, max_block_slots: 1, window_slots: 0, seed: 1 };
    let _ = Node::new(config, Instant::now());
}

#[test]
fn blocks_are_copied_as_soon_as_they_are_there() {
    let mut site = Site::new(8, 1);
    let request = site.node.read(site.budget, vec![BlockIndex(0), BlockIndex(1)]).unwrap();
    assert_eq!(site.poll_all().len(), 2);
    for index in [1, 0] {
        assert!(site.node.arrived(block(index), site.now));
        assert_eq!(site.poll_all(), [Action::Copy { request, block: block(index) }]);
    }
}

#[test]
fn one_call_reclaims_no_more_than_a_pass() {
    let mut site = Site::new(1000, 1);
    site.node.prefetch(site.budget, (0..600).map(BlockIndex).collect::<Vec<_>>()).unwrap();
    assert_eq!(site.poll_all().len(), 600);
    assert!((0..600).all(|index| site.node.arrived(block(index), site.now)));
    assert_eq!(site.poll_all(), []);
    site.node.replace(DATASET, Generation(1)).unwrap();
    for (reclaimed, is_due) in [(256, true), (512, true), (600, false), (600, false)] {
        assert_eq!(site.node.poll(site.now), None);
        let timeout = site.node.poll_timeout();
        assert_eq!(
            (site.node.stats(site.budget).reclaimed, timeout.is_some_and(|at| at <= site.now)),
            (reclaimed, is_due)
        );
    }
}

const DATASET: DatasetId = DatasetId(0);
const UPSTREAM: UpstreamId = UpstreamId(0);

#[test]
fn a_block_that_cannot_be_had_is_not_presented() {
    let mut site = Site::new(8, 1);
    let downstream = DownstreamId(0);
    site.node.credited(downstream, site.budget, 4).unwrap();
    site.node.presend(downstream, site.budget, vec![BlockIndex(0), BlockIndex(1)]).unwrap();
    let fetches = site.poll_all();
    assert_eq!(fetches.len(), 2, "{fetches:?}");
    assert!(site.node.failed(block(0), Fault::Corrupt));
    assert_eq!(site.poll_all(), [], "it is not tried again");
    assert!(site.node.arrived(block(1), site.now));
    let present = Action::Present { downstream, budget: site.budget, block: block(1) };
    assert_eq!(site.poll_all(), [present]);
}
