//! Who holds which slots: the pool, the blocks that hold them, and the budgets that they count
//! against.

use crate::{
    block::{BlockId, BudgetId, DatasetId, MAX_BUDGETS},
    budget::{Budget, Limits, Used},
    error::DeclareError,
    givers::Givers,
    level::MemoryLevel,
    losses::Losses,
    mutation::{Mutation, Mutations},
    order::{Policy, Touch},
    share::Share,
    slots::{SlotChain, SlotPool},
    stats::MemoryUse,
    table::{Entry, Place, State, Table},
};
use rails_array::BlockIndex;
use std::cmp::Reverse;

/// The memory of a node.
///
/// A slot is free, or one block holds it; a block that holds slots is in transit or cached, and
/// counts against one budget, and with it against one share.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pool: SlotPool,
    table: Table,
    /// By the seats of their numbers. One that is over keeps its seat until another needs it.
    budgets: Vec<Budget>,
    /// By the numbers that budgets have. One whose budgets are over is there for others.
    shares: Vec<Share>,
    givers: Givers,
    /// The budgets that keep a record of the losses of their dataset.
    followers: Vec<(DatasetId, BudgetId)>,
    /// Slots of the pool's free ones that are promised to upstreams.
    credited: u32,
    level: MemoryLevel,
    /// The slots of the largest block that may come.
    max_block_slots: u32,
    seed: u64,
    mutations: Mutations,
}

/// Why a block gets no slots now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Shortage {
    /// The block's budget has all slots that it may have.
    Budget,
    /// Too few slots are free.
    Node,
}

impl Memory {
    pub(crate) fn new(slots: u32, max_block_slots: u32, seed: u64, mutations: Mutations) -> Self {
        Self {
            pool: SlotPool::new(slots),
            table: Table::new(seed),
            budgets: Vec::new(),
            shares: Vec::new(),
            givers: Givers::default(),
            followers: Vec::new(),
            credited: 0,
            level: MemoryLevel::default(),
            max_block_slots,
            seed,
            mutations,
        }
    }

    /// Adds a budget with limits of its own.
    pub(crate) fn declare(
        &mut self,
        dataset: DatasetId,
        limits: Limits,
        policy: Policy,
    ) -> Result<BudgetId, DeclareError> {
        let limits = self.checked(limits)?;
        let is_vacant = |share: &Share| share.seats.iter().all(|seat| self.budgets[*seat].is_over());
        let share = match self.shares.iter().position(is_vacant) {
            Some(vacant) => {
                self.shares[vacant] = Share::new(limits);
                vacant
            }
            None => {
                self.shares.push(Share::new(limits));
                self.shares.len() - 1
            }
        };
        self.add_budget(dataset, share, policy)
    }

    /// Adds a budget that shares the limits of another one.
    pub(crate) fn declare_beside(
        &mut self,
        dataset: DatasetId,
        sibling: BudgetId,
        policy: Policy,
    ) -> Result<BudgetId, DeclareError> {
        self.add_budget(dataset, self.budget(sibling).share, policy)
    }

    /// The limits as they hold, if they can be kept.
    fn checked(&self, limits: Limits) -> Result<Limits, DeclareError> {
        let total = self.pool.total();
        let limits = Limits { max: limits.max.min(total), ..limits };
        if limits.weight == 0 {
            return Err(DeclareError::NoWeight);
        }
        if limits.min > limits.max || limits.max < self.max_block_slots {
            let Limits { min, max, .. } = limits;
            return Err(DeclareError::BadLimits { min, max, max_block: self.max_block_slots });
        }
        // However the shares divide the slots beyond every `min`, one of them has a whole block of
        // these that it can give.
        let open = || self.shares.iter().filter(|share| self.is_open(share));
        let shares = open().count() as u64 + 1;
        let block = u64::from(self.max_block_slots);
        let mins: u64 = open().map(|share| u64::from(share.limits.min)).sum();
        let reserve = shares * (block - 1) + block;
        let needed = mins + u64::from(limits.min) + reserve;
        if needed > u64::from(total) {
            return Err(DeclareError::Overcommitted { min: limits.min, others: mins, reserve, total });
        }
        Ok(limits)
    }

