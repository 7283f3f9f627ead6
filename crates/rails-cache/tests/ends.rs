//! Budgets whose application is gone, and datasets that nobody reads any more.
#![allow(clippy::disallowed_methods)]

use rails_array::{BlockGrid, BlockIndex, Grid, Region, Shape};
use rails_cache::{
    Action, BlockId, BudgetId, DatasetId, DeclareError, DownstreamId, Fault, Generation, Limits, Node, NodeConfig,
    Policy, Purpose, ReadError, Refusal, RequestId, UnusedCredit, UpstreamId,
};
use std::{sync::Arc, time::Instant};

struct Site {
    node: Node,
    now: Instant,
}

impl Site {
    /// A node of 16 slots with a dataset of blocks of one slot each.
    fn new() -> Self {
        let now = Instant::now();
        let config = NodeConfig { slots: 16, slot_bytes: 1, max_block_slots: 1, window_slots: 8, seed: 1 };
        let mut site = Self { node: Node::new(config, now), now };
        assert_eq!(site.declare(), Ok(()));
        site
    }

    fn declare(&mut self) -> Result<(), DeclareError> {
        let shape = |extent| Shape::new([extent]).unwrap();
        let grid = BlockGrid::new(Region::whole(&shape(1000)), shape(1)).unwrap();
        self.node.declare_dataset(DATASET, Arc::new(Grid::new(grid)), 1, Generation(0))
    }

    fn budget(&mut self, min: u32) -> BudgetId {
        self.node.declare_budget(DATASET, Limits { min, ..Limits::default() }, Policy::Lru).unwrap()
    }

    fn read(&mut self, budget: BudgetId, index: u64) -> RequestId {
        self.node.read(budget, vec![BlockIndex(index)]).unwrap()
    }

    fn poll_all(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.node.poll(self.now)).collect()
    }
}

fn block(index: u64) -> BlockId {
    BlockId { dataset: DATASET, generation: Generation(0), index: BlockIndex(index) }
}

fn fetch(index: u64) -> Action {
    Action::Fetch { block: block(index), purpose: Purpose::Demand }
}

const ENDED: Refusal = Refusal { block: None, fault: Fault::Ended };

#[test]
fn a_block_that_is_copied_keeps_its_slots() {
    let mut site = Site::new();
    let budget = site.budget(0);
    let request = site.read(budget, 0);
    assert_eq!(site.poll_all(), [fetch(0)]);
    assert!(site.node.arrived(block(0), site.now));
    assert_eq!(site.poll_all(), [Action::Copy { request, block: block(0) }]);
    assert_eq!(site.node.end_budget(budget), Ok(vec![]));
    assert_eq!(site.poll_all(), [Action::Refuse { request, refusal: ENDED }]);
    assert_eq!((site.node.usage().cached, site.node.slots(&block(0)).count()), (1, 1));
    site.node.copied(request, block(0), site.now);
    assert_eq!(site.poll_all(), []);
    assert_eq!(site.node.usage().free, 16);
}

#[test]
fn a_block_in_transit_serves_other_budgets_first() {
    let mut site = Site::new();
    let [one, other] = [0, 0].map(|min| site.budget(min));
    let [refused, joined] = [one, other].map(|budget| site.read(budget, 0));
    assert_eq!(site.poll_all(), [fetch(0)]);
    assert_eq!(site.node.end_budget(one), Ok(vec![]));
    assert_eq!(site.poll_all(), [Action::Refuse { request: refused, refusal: ENDED }]);
    assert!(site.node.arrived(block(0), site.now));
    assert_eq!(site.poll_all(), [Action::Copy { request: joined, block: block(0) }]);
    site.node.copied(joined, block(0), site.now);
    assert_eq!(site.poll_all(), [Action::Done { request: joined }]);
    assert_eq!(site.node.usage().free, 16);
    // The end of a budget is no fault of its blocks.
    assert!(!site.node.arrived(block(0), site.now) && !site.node.failed(block(0), Fault::Missing));
}

#[test]
fn the_number_of_an_ended_budget_is_unknown() {
    let mut site = Site::new();
    let budget = site.budget(0);
    assert_eq!(site.node.end_budget(budget), Ok(vec![]));
    let next = site.budget(0);
    assert_ne!(next, budget);
    let unknown = |error| matches!(error, ReadError::UnknownBudget(_));
    assert!(site.node.end_budget(budget).is_err_and(unknown));
    assert!(site.node.read(budget, vec![BlockIndex(0)]).is_err_and(unknown));
    assert!(site.node.credited(DownstreamId(0), budget, 1).is_err_and(unknown));
    assert!(site.node.presend(DownstreamId(0), budget, vec![BlockIndex(0)]).is_err_and(unknown));
    assert!(site.node.read(next, vec![BlockIndex(0)]).is_ok());
}

