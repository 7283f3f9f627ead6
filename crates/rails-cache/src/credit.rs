//! Slots that were promised to upstreams, for blocks that they push.

use crate::block::{BudgetId, UpstreamId};
use std::collections::BTreeMap;

/// The promises of a node. An upstream pushes a block only into slots that it was promised, so no
/// push finds the memory full.
#[derive(Debug, Clone, Default)]
pub(crate) struct Credits {
    credits: BTreeMap<(UpstreamId, BudgetId), Credit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Credit {
    slots: u32,
    is_recalled: bool,
}

impl Credits {
    pub(crate) fn of(&self, upstream: UpstreamId, budget: BudgetId) -> u32 {
        self.credits.get(&(upstream, budget)).map_or(0, |credit| credit.slots)
    }

    /// Whether an upstream was asked to return what it has.
    pub(crate) fn is_recalled(&self, upstream: UpstreamId, budget: BudgetId) -> bool {
        self.credits.get(&(upstream, budget)).is_some_and(|credit| credit.is_recalled)
    }

    pub(crate) fn add(&mut self, upstream: UpstreamId, budget: BudgetId, slots: u32) {
        self.credits.entry((upstream, budget)).or_default().slots += slots;
    }

    /// Ends a part of a credit, at most what is left of it. Returns how many slots that is.
    pub(crate) fn end(&mut self, upstream: UpstreamId, budget: BudgetId, slots: u32) -> u32 {
        let Some(credit) = self.credits.get_mut(&(upstream, budget)) else { return 0 };
        let ended = slots.min(credit.slots);
        credit.slots -= ended;
        if credit.slots == 0 {
            self.credits.remove(&(upstream, budget));
        }
        ended
    }

    /// A recall was answered: the upstream may get credit again.
    pub(crate) fn end_recall(&mut self, upstream: UpstreamId, budget: BudgetId) {
        if let Some(credit) = self.credits.get_mut(&(upstream, budget)) {
            credit.is_recalled = false;
        }
    }

    /// Recalls every credit that is not recalled yet. Returns them.
    pub(crate) fn recall_all(&mut self) -> Vec<(UpstreamId, BudgetId)> {
        let open = self.credits.iter_mut().filter(|(_, credit)| !credit.is_recalled);
        let recalled = open.map(|(owner, credit)| {
            credit.is_recalled = true;
            *owner
        });
        recalled.collect()
    }

    /// The budgets that gave credit to an upstream.
    pub(crate) fn budgets_of(&self, upstream: UpstreamId) -> Vec<BudgetId> {
        let of_upstream = self.credits.keys().filter(|(of, _)| *of == upstream);
        of_upstream.map(|(_, budget)| *budget).collect()
    }

    /// Every credit: whose, how many slots, and whether it is recalled.
    #[cfg(feature = "internals")]
    pub(crate) fn all(&self) -> Vec<(u32, u32, u32, bool)> {
        let flat = |((upstream, budget), credit): (&(UpstreamId, BudgetId), &Credit)| {
            (upstream.0, budget.0, credit.slots, credit.is_recalled)
        };
        self.credits.iter().map(flat).collect()
    }
}