    fn add_budget(&mut self, dataset: DatasetId, share: usize, policy: Policy) -> Result<BudgetId, DeclareError> {
        let mut over = self.budgets.iter().filter(|budget| budget.is_over());
        let id = match over.find_map(|budget| budget.id.next()) {
            Some(reused) => reused,
            None if self.budgets.len() < MAX_BUDGETS => BudgetId::first(self.budgets.len()),
            None => return Err(DeclareError::TooManyBudgets { max: MAX_BUDGETS }),
        };
        let new = Budget::new(id, dataset, share, policy, self.seed);
        match self.budgets.get_mut(id.seat()) {
            None => self.budgets.push(new),
            Some(seat) => {
                let over = std::mem::replace(seat, new);
                self.shares[over.share].seats.retain(|seat| *seat != id.seat());
            }
        }
        self.shares[share].seats.push(id.seat());
        self.update_givers(id);
        Ok(id)
    }

    /// Whether a budget of the share has not ended.
    fn is_open(&self, share: &Share) -> bool {
        share.seats.iter().any(|seat| !self.budgets[*seat].is_ended)
    }

    /// Ends a budget: the collector takes its cached blocks.
    pub(crate) fn end_budget(&mut self, budget: BudgetId) {
        let seed = self.seed;
        self.budget_mut(budget).end(seed);
        let share = self.budget(budget).share;
        if !self.is_open(&self.shares[share]) {
            self.shares[share].limits.min = 0;
        }
        self.followers.retain(|(_, follower)| *follower != budget);
        self.update_givers(budget);
    }

    /// Keeps a record of the blocks of a budget's dataset that are given up from now on.
    pub(crate) fn follow_losses(&mut self, budget: BudgetId) {
        let Budget { losses, dataset, .. } = self.budget_mut(budget);
        let follower = (*dataset, budget);
        if losses.replace(Losses::default()).is_none() {
            self.followers.push(follower);
        }
    }

    /// A budget that is open, or that has ended and still has slots.
    pub(crate) fn budget(&self, budget: BudgetId) -> &Budget {
        let found = &self.budgets[budget.seat()];
        debug_assert_eq!(found.id, budget, "a budget with slots keeps its seat");
        found
    }

    pub(crate) fn budget_mut(&mut self, budget: BudgetId) -> &mut Budget {
        let found = &mut self.budgets[budget.seat()];
        debug_assert_eq!(found.id, budget, "a budget with slots keeps its seat");
        found
    }

    /// What a budget may have, alone or with others.
    pub(crate) fn share_of(&self, budget: BudgetId) -> &Share {
        &self.shares[self.budget(budget).share]
    }

    /// Whether a budget has that number, ended or not.
    pub(crate) fn knows_budget(&self, budget: BudgetId) -> bool {
        self.budgets.get(budget.seat()).is_some_and(|found| found.id == budget)
    }

    /// Whether a budget has that number, and has not ended.
    pub(crate) fn has_budget(&self, budget: BudgetId) -> bool {
        self.knows_budget(budget) && !self.budget(budget).is_ended
    }

