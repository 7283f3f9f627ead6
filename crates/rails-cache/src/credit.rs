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
    recall: Recall,
}

/// What became of a credit's recall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Recall {
    /// The node has not recalled the credit.
    #[default]
    None,
    /// The node has recalled the credit, and the upstream has not answered.
    Asked,
    /// The upstream has returned all that it has not used. The rest is for blocks that are on their
    /// way, so asking again would bring nothing.
    Answered,
}

impl Credits {
    pub(crate) fn of(&self, upstream: UpstreamId, budget: BudgetId) -> u32 {
        self.credits.get(&(upstream, budget)).map_or(0, |credit| credit.slots)
    }

    /// Whether an upstream has yet to answer a recall.
    pub(crate) fn is_recalled(&self, upstream: UpstreamId, budget: BudgetId) -> bool {
        self.credits.get(&(upstream, budget)).is_some_and(|credit| credit.recall == Recall::Asked)
    }

    pub(crate) fn add(&mut self, upstream: UpstreamId, budget: BudgetId, slots: u32) {
        let credit = self.credits.entry((upstream, budget)).or_default();
        credit.slots += slots;
        credit.recall = Recall::None;
    }

    /// Takes slots off a credit, as many as it still has. Returns their number.
    pub(crate) fn end(&mut self, upstream: UpstreamId, budget: BudgetId, slots: u32) -> u32 {
        let Some(credit) = self.credits.get_mut(&(upstream, budget)) else { return 0 };
        let ended = slots.min(credit.slots);
        credit.slots -= ended;
        if credit.slots == 0 {
            self.credits.remove(&(upstream, budget));
        }
        ended
    }

    /// A recall was answered, if there was one: the upstream may get credit again.
    pub(crate) fn end_recall(&mut self, upstream: UpstreamId, budget: BudgetId) {
        if let Some(credit) = self.credits.get_mut(&(upstream, budget))
            && credit.recall == Recall::Asked
        {
            credit.recall = Recall::Answered;
        }
    }

    /// Recalls the credit of those budgets that was not recalled since it was last given. Returns
    /// whose it is.
    pub(crate) fn recall(&mut self, of: impl Fn(BudgetId) -> bool) -> Vec<(UpstreamId, BudgetId)> {
        let of_budgets = self.credits.iter_mut().filter(|((_, budget), _)| of(*budget));
        let open = of_budgets.filter(|(_, credit)| credit.recall == Recall::None);
        let recalled = open.map(|(owner, credit)| {
            credit.recall = Recall::Asked;
            *owner
        });
        recalled.collect()
    }

    /// The budgets that gave credit to an upstream.
    pub(crate) fn budgets_of(&self, upstream: UpstreamId) -> Vec<BudgetId> {
        let of_upstream = self.credits.keys().filter(|(of, _)| *of == upstream);
        of_upstream.map(|(_, budget)| *budget).collect()
    }

    /// Every credit: whose, how many slots, and how far its recall is.
    #[cfg(feature = "internals")]
    pub(crate) fn all(&self) -> Vec<(u32, u32, u32, u8)> {
        let flat = |((upstream, budget), credit): (&(UpstreamId, BudgetId), &Credit)| {
            (upstream.0, budget.seat() as u32, credit.slots, credit.recall as u8)
        };
        self.credits.iter().map(flat).collect()
    }
}
