//! Work ahead of readers: blocks that are fetched, or sent to nodes downstream, before anyone asks,
//! and slots that are promised to upstreams.

use crate::{
    action::{Action, Purpose},
    block::{BlockId, BudgetId, DownstreamId, UpstreamId},
    credit::Credits,
    downstream::{Downstreams, Outlet, UnusedCredit},
    mutation::{Mutation, Mutations},
    store::Store,
    table::State,
};
#[cfg(feature = "internals")]
use rails_array::BlockIndex;
use std::{collections::VecDeque, time::Instant};

/// What may be done while no reader lacks slots.
#[derive(Debug, Clone)]
pub(crate) struct Ahead {
    credits: Credits,
    downstreams: Downstreams,
    /// Whether there may be a block to fetch or to send, and room for it.
    is_due: bool,
    pushed_amiss: u64,
    window_slots: u32,
    mutations: Mutations,
}

/// What readers leave to the work ahead of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Readers {
    /// Whether one lacks slots.
    pub(crate) are_hungry: bool,
    /// Whether one reads.
    pub(crate) are_there: bool,
}

/// The fate of a block that an upstream has pushed.
pub(crate) enum Push {
    /// The block was on its way: this is its entry.
    Awaited(u32),
    /// The block is cached now.
    New,
    /// The block is not taken; its credit is free again.
    Useless,
    /// The block is not taken, and had no credit.
    Amiss,
}

impl Ahead {
    pub(crate) fn new(window_slots: u32, seed: u64, mutations: Mutations) -> Self {
        Self {
            credits: Credits::default(),
            downstreams: Downstreams::new(seed),
            is_due: false,
            pushed_amiss: 0,
            window_slots,
            mutations,
        }
    }

    #[cfg(feature = "internals")]
    pub(crate) fn credits(&self) -> &Credits {
        &self.credits
    }

