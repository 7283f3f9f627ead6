//! The requests of readers on their way through the memory, and the collector that makes room for
//! them.

use crate::{
    action::{Action, Purpose},
    block::{BlockId, BudgetId, DatasetId, RequestId},
    collector::{self, Collector, Demand},
    error::{Fault, Refusal},
    memory::Shortage,
    mutation::{Mutation, Mutations},
    request::{Blocks, Request, Requests},
    store::Store,
    table::{Entry, State},
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Who asks for which blocks, and who gets slots next.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    requests: Requests,
    collector: Collector,
    /// Whether a hungry request may have become able to go on.
    may_feed: bool,
    window_slots: u32,
    mutations: Mutations,
}

impl Access {
    pub(crate) fn new(window_slots: u32, seed: u64, mutations: Mutations) -> Self {
        let (requests, collector) = (Requests::new(seed), Collector::new(mutations));
        Self { requests, collector, may_feed: false, window_slots, mutations }
    }

    #[cfg(feature = "internals")]
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    #[cfg(feature = "internals")]
    pub(crate) fn collector(&self) -> &Collector {
        &self.collector
    }

    #[cfg(feature = "internals")]
    pub(crate) fn may_feed(&self) -> bool {
        self.may_feed
    }

    /// Whether a request lacks slots.
    pub(crate) fn has_hungry(&self) -> bool {
        self.requests.has_hungry()
    }

