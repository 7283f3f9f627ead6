//! The memory that one application has for one dataset.

use crate::{
    block::{BudgetId, DatasetId},
    future::Future,
    losses::Losses,
    order::{Order, Policy},
    stats::BudgetStats,
};
use rails_array::BlockIndex;
use std::collections::VecDeque;

/// The slots that a budget may have, or several together that
/// [share](crate::Node::declare_budget_beside) their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Slots that other budgets do not take from this one. Slots that it does not use serve others
    /// until it asks for them. By default none.
    pub min: u32,
    /// Slots that the budget has at most. By default all of the node's.
    pub max: u32,
    /// The budget's part of the slots beyond every `min`, in relation to the weights of other
    /// budgets. By default 1.
    pub weight: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { min: 0, max: u32::MAX, weight: 1 }
    }
}

/// A budget and the slots that count against it.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) id: BudgetId,
    pub(crate) dataset: DatasetId,
    /// Whether the application is gone. Blocks that are pinned or in transit, and credit, still
    /// count against the budget; cached blocks are all to go.
    pub(crate) is_ended: bool,
    /// The number of the share that says what the budget may have.
    pub(crate) share: usize,
    pub(crate) used: Used,
    /// Cached blocks that are pinned by nobody.
    pub(crate) order: Order,
    /// Cached blocks of generations that are past. They are all to go.
    pub(crate) stale: Vec<Order>,
    pub(crate) future: Future,
    /// Blocks to fetch ahead of time, in this order.
    pub(crate) ahead: VecDeque<BlockIndex>,
    /// The blocks of the dataset that were given up, if anyone asked for them.
    pub(crate) losses: Option<Losses>,
    pub(crate) stats: BudgetStats,
}

/// Slots by the state of their blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Used {
    pub(crate) in_transit: u32,
    pub(crate) cached: u32,
    /// Slots that were promised to an upstream, for blocks that it pushes.
    pub(crate) credited: u32,
}

impl Used {
    pub(crate) fn total(self) -> u32 {
        self.in_transit + self.cached + self.credited
    }
}

impl Budget {
    pub(crate) fn new(id: BudgetId, dataset: DatasetId, share: usize, policy: Policy, seed: u64) -> Self {
        Self {
            id,
            dataset,
            is_ended: false,
            share,
            used: Used::default(),
            order: Order::new(policy, seed),
            stale: Vec::new(),
            future: Future::new(seed),
            ahead: VecDeque::new(),
            losses: None,
            stats: BudgetStats::default(),
        }
    }

    /// The application is gone: nothing is expected or to be fetched any more.
    pub(crate) fn end(&mut self, seed: u64) {
        self.is_ended = true;
        self.future = Future::new(seed);
        self.ahead = VecDeque::new();
        self.losses = None;
    }

    /// Forgets the memory of the order, once nothing is left in it.
    pub(crate) fn forget_order(&mut self, seed: u64) {
        self.order = Order::new(self.order.policy(), seed);
        self.stale = Vec::new();
    }

    /// Whether the budget has ended and nothing counts against it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_ended && self.used.total() == 0
    }

    /// The dataset has a new generation: no block of the budget is found by its name any more.
    pub(crate) fn retire(&mut self, seed: u64) {
        let order = Order::new(self.order.policy(), seed);
        self.stale.push(std::mem::replace(&mut self.order, order));
        self.future = Future::new(seed);
        self.ahead.clear();
        self.losses = self.losses.take().map(|_| Losses::default());
    }
}