    #[cfg(feature = "internals")]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    pub(crate) fn pushed_amiss(&self) -> u64 {
        self.pushed_amiss
    }

    /// Something has changed that the work ahead may make use of.
    pub(crate) fn wake(&mut self) {
        self.is_due = true;
    }

    /// A block cannot be had, and is not tried again for nodes that have not asked for it.
    pub(crate) fn forget_block(&mut self, store: &Store, block: &BlockId) {
        let is_of = |budget| store.dataset_of(budget).is_ok_and(|dataset| dataset == block.dataset);
        self.downstreams.forget_block(block.index, is_of);
    }

    /// The way of a budget's blocks to a node downstream.
    pub(crate) fn outlet(&mut self, downstream: DownstreamId, budget: BudgetId) -> &mut Outlet {
        self.downstreams.outlet(downstream, budget)
    }

    /// The same, if anything was said of it.
    pub(crate) fn known_outlet(&mut self, downstream: DownstreamId, budget: BudgetId) -> Option<&mut Outlet> {
        self.downstreams.known(downstream, budget)
    }

    #[cfg(feature = "internals")]
    pub(crate) fn is_held_by(&self, downstream: DownstreamId, budget: BudgetId, index: BlockIndex) -> bool {
        self.downstreams.get(downstream, budget).is_some_and(|outlet| outlet.holds(index))
    }

    pub(crate) fn lose_downstream(&mut self, downstream: DownstreamId) {
        self.downstreams.remove(downstream);
    }

    /// The blocks of a budget have changed.
    pub(crate) fn forget_blocks(&mut self, budget: BudgetId) {
        self.downstreams.forget_blocks(budget);
    }

    /// Promises slots to an upstream, at most so many. Returns how many.
    pub(crate) fn grant(
        &mut self,
        store: &mut Store,
        upstream: UpstreamId,
        budget: BudgetId,
        slots: u32,
        readers: Readers,
    ) -> u32 {
        if !store.memory.has_budget(budget) || readers.are_hungry || self.credits.is_recalled(upstream, budget) {
            return 0;
        }
        let reserve = self.reserve(store, readers);
        // There is room for `granted`, and `excess` are too many, or more than are asked for.
        let (mut granted, mut excess) = (0, slots.min(store.memory.free()) + 1);
        while excess - granted > 1 {
            let middle = granted.midpoint(excess);
            let has_room = store.memory.has_room_ahead(budget, middle, reserve);
            *(if has_room { &mut granted } else { &mut excess }) = middle;
        }
        if granted > 0 {
            store.memory.credit(budget, granted);
            self.credits.add(upstream, budget, granted);
        }
        granted
    }

    /// Takes a block that an upstream has pushed, if credit covers it.
    pub(crate) fn push(
        &mut self,
        store: &mut Store,
        upstream: UpstreamId,
        budget: BudgetId,
        block: BlockId,
        now: Instant,
    ) -> Push {
        let slots = store.checked_slots(budget, &block);
        let is_covered = |slots: &u32| {
            self.credits.of(upstream, budget) >= *slots || self.mutations.has(Mutation::PushWithoutCredit)
        };
        let Some(slots) = slots.filter(is_covered) else {
            self.pushed_amiss += 1;
            return Push::Amiss;
        };
        let covered = self.credits.end(upstream, budget, slots);
        if !store.is_current(&block) {
            store.memory.end_credit(budget, covered);
            self.pushed_amiss += 1;
            return Push::Useless;
        }
        if store.memory.find(&block).is_some() {
            store.memory.end_credit(budget, covered);
            if let Some(entry) = store.in_transit(&block) {
                store.count(budget).pushed += 1;
                return Push::Awaited(entry);
            }
            store.count(budget).pushed_twice += 1;
            return Push::Useless;
        }
        if covered < slots {
            // Only the mutation gets here.
            if store.memory.free() < slots - covered {
                return Push::Amiss;
            }
            store.memory.credit(budget, slots - covered);
        }
        if !store.memory.has_budget(budget) {
            store.memory.end_credit(budget, slots);
            return Push::Useless;
        }
        store.count(budget).pushed += 1;
        let entry = store.memory.push(block, budget, slots);
        store.settle(entry, now);
        Push::New
    }

    /// An upstream returns credit, and has answered the last recall.
    pub(crate) fn return_credit(&mut self, store: &mut Store, upstream: UpstreamId, budget: BudgetId, slots: u32) {
        let ended = self.credits.end(upstream, budget, slots);
        self.credits.end_recall(upstream, budget);
        if ended > 0 {
            store.memory.end_credit(budget, ended);
        }
    }

    pub(crate) fn lose_upstream(&mut self, store: &mut Store, upstream: UpstreamId) {
        for budget in self.credits.budgets_of(upstream) {
            self.return_credit(store, upstream, budget, u32::MAX);
        }
    }

    /// Asks for all credit that was not asked for yet.
    pub(crate) fn recall(&mut self, actions: &mut VecDeque<Action>) {
        if !self.mutations.has(Mutation::CreditNotRecalled) {
            let recalled = self.credits.recall(|_| true).into_iter();
            actions.extend(recalled.map(|(upstream, budget)| Action::Recall { upstream, budget }));
        }
    }

    /// A budget has ended: its credit is asked for, and that of nodes downstream is given up.
    pub(crate) fn end_budget(&mut self, budget: BudgetId, actions: &mut VecDeque<Action>) -> Vec<UnusedCredit> {
        let recalled = self.credits.recall(|of| of == budget).into_iter();
        actions.extend(recalled.map(|(upstream, budget)| Action::Recall { upstream, budget }));
        self.downstreams.end_budget(budget)
    }

    /// Fetches or sends one block ahead of time. Returns whether there was any, and room.
    pub(crate) fn step(&mut self, store: &mut Store, readers: Readers, actions: &mut VecDeque<Action>) -> bool {
        if !self.is_due {
            return false;
        }
        let reserve = self.reserve(store, readers);
        self.is_due =
            !readers.are_hungry && (self.present(store, reserve, actions) || fetch_any(store, reserve, actions));
        self.is_due
    }

    /// Presents one block to a node downstream, or fetches one to be presented.
    fn present(&mut self, store: &mut Store, reserve: u32, actions: &mut VecDeque<Action>) -> bool {
        let busy: Vec<_> = self.downstreams.busy().collect();
        busy.into_iter().any(|(downstream, budget)| self.present_to(store, downstream, budget, reserve, actions))
    }

    fn present_to(
        &mut self,
        store: &mut Store,
        downstream: DownstreamId,
        budget: BudgetId,
        reserve: u32,
        actions: &mut VecDeque<Action>,
    ) -> bool {
        let outlet = self.downstreams.outlet(downstream, budget);
        // A peer that takes nothing from its link holds one window of this memory at most, however much
        // credit it gave.
        let mut credit = outlet.credit().min(self.window_slots.saturating_sub(outlet.presenting()));
        for index in outlet.next_blocks() {
            let block = store.block(budget, index);
            let slots = store.slots_of(&block);
            // Blocks that wait for their fetch have the credit before those behind them.
            let Some(left) = credit.checked_sub(slots) else { return false };
            credit = left;
            match store.memory.find(&block) {
                Some(entry) if store.memory.entry(entry).state == State::Cached => {
                    store.memory.pin(entry);
                    store.count(budget).presented += 1;
                    outlet.push(index, slots);
                    actions.push_back(Action::Present { downstream, budget, block });
                    return true;
                }
                Some(_) => {}
                None => return take(store, budget, block, slots, reserve, actions),
            }
        }
        false
    }

    /// The slots that are left to readers: a twentieth of all, and while one reads a window, but at
    /// most a quarter.
    fn reserve(&self, store: &Store, readers: Readers) -> u32 {
        let total = store.memory.total();
        let window = if readers.are_there { self.window_slots } else { 0 };
        window.max(total / 20).min(total / 4)
    }
}

/// Fetches the next block of any budget that is to be fetched ahead of time.
fn fetch_any(store: &mut Store, reserve: u32, actions: &mut VecDeque<Action>) -> bool {
    let waiting: Vec<BudgetId> = store.memory.waiting().map(|budget| budget.id).collect();
    waiting.into_iter().any(|budget| fetch(store, budget, reserve, actions))
}

/// Fetches the next block of a budget that is to be fetched ahead of time.
fn fetch(store: &mut Store, budget: BudgetId, reserve: u32, actions: &mut VecDeque<Action>) -> bool {
    while let Some(index) = store.memory.budget(budget).ahead.front().copied() {
        let block = store.block(budget, index);
        let is_there = store.memory.find(&block).is_some();
        if !is_there && !take(store, budget, block, store.slots_of(&block), reserve, actions) {
            return false;
        }
        store.memory.pop_ahead(budget);
        if !is_there {
            return true;
        }
    }
    false
}

/// Asks for a block, if there is room.
fn take(
    store: &mut Store,
    budget: BudgetId,
    block: BlockId,
    slots: u32,
    reserve: u32,
    actions: &mut VecDeque<Action>,
) -> bool {
    let has_room = store.memory.has_room_ahead(budget, slots, reserve);
    if has_room {
        let entry = store.memory.take(block, budget, slots);
        store.memory.mark_ahead(entry);
        store.count(budget).ahead_fetched += 1;
        actions.push_back(Action::Fetch { block, purpose: Purpose::Ahead });
    }
    has_room
}