    /// The budgets, those among them that have ended.
    pub(crate) fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.budgets.iter()
    }

    /// The budgets at a level at which something goes.
    pub(crate) fn pressed(&self) -> impl Iterator<Item = &Budget> {
        self.givers.pressed().map(|seat| &self.budgets[seat])
    }

    /// The budgets with a block that nobody is expected to use again.
    pub(crate) fn passed(&self) -> impl Iterator<Item = &Budget> {
        self.givers.passed().map(|seat| &self.budgets[seat])
    }

    /// The budgets with partitions, the one that has the longest idle first.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &Budget> {
        self.givers.idle().map(|seat| &self.budgets[seat])
    }

    /// The budgets with blocks to fetch ahead of time.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Budget> {
        self.givers.waiting().map(|seat| &self.budgets[seat])
    }

    /// Whether the sets of budgets are as their budgets say.
    #[cfg(feature = "internals")]
    pub(crate) fn are_givers_right(&self) -> bool {
        let mut anew = Givers::default();
        let level = |budget: &Budget| self.shares[budget.share].level;
        self.budgets.iter().enumerate().for_each(|(seat, budget)| anew.update(seat, budget, level(budget)));
        self.givers == anew
    }

    /// Adds blocks to fetch ahead of time, up to `max`. Returns how many were added.
    pub(crate) fn fetch_later(
        &mut self,
        budget: BudgetId,
        blocks: impl Iterator<Item = BlockIndex>,
        max: usize,
    ) -> usize {
        let ahead = &mut self.budget_mut(budget).ahead;
        let before = ahead.len();
        ahead.extend(blocks.take(max - before));
        let added = ahead.len() - before;
        self.update_givers(budget);
        added
    }

    /// Takes the first block to fetch ahead of time off its line.
    pub(crate) fn pop_ahead(&mut self, budget: BudgetId) {
        self.budget_mut(budget).ahead.pop_front();
        self.update_givers(budget);
    }

    /// Forgets the blocks to fetch ahead of time.
    pub(crate) fn fetch_none(&mut self, budget: BudgetId) {
        self.budget_mut(budget).ahead.clear();
        self.update_givers(budget);
    }

    #[cfg(feature = "internals")]
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn find(&self, block: &BlockId) -> Option<u32> {
        self.table.find(block)
    }

    pub(crate) fn entry(&self, entry: u32) -> &Entry {
        self.table.get(entry)
    }

    pub(crate) fn slots(&self, chain: SlotChain) -> impl Iterator<Item = u32> + '_ {
        self.pool.slots(chain)
    }

    pub(crate) fn total(&self) -> u32 {
        self.pool.total()
    }

    /// The slots that nobody has, nor has been promised.
    pub(crate) fn free(&self) -> u32 {
        self.pool.free() - self.credited
    }

    pub(crate) fn max_block_slots(&self) -> u32 {
        self.max_block_slots
    }

    pub(crate) fn level(&self) -> MemoryLevel {
        self.level
    }

    /// Whether a budget may take slots for a block.
    pub(crate) fn room(&self, budget: BudgetId, slots: u32) -> Result<(), Shortage> {
        let share = self.share_of(budget);
        if self.mutations.has(Mutation::TransitNotCounted) {
            let cached: u32 = self.budgets.iter().map(|budget| budget.used.cached).sum();
            return if cached + slots > self.total() { Err(Shortage::Node) } else { Ok(()) };
        }
        if share.used.saturating_add(slots) > share.limits.max {
            Err(Shortage::Budget)
        } else if slots > self.free() {
            Err(Shortage::Node)
        } else {
            Ok(())
        }
    }

    /// Whether a budget may take slots that no reader waits for, and leave `reserve` to readers.
    ///
    /// The slots must not raise the memory to a level at which they would be reclaimed at once.
    pub(crate) fn has_room_ahead(&self, budget: BudgetId, slots: u32, reserve: u32) -> bool {
        if self.room(budget, slots).is_err() || self.free() < slots.saturating_add(reserve) {
            return false;
        }
        let share = self.share_of(budget);
        let block = self.max_block_slots;
        let level = self.level.after((self.total() - self.free()).saturating_add(slots), self.total(), block);
        level.max(share.level.after(share.used.saturating_add(slots), share.limits.max, block)) < MemoryLevel::ANY_GOES
    }

    /// Takes slots for an empty block, which is in transit from now on. There has to be room.
    pub(crate) fn take(&mut self, block: BlockId, budget: BudgetId, slots: u32) -> u32 {
        let chain = match self.pool.take(slots) {
            Some(chain) => chain,
            None if self.mutations.has(Mutation::TransitNotCounted) => SlotChain::NONE,
            None => panic!("room for {slots} slots was found, and {} are free", self.free()),
        };
        self.budget_mut(budget).used.in_transit += chain.count();
        self.update_levels(budget);
        self.table.insert(block, chain, budget, State::InTransit)
    }

    /// Promises slots to an upstream. There has to be room.
    pub(crate) fn credit(&mut self, budget: BudgetId, slots: u32) {
        assert!(slots <= self.free(), "only free slots are promised");
        self.credited += slots;
        self.budget_mut(budget).used.credited += slots;
        self.update_levels(budget);
    }

    /// Slots that were promised are free again.
    pub(crate) fn end_credit(&mut self, budget: BudgetId, slots: u32) {
        self.credited -= slots;
        self.budget_mut(budget).used.credited -= slots;
        self.update_levels(budget);
    }

    /// An empty block is cached in slots that were promised for it, pinned by nobody yet.
    pub(crate) fn push(&mut self, block: BlockId, budget: BudgetId, slots: u32) -> u32 {
        self.end_credit(budget, slots);
        let chain = self.pool.take(slots).expect("promised slots are there");
        self.budget_mut(budget).used.cached += slots;
        self.update_levels(budget);
        let entry = self.table.insert(block, chain, budget, State::Cached);
        self.table.get_mut(entry).is_ahead = true;
        entry
    }

    /// A block is, or was, fetched before a reader asked for it.
    pub(crate) fn mark_ahead(&mut self, entry: u32) {
        self.table.get_mut(entry).is_ahead = true;
    }

    /// A reader waits for a block in transit.
    pub(crate) fn mark_used(&mut self, entry: u32) {
        let entry = self.table.get_mut(entry);
        let is_first_use = entry.is_ahead && !entry.is_used;
        (entry.is_used, entry.is_passed) = (true, false);
        self.budgets[entry.budget.seat()].stats.used += u64::from(is_first_use);
    }

    /// A block in transit is cached, pinned by nobody yet, and outside the order of reclamation.
    pub(crate) fn arrive(&mut self, entry: u32) {
        let Entry { budget, chain, state, .. } = *self.table.get(entry);
        assert_eq!(state, State::InTransit, "a block arrives once");
        self.table.get_mut(entry).state = State::Cached;
        let used = &mut self.budget_mut(budget).used;
        used.in_transit -= chain.count();
        used.cached += chain.count();
    }

    /// A block in transit is empty again.
    pub(crate) fn give_up(&mut self, entry: u32) {
        assert_eq!(self.table.get(entry).state, State::InTransit, "only a block in transit is given up");
        if self.mutations.has(Mutation::FailureLeaks) {
            self.table.get_mut(entry).chain = SlotChain::NONE;
        }
        self.remove(entry);
    }

    /// A cached block, which nobody has pinned, is empty again.
    pub(crate) fn reclaim(&mut self, entry: u32) {
        self.lift(entry);
        let BlockId { dataset, index, .. } = self.table.get(entry).block;
        for (_, follower) in self.followers.iter().filter(|(of, _)| *of == dataset) {
            let losses = &mut self.budgets[follower.seat()].losses;
            losses.as_mut().expect("a budget that follows losses has a record").add(index);
        }
        self.remove(entry);
    }

    /// The dataset has a new generation: cached blocks of it that nobody pins are all to go.
    /// Returns its budgets.
    pub(crate) fn retire(&mut self, dataset: DatasetId) -> Vec<BudgetId> {
        let seed = self.seed;
        let of_dataset = self.budgets.iter_mut().filter(|budget| budget.dataset == dataset);
        let retired = of_dataset.map(|budget| {
            budget.retire(seed);
            budget.id
        });
        let retired: Vec<BudgetId> = retired.collect();
        retired.iter().for_each(|budget| self.update_givers(*budget));
        retired
    }

    /// Empties a block of a past generation, or of a budget that has ended. Returns `false` if
    /// there is none that nobody pins.
    pub(crate) fn reclaim_stale(&mut self) -> bool {
        let leaving: Vec<usize> = self.givers.leaving().collect();
        leaving.into_iter().any(|seat| self.reclaim_leaving(seat))
    }

    fn reclaim_leaving(&mut self, seat: usize) -> bool {
        let Self { budgets, table, .. } = self;
        let budget = &mut budgets[seat];
        if budget.is_ended
            && let Some(victim) = budget.order.victim()
        {
            self.reclaim(victim);
            return true;
        }
        while let Some(order) = budget.stale.last_mut() {
            if let Some(victim) = order.victim() {
                order.remove(table, victim);
                self.remove(victim);
                return true;
            }
            budget.stale.pop();
        }
        let budget = budget.id;
        self.update_givers(budget);
        false
    }

    /// A cached block of a past generation, which nobody pins and which has no place, is empty
    /// again.
    pub(crate) fn discard(&mut self, entry: u32) {
        assert_eq!(self.table.get(entry).place, Place::Outside, "a block in its place is reclaimed");
        self.remove(entry);
    }

    /// The use of the memory.
    pub(crate) fn usage(&self) -> MemoryUse {
        let sum = |slots: fn(&Used) -> u32| self.budgets.iter().map(|budget| slots(&budget.used)).sum();
        MemoryUse {
            slots: self.total(),
            free: self.free(),
            in_transit: sum(|used| used.in_transit),
            cached: sum(|used| used.cached),
            credited: sum(|used| used.credited),
        }
    }

    /// Keeps a cached block from being reclaimed while a reader copies it.
    pub(crate) fn pin(&mut self, entry: u32) {
        self.lift(entry);
        self.table.get_mut(entry).pins += 1;
        self.mark_used(entry);
    }

    /// A reader has copied. Returns whether nobody pins the block any more, which has then to be
    /// [settled](Self::settle).
    pub(crate) fn unpin(&mut self, entry: u32) -> bool {
        let entry = self.table.get_mut(entry);
        entry.pins = entry.pins.checked_sub(1).expect("a pin is taken before it is released");
        entry.pins == 0
    }

    /// Gives a cached block that nobody pins its place in the order of reclamation.
    pub(crate) fn settle(&mut self, entry: u32, touch: Touch) {
        let budget = self.table.get(entry).budget;
        let order = &mut self.budgets[budget.seat()].order;
        order.insert(&mut self.table, entry, touch);
        self.update_givers(budget);
    }

    /// Readers have used a block, and none is expected to use it again.
    pub(crate) fn pass(&mut self, entry: u32) {
        let found = self.table.get_mut(entry);
        if found.is_used {
            found.is_passed = true;
            let budget = found.budget;
            self.budgets[budget.seat()].order.pass(&mut self.table, entry);
            self.update_givers(budget);
        }
    }

    /// Expects no use any more that a budget has expected so far.
    pub(crate) fn forget_expected(&mut self, budget: BudgetId) {
        let Budget { order, future, .. } = self.budget_mut(budget);
        order.forget_expected(future.forget());
        self.update_givers(budget);
    }

    /// A budget's reader uses a block, so that its first expected use is past. Blocks whose use was
    /// left out are the first to go, unless another one is expected.
    pub(crate) fn end_expectation(&mut self, budget: BudgetId, block: BlockId) {
        for index in self.budget_mut(budget).future.used(block.index) {
            let Some(entry) = self.table.find(&BlockId { index, ..block }) else { continue };
            let Budget { order, future, .. } = &mut self.budgets[budget.seat()];
            if self.table.get(entry).budget == budget {
                order.leave_out(&mut self.table, entry, future.next_use(index));
                self.update_givers(budget);
            }
        }
    }

    /// A block's next use has become known to its budget.
    pub(crate) fn update_expectation(&mut self, entry: u32, budget: BudgetId) {
        let Entry { budget: owner, block, place, .. } = *self.table.get(entry);
        let Budget { order, future, .. } = &mut self.budgets[budget.seat()];
        if owner == budget
            && place != Place::Outside
            && let Some(position) = future.next_use(block.index)
        {
            order.expect(&mut self.table, entry, position);
            self.update_givers(budget);
        }
    }

    /// The block that goes first when any share may give, or, for the sake of a budget, any other
    /// one and its own: of the share that has the most beyond its part.
    pub(crate) fn victim(&self, beneficiary: Option<BudgetId>) -> Option<u32> {
        let own = beneficiary.map(|budget| self.budget(budget).share);
        let offer = |(number, share): (usize, &'_ Share)| {
            let victim = self.victim_of(share)?;
            let slots = self.table.get(victim).chain.count();
            let gives = own == Some(number) || share.can_give(slots) || self.mutations.has(Mutation::MinNotKept);
            gives.then_some((number, victim))
        };
        let more = |best: (usize, u32), next: (usize, u32)| {
            if self.shares[next.0].exceeds(&self.shares[best.0]) { next } else { best }
        };
        self.shares.iter().enumerate().filter_map(offer).reduce(more).map(|(_, victim)| victim)
    }

    /// The block of a share that goes first: one that nobody is expected to use again, or else one
    /// of the budget that has a partition which was idle for longest, or of the largest of these.
    pub(crate) fn victim_of(&self, share: &Share) -> Option<u32> {
        let budgets = || share.seats.iter().map(|seat| &self.budgets[*seat]);
        let offer = |budget: &Budget| {
            let access = budget.order.oldest_access().unwrap_or(u32::MAX);
            Some((access, Reverse(budget.used.total()), budget.order.victim()?))
        };
        let passed = budgets().find_map(|budget| budget.order.passed_victim());
        passed.or_else(|| budgets().filter_map(offer).min().map(|(.., victim)| victim))
    }

    /// Whether slots of a block may be taken for the sake of a budget that has too few.
    pub(crate) fn may_take(&self, beneficiary: BudgetId, shortage: Shortage, entry: u32) -> bool {
        let Entry { budget, chain, .. } = *self.table.get(entry);
        let is_its_own = self.budget(budget).share == self.budget(beneficiary).share;
        is_its_own || shortage == Shortage::Node && self.share_of(budget).can_give(chain.count())
    }

    fn lift(&mut self, entry: u32) {
        let Entry { budget, place, state, .. } = *self.table.get(entry);
        assert_eq!(state, State::Cached, "only a cached block is pinned or reclaimed");
        if place != Place::Outside {
            self.budgets[budget.seat()].order.remove(&mut self.table, entry);
            self.update_givers(budget);
        }
    }

    fn remove(&mut self, entry: u32) {
        let Entry { budget, state, pins, is_ahead, is_used, .. } = *self.table.get(entry);
        assert_eq!(pins, 0, "a block that a reader copies stays");
        let chain = self.table.remove(entry);
        let Budget { used, stats, .. } = self.budget_mut(budget);
        match state {
            State::InTransit => used.in_transit -= chain.count(),
            State::Cached => {
                used.cached -= chain.count();
                stats.reclaimed += 1;
            }
        }
        stats.unused += u64::from(is_ahead && !is_used);
        if self.budget(budget).is_over() {
            let seed = self.seed;
            self.budget_mut(budget).forget_order(seed);
        }
        self.pool.give_back(chain);
        self.update_levels(budget);
    }

    fn update_levels(&mut self, budget: BudgetId) {
        let total = self.total();
        let block = self.max_block_slots;
        self.level = self.level.after(total - self.free(), total, block);
        let share = self.budget(budget).share;
        let used = self.shares[share].seats.iter().map(|seat| self.budgets[*seat].used.total()).sum();
        let changed = &mut self.shares[share];
        changed.used = used;
        let level = changed.level.after(used, changed.limits.max, block);
        if std::mem::replace(&mut changed.level, level) != level {
            for seat in &self.shares[share].seats {
                self.givers.update(*seat, &self.budgets[*seat], level);
            }
        }
        self.update_givers(budget);
    }

    /// Has the sets of budgets follow a change of one.
    fn update_givers(&mut self, budget: BudgetId) {
        let found = &self.budgets[budget.seat()];
        self.givers.update(budget.seat(), found, self.shares[found.share].level);
    }
}
