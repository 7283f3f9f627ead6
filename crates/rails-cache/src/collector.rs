//! Which block is reclaimed next, and when there is none to reclaim.

use crate::{
    block::{BudgetId, RequestId},
    budget::Budget,
    level::MemoryLevel,
    memory::{Memory, Shortage},
    mutation::{Mutation, Mutations},
    share::Share,
};

/// The collector: it runs after a change alone, and stops once it finds no more to do.
///
/// A collector that may run though nothing has changed can take every block that someone waits
/// for, forever: the fault that the thesis' verification found (6.3.3).
#[derive(Debug, Clone, Default)]
pub(crate) struct Collector {
    is_due: bool,
    /// Those that lack slots which no reclamation can give them, until someone who copies has
    /// finished.
    starving: Vec<Demand>,
    /// Whether a request has ceased to starve, so that younger ones may pin blocks again.
    has_relieved: bool,
    mutations: Mutations,
}

/// A request that lacks slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Demand {
    pub(crate) request: RequestId,
    pub(crate) budget: BudgetId,
    pub(crate) shortage: Shortage,
}

impl Collector {
    pub(crate) fn new(mutations: Mutations) -> Self {
        Self { mutations, ..Self::default() }
    }

    /// Notes a change that may give the collector something to do.
    pub(crate) fn wake(&mut self) {
        self.is_due = true;
    }

    pub(crate) fn is_due(&self) -> bool {
        self.is_due || self.mutations.has(Mutation::CollectorNeedsNoChange)
    }

    /// Whether a request must not pin a block, because an older one waits for slots like its.
    pub(crate) fn withholds(&self, memory: &Memory, entry: u32, request: RequestId) -> bool {
        let wants = |demand: &Demand| memory.may_take(demand.budget, demand.shortage, entry);
        !self.mutations.has(Mutation::YoungPins)
            && self.starving.iter().any(|demand| demand.request < request && wants(demand))
    }

    /// The block to reclaim next. Once there is none, the collector is not due until
    /// [woken](Self::wake).
    ///
    /// `demands` are the requests that lack slots, the oldest of each budget. `idle_limit` is the
    /// time before which an access is long ago.
    pub(crate) fn next_victim(
        &mut self,
        memory: &Memory,
        demands: impl Iterator<Item = Demand>,
        idle_limit: u32,
    ) -> Option<u32> {
        if self.mutations.has(Mutation::CollectorNeedsNoChange)
            && let Some(victim) = memory.victim(None)
        {
            return Some(victim);
        }
        let victim = self.for_demand(memory, demands).or_else(|| for_pressure(memory, idle_limit));
        if victim.is_none() {
            self.is_due = false;
        }
        victim
    }

    /// A block whose slots a hungry request gets. Of those that lack slots of the node, only the
    /// oldest is served, so that no younger one takes them.
    fn for_demand(&mut self, memory: &Memory, demands: impl Iterator<Item = Demand>) -> Option<u32> {
        let (of_budget, of_node): (Vec<_>, Vec<_>) = demands.partition(|demand| demand.shortage == Shortage::Budget);
        let oldest = of_node.into_iter().min_by_key(|demand| demand.request);
        let victim = |demand: &Demand| match demand.shortage {
            Shortage::Budget => memory.victim_of(memory.share_of(demand.budget)),
            Shortage::Node => memory.victim(Some(demand.budget)),
        };
        let demands = of_budget.into_iter().chain(oldest).map(|demand| (demand, victim(&demand)));
        let (served, starving): (Vec<_>, Vec<_>) = demands.partition(|(_, victim)| victim.is_some());
        let starving: Vec<Demand> = starving.into_iter().map(|(demand, _)| demand).collect();
        self.has_relieved |= self.starving.iter().any(|demand| !starving.contains(demand));
        self.starving = starving;
        served.into_iter().find_map(|(_, victim)| victim)
    }

    /// A request has got its slots, or is gone. Returns whether it was one that starved, so that
    /// younger ones may pin blocks again.
    pub(crate) fn forget(&mut self, request: RequestId) -> bool {
        let before = self.starving.len();
        self.starving.retain(|demand| demand.request != request);
        self.starving.len() < before
    }

    /// Whether a request has ceased to starve since the last call.
    pub(crate) fn take_relief(&mut self) -> bool {
        std::mem::take(&mut self.has_relieved)
    }

    /// Whether a request lacks slots that no reclamation can give it.
    pub(crate) fn is_starving(&self) -> bool {
        !self.starving.is_empty()
    }

    #[cfg(feature = "internals")]
    pub(crate) fn starving(&self) -> &[Demand] {
        &self.starving
    }
}

/// A block that goes because of the memory's level, or that of a budget.
fn for_pressure(memory: &Memory, idle_limit: u32) -> Option<u32> {
    if memory.level() >= MemoryLevel::ANY_GOES
        && let Some(victim) = memory.victim(None)
    {
        return Some(victim);
    }
    // A share keeps its `min`, and a block.
    let leaves_some = |share: &Share, victim: u32| {
        let slots = memory.entry(victim).chain.count();
        share.can_give(slots) && share.used > slots
    };
    let any = |budget: &Budget| {
        let share = memory.share_of(budget.id);
        let victim = (share.level >= MemoryLevel::ANY_GOES).then(|| memory.victim_of(share)).flatten();
        victim.filter(|victim| leaves_some(share, *victim))
    };
    let passed = |budget| giving(memory, budget, MemoryLevel::PASSED_GOES, budget.order.passed_victim());
    let idle = |budget| giving(memory, budget, MemoryLevel::IDLE_GOES, budget.order.idle_victim(idle_limit));
    let is_idle = |budget: &&Budget| budget.order.oldest_access().is_some_and(|access| access < idle_limit);
    let victim = memory.pressed().find_map(any).or_else(|| memory.passed().find_map(passed));
    victim.or_else(|| memory.idle().take_while(is_idle).find_map(idle))
}

/// The last access to a partition that goes if it stays idle.
pub(crate) fn oldest_access(memory: &Memory) -> Option<u32> {
    let of_budget = |budget: &Budget| {
        giving(memory, budget, MemoryLevel::IDLE_GOES, budget.order.idle_victim(u32::MAX))?;
        budget.order.oldest_access()
    };
    if memory.level() >= MemoryLevel::IDLE_GOES {
        return memory.idle().find_map(of_budget);
    }
    memory.pressed().filter_map(of_budget).min()
}

/// The victim, if the level of the budget's share is as high, or that of the node, and the share
/// has more than its `min`: those who fill the node do not empty others.
fn giving(memory: &Memory, budget: &Budget, level: MemoryLevel, victim: Option<u32>) -> Option<u32> {
    let victim = victim?;
    let share = memory.share_of(budget.id);
    let gives = || memory.level() >= level && share.can_give(memory.entry(victim).chain.count());
    (share.level >= level || gives()).then_some(victim)
}