    /// Whether any request is open.
    pub(crate) fn is_reading(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Whether a request lacks slots that no reclamation can give it.
    pub(crate) fn is_starving(&self) -> bool {
        self.collector.is_starving()
    }

    /// Something has changed that a hungry request or the collector may make use of.
    pub(crate) fn wake(&mut self) {
        self.may_feed = true;
        self.collector.wake();
    }

    /// The memory has become fuller.
    pub(crate) fn wake_collector(&mut self) {
        self.collector.wake();
    }

    pub(crate) fn add(&mut self, store: &Store, budget: BudgetId, blocks: Blocks) -> RequestId {
        self.requests.add(Request::new(budget, store.dataset_and_generation(budget), blocks))
    }

    /// Removes a request. Returns whether it was there.
    pub(crate) fn cancel(&mut self, request: RequestId) -> bool {
        self.may_feed |= self.collector.forget(request);
        self.requests.remove(request).is_some()
    }

    /// Refuses every request for blocks of a dataset.
    pub(crate) fn refuse_dataset(&mut self, dataset: DatasetId, fault: Fault, actions: &mut VecDeque<Action>) {
        self.refuse(|request| request.dataset == dataset, fault, actions);
    }

    /// Refuses every request of a budget.
    pub(crate) fn refuse_budget(&mut self, budget: BudgetId, fault: Fault, actions: &mut VecDeque<Action>) {
        self.refuse(|request| request.budget == budget, fault, actions);
    }

    fn refuse(&mut self, which: impl Fn(&Request) -> bool, fault: Fault, actions: &mut VecDeque<Action>) {
        for request in self.requests.matching(which) {
            self.cancel(request);
            actions.push_back(Action::Refuse { request, refusal: Refusal { block: None, fault } });
        }
    }

    /// A block that was in transit is cached: everyone who waits for it copies it.
    pub(crate) fn arrived(&mut self, store: &mut Store, entry: u32, now: Instant, actions: &mut VecDeque<Action>) {
        store.memory.arrive(entry);
        let block = store.memory.entry(entry).block;
        let waiters = self.requests.take_waiters(entry);
        if self.mutations.has(Mutation::CollectorTakesWanted) {
            let slots = store.memory.entry(entry).chain.count();
            for id in waiters {
                let request = self.requests.get_mut(id).expect("a request that waits exists");
                request.close(slots);
                request.stalled = Some(block.index);
                self.requests.make_ready(id);
            }
            store.settle(entry, now);
        } else if waiters.is_empty() {
            store.settle(entry, now);
        } else {
            waiters.into_iter().for_each(|id| self.grant(store, entry, block, id, actions));
        }
    }

    /// A block in transit cannot be had: everyone who waits for it is refused.
    pub(crate) fn failed(&mut self, store: &mut Store, entry: u32, fault: Fault, actions: &mut VecDeque<Action>) {
        let waiters = self.requests.take_waiters(entry);
        let Entry { block, budget, .. } = *store.memory.entry(entry);
        store.memory.give_up(entry);
        store.count(budget).failed += 1;
        for request in waiters {
            // One that has asked for the block twice is refused once.
            if self.cancel(request) {
                actions.push_back(Action::Refuse { request, refusal: Refusal { block: Some(block), fault } });
            }
        }
    }

    /// A reader has copied a block of so many slots.
    pub(crate) fn copied(&mut self, request: RequestId, slots: u32) {
        if let Some(open) = self.requests.get_mut(request) {
            open.close(slots);
            self.requests.make_ready(request);
        }
    }

    /// One step of one request: a block that it copies, waits for, or lacks the slots of. Returns
    /// whether there was any.
    pub(crate) fn step(&mut self, store: &mut Store, actions: &mut VecDeque<Action>) -> bool {
        // Younger requests, of which there may always be one more, do not keep the hungry waiting.
        let is_hungry_first = !(self.mutations.has(Mutation::HungryLast) && self.requests.has_ready());
        if is_hungry_first && self.feed(store, actions) {
            return true;
        }
        let Some(id) = self.requests.pop_ready() else { return false };
        self.go_on(store, id, actions);
        true
    }

    /// A part of a pass of the collector. Returns whether it has done anything for a request.
    pub(crate) fn collect(&mut self, store: &mut Store, now: Instant) -> bool {
        if !self.collector.is_due() && self.timeout(store).is_some_and(|timeout| timeout <= now) {
            self.collector.wake();
        }
        let mut reclaimed = 0;
        while reclaimed < PASS && self.collector.is_due() {
            if store.memory.reclaim_stale() {
                reclaimed += 1;
                continue;
            }
            let Some(victim) = self.next_victim(store, now) else { break };
            store.memory.reclaim(victim);
            reclaimed += 1;
        }
        let has_relieved = self.collector.take_relief();
        let has_helped = reclaimed > 0 || has_relieved;
        self.may_feed |= has_helped;
        has_helped
    }

    /// Whether the collector has more to do.
    pub(crate) fn is_collector_due(&self) -> bool {
        self.collector.is_due()
    }

    /// When the collector has something to do: at once, or once a partition has been idle for so
    /// long that it goes.
    pub(crate) fn timeout(&self, store: &Store) -> Option<Instant> {
        if self.collector.is_due() {
            return Some(store.start());
        }
        let oldest = collector::oldest_access(&store.memory)?;
        Some(store.after(oldest) + IDLE)
    }

    fn next_victim(&mut self, store: &Store, now: Instant) -> Option<u32> {
        let idle_limit = store.seconds(now).saturating_sub(IDLE.as_secs() as u32);
        let Self { requests, collector, .. } = self;
        let demands = requests.oldest_hungry().filter_map(|(request, budget, _)| {
            let block = requests.get(request).expect("a hungry request exists").lacking();
            let is_empty = store.memory.find(&block).is_none();
            let shortage = is_empty.then(|| store.memory.room(budget, store.slots_of(&block)).err()).flatten()?;
            Some(Demand { request, budget, shortage })
        });
        collector.next_victim(&store.memory, demands, idle_limit)
    }

    fn go_on(&mut self, store: &mut Store, id: RequestId, actions: &mut VecDeque<Action>) {
        let request = self.requests.get_mut(id).expect("a request that can go on exists");
        let Some(index) = request.next() else {
            if request.open_blocks == 0 {
                self.requests.remove(id);
                actions.push_back(Action::Done { request: id });
            }
            return;
        };
        let (block, budget, open_slots) = (request.block(index), request.budget, request.open_slots);
        // One block at a time passes any window.
        if open_slots > 0 && store.slots_of(&block) > self.window_slots.saturating_sub(open_slots) {
            request.stalled = Some(index);
            return;
        }
        let is_behind = self.requests.is_behind(id, budget);
        match self.try_block(store, id, budget, block, is_behind, actions) {
            Ok(()) => self.requests.make_ready(id),
            Err(shortage) => {
                self.requests.get_mut(id).expect("it was there").stalled = Some(index);
                self.requests.make_hungry(id, budget, shortage);
                self.collector.wake();
            }
        }
    }

    /// Lets the oldest hungry request go on that can. Returns whether one can.
    fn feed(&mut self, store: &mut Store, actions: &mut VecDeque<Action>) -> bool {
        if !self.may_feed {
            return false;
        }
        let mut hungry: Vec<_> = if self.mutations.has(Mutation::NewestFirst) {
            self.requests.youngest_hungry().collect()
        } else {
            self.requests.oldest_hungry().collect()
        };
        hungry.sort_unstable();
        let mut is_behind = false;
        for (id, budget, _) in hungry {
            let block = self.requests.get(id).expect("a hungry request exists").lacking();
            match self.try_block(store, id, budget, block, is_behind, actions) {
                Ok(()) => {
                    self.requests.feed(id, budget);
                    self.collector.forget(id);
                    self.requests.get_mut(id).expect("it was there").stalled = None;
                    self.requests.make_ready(id);
                    self.collector.wake();
                    return true;
                }
                Err(shortage) => {
                    is_behind |= shortage == Shortage::Node;
                    self.requests.make_hungry(id, budget, shortage);
                }
            }
        }
        self.may_feed = false;
        false
    }

    /// Copies a block, waits for it, or asks for it.
    fn try_block(
        &mut self,
        store: &mut Store,
        id: RequestId,
        budget: BudgetId,
        block: BlockId,
        is_behind: bool,
        actions: &mut VecDeque<Action>,
    ) -> Result<(), Shortage> {
        if let Some(entry) = store.memory.find(&block) {
            return self.try_held(store, id, budget, entry, actions);
        }
        let slots = store.slots_of(&block);
        store.memory.room(budget, slots)?;
        if is_behind {
            return Err(Shortage::Node);
        }
        let entry = store.memory.take(block, budget, slots);
        store.count(budget).misses += 1;
        self.open(id, slots);
        self.requests.wait(entry, id);
        actions.push_back(Action::Fetch { block, purpose: Purpose::Demand });
        self.collector.wake();
        Ok(())
    }

    fn try_held(
        &mut self,
        store: &mut Store,
        id: RequestId,
        budget: BudgetId,
        entry: u32,
        actions: &mut VecDeque<Action>,
    ) -> Result<(), Shortage> {
        let Entry { block, state, is_ahead, is_used, chain, .. } = *store.memory.entry(entry);
        let is_first_use = is_ahead && !is_used;
        if state == State::InTransit {
            if is_first_use {
                actions.push_back(Action::Raise { block });
            }
            let count = store.count(budget);
            *(if is_first_use { &mut count.late_ahead } else { &mut count.joined }) += 1;
            store.memory.mark_used(entry);
            self.open(id, chain.count());
            self.requests.wait(entry, id);
        } else {
            if self.collector.withholds(&store.memory, entry, id) {
                return Err(Shortage::Budget);
            }
            let count = store.count(budget);
            *(if is_first_use { &mut count.ahead_hits } else { &mut count.hits }) += 1;
            self.open(id, chain.count());
            self.grant(store, entry, block, id, actions);
        }
        Ok(())
    }

    fn open(&mut self, id: RequestId, slots: u32) {
        self.requests.get_mut(id).expect("a request that goes on exists").open(slots);
    }

    /// Pins a cached block for a request that has opened it, and has it copied.
    fn grant(&mut self, store: &mut Store, entry: u32, block: BlockId, id: RequestId, actions: &mut VecDeque<Action>) {
        store.memory.pin(entry);
        let request = self.requests.get_mut(id).expect("a request that is granted a block exists");
        store.memory.end_expectation(request.budget, block);
        if self.mutations.has(Mutation::CopyWhenAll) {
            request.held.push(block);
            if request.is_exhausted() && request.held.len() == request.open_blocks as usize {
                let held = std::mem::take(&mut request.held);
                actions.extend(held.into_iter().map(|block| Action::Copy { request: id, block }));
            }
            return;
        }
        actions.push_back(Action::Copy { request: id, block });
    }
}

/// A partition that was not accessed for this long is idle.
const IDLE: Duration = Duration::from_secs(60);
/// The blocks that one part of a collector's pass reclaims at most.
const PASS: u32 = 256;