#[test]
fn a_min_is_free_again() {
    let mut site = Site::new();
    let first = site.budget(15);
    let too_much = site.node.declare_budget(DATASET, Limits { min: 15, ..Limits::default() }, Policy::Lru);
    assert!(matches!(too_much, Err(DeclareError::Overcommitted { .. })));
    assert_eq!(site.node.end_budget(first), Ok(vec![]));
    site.budget(15);
}

#[test]
fn two_thousand_budgets_come_and_go() {
    let mut site = Site::new();
    for _ in 0..2000 {
        let budget = site.budget(0);
        let request = site.read(budget, 0);
        assert_eq!(site.poll_all(), [fetch(0)]);
        assert_eq!(site.node.end_budget(budget), Ok(vec![]));
        assert!(site.node.arrived(block(0), site.now));
        assert_eq!(site.poll_all(), [Action::Refuse { request, refusal: ENDED }]);
    }
    assert_eq!(site.node.usage().free, 16);
}

#[test]
fn credit_that_a_budget_gave_is_recalled() {
    let mut site = Site::new();
    let budget = site.budget(0);
    assert_eq!(site.node.grant_credit(UPSTREAM, budget, 3), 3);
    assert_eq!(site.node.end_budget(budget), Ok(vec![]));
    assert_eq!(site.poll_all(), [Action::Recall { upstream: UPSTREAM, budget }]);
    assert_eq!((site.node.usage().credited, site.node.grant_credit(UPSTREAM, budget, 1)), (3, 0));
    // This one was on its way.
    assert!(!site.node.pushed(UPSTREAM, budget, block(0), site.now));
    assert_eq!((site.node.usage().credited, site.node.pushed_amiss()), (2, 0));
    site.node.return_credit(UPSTREAM, budget, 2);
    assert_eq!(site.node.usage().free, 16);
    assert!(!site.node.pushed(UPSTREAM, budget, block(0), site.now));
    assert_eq!(site.node.pushed_amiss(), 1);
}

#[test]
fn credit_for_a_budget_is_given_back() {
    let mut site = Site::new();
    let [one, other] = [0, 0].map(|min| site.budget(min));
    let [near, far] = [0, 1].map(DownstreamId);
    for (downstream, budget, slots) in [(near, one, 2), (far, one, 3), (near, other, 4)] {
        site.node.credited(downstream, budget, slots).unwrap();
    }
    let unused = |downstream, budget, slots| UnusedCredit { downstream, budget, slots };
    assert_eq!(site.node.end_budget(one), Ok(vec![unused(near, one, 2), unused(far, one, 3)]));
    assert_eq!(site.node.recalled(near, one), 0);
    assert_eq!(site.node.end_dataset(DATASET), Ok(vec![unused(near, other, 4)]));
}

#[test]
fn a_dataset_is_declared_again_once_it_is_empty() {
    let mut site = Site::new();
    let budget = site.budget(0);
    let request = site.read(budget, 0);
    assert_eq!(site.poll_all(), [fetch(0)]);
    assert_eq!(site.declare(), Err(DeclareError::DatasetExists(DATASET)));
    assert_eq!(site.node.end_dataset(DATASET), Ok(vec![]));
    assert_eq!(site.poll_all(), [Action::Refuse { request, refusal: ENDED }]);
    let unknown = DeclareError::UnknownDataset(DATASET);
    assert_eq!(site.node.declare_budget(DATASET, Limits::default(), Policy::Lru), Err(unknown.clone()));
    assert_eq!(site.node.replace(DATASET, Generation(1)), Err(unknown));
    assert_eq!(site.declare(), Err(DeclareError::DatasetEnding(DATASET)));
    assert!(site.node.failed(block(0), Fault::Missing));
    assert_eq!(site.declare(), Ok(()));
    let budget = site.budget(0);
    site.read(budget, 0);
    assert_eq!(site.poll_all(), [fetch(0)]);
}

const DATASET: DatasetId = DatasetId(0);
const UPSTREAM: UpstreamId = UpstreamId(0);
