//! A node: what happens, and what has to be done about it.

use crate::{
    action::{Action, Purpose},
    block::{BlockId, BudgetId, Dataset, DatasetId, Generation, RequestId, UpstreamId},
    budget::Limits,
    collector::{self, Collector, Demand},
    credit::Credits,
    error::{DeclareError, Fault, ReadError, Refusal},
    level::MemoryLevel,
    memory::{Memory, Shortage},
    mutation::{Mutation, Mutations},
    order::{Policy, Touch},
    request::{Blocks, Request, Requests},
    stats::{MemoryUse, NodeStats},
    table::{Entry, State},
};
use rails_array::Layout;
use smallvec::SmallVec;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

/// The settings of a node.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// The node's memory, in slots.
    pub slots: u32,
    /// The length of a slot in bytes.
    pub slot_bytes: u32,
    /// The slots that one block takes at most.
    pub max_block_slots: u32,
    /// The slots that one request takes at a time at most, unless one block takes more. A request
    /// for more slides over its blocks.
    pub window_slots: u32,
    /// Any number that peers do not know. Hash tables depend on it, decisions do not.
    pub seed: u64,
}

/// A node of the cache: which block has slots, who waits for which, which goes.
///
/// A driver tells what happens ([`read`](Self::read), [`arrived`](Self::arrived), ...), and
/// **afterwards calls [`poll`](Self::poll) until it returns `None`**, doing what each action says.
/// It calls `poll` again at [`poll_timeout`](Self::poll_timeout).
///
/// # Guarantees
///
/// - Blocks in transit and blocks cached never hold more slots than the node has, nor more than
///   their budget's limit. Slots are taken before a block is asked for.
/// - A request that is not cancelled is served or refused with a reason, as long as the driver
///   answers every [`Action::Fetch`], [`Action::Copy`] and [`Action::Recall`], and upstreams push
///   into the credit that they do not return, or are [lost](Self::lose_upstream). Of those that
///   lack slots, older requests get them first.
/// - A budget at its `min` loses no slot to another one.
/// - The collector does nothing unless something has changed since its last pass.
#[derive(Debug, Clone)]
pub struct Node {
    config: NodeConfig,
    start: Instant,
    datasets: BTreeMap<DatasetId, Dataset>,
    memory: Memory,
    requests: Requests,
    collector: Collector,
    credits: Credits,
    /// Whether a hungry request may have become able to go on.
    may_feed: bool,
    /// Whether there may be a block to fetch ahead of time, and room for it.
    may_speculate: bool,
    stats: NodeStats,
    actions: VecDeque<Action>,
    mutations: Mutations,
}

impl Node {
    /// A node without datasets, whose clock begins at `now`.
    ///
    /// # Panics
    ///
    /// Panics if a number of the settings but the seed is zero, if the largest block is larger than
    /// the memory, or if there are 2^32 - 1 slots.
    pub fn new(config: NodeConfig, now: Instant) -> Self {
        Self::with_mutations(config, now, Mutations::default())
    }

    pub(crate) fn with_mutations(config: NodeConfig, now: Instant, mutations: Mutations) -> Self {
        assert!(config.slot_bytes > 0 && config.max_block_slots > 0, "slots and blocks have a length");
        assert!(config.window_slots > 0, "a window has slots");
        assert!(config.max_block_slots <= config.slots, "the largest block fits the memory");
        let seed = config.seed;
        Self {
            start: now,
            datasets: BTreeMap::new(),
            memory: Memory::new(config.slots, config.max_block_slots, seed, mutations),
            requests: Requests::new(seed),
            collector: Collector::new(mutations),
            credits: Credits::default(),
            may_feed: false,
            may_speculate: false,
            stats: NodeStats::default(),
            actions: VecDeque::new(),
            mutations,
            config,
        }
    }

    /// Adds a dataset, whose elements have this many bytes in memory.
    ///
    /// # Errors
    ///
    /// [`DeclareError::DatasetExists`].
    pub fn declare_dataset(
        &mut self,
        dataset: DatasetId,
        layout: Arc<dyn Layout>,
        element_bytes: u32,
        generation: Generation,
    ) -> Result<(), DeclareError> {
        if self.datasets.contains_key(&dataset) {
            return Err(DeclareError::DatasetExists(dataset));
        }
        let declared = Dataset::new(layout, generation, element_bytes, self.config.slot_bytes);
        let (slots, max) = (declared.max_slots(), self.config.max_block_slots);
        if slots > u64::from(max) {
            return Err(DeclareError::BlockTooLarge { dataset, slots, max });
        }
        self.datasets.insert(dataset, declared);
        Ok(())
    }

    /// Adds the memory of one application for one dataset.
    ///
    /// # Errors
    ///
    /// [`DeclareError::UnknownDataset`], and the variants about limits: a node refuses guarantees
    /// that it cannot keep, and a budget in which no block fits.
    pub fn declare_budget(
        &mut self,
        dataset: DatasetId,
        limits: Limits,
        policy: Policy,
    ) -> Result<BudgetId, DeclareError> {
        if !self.datasets.contains_key(&dataset) {
            return Err(DeclareError::UnknownDataset(dataset));
        }
        self.memory.declare(dataset, limits, policy)
    }

    /// The dataset's source has changed: blocks of the past generation are given to nobody any
    /// more, and requests that began with it are refused with [`Fault::Changed`]. Copies that have
    /// begun may end.
    ///
    /// # Errors
    ///
    /// [`DeclareError::UnknownDataset`], or [`DeclareError::PastGeneration`] for a generation that
    /// is not later than the current one.
    pub fn replace(&mut self, dataset: DatasetId, generation: Generation) -> Result<(), DeclareError> {
        let declared = self.datasets.get_mut(&dataset).ok_or(DeclareError::UnknownDataset(dataset))?;
        if generation <= declared.generation {
            return Err(DeclareError::PastGeneration { dataset, generation, current: declared.generation });
        }
        declared.generation = generation;
        self.memory.retire(dataset);
        for request in self.requests.of_dataset(dataset) {
            self.requests.remove(request);
            let refusal = Refusal { block: None, fault: Fault::Changed };
            self.actions.push_back(Action::Refuse { request, refusal });
        }
        self.changed();
        Ok(())
    }

    /// A reader asks for blocks of the budget's dataset. They are asked for in this order, and each
    /// is copied as soon as it is there, as often as it is named.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn read(&mut self, budget: BudgetId, blocks: impl Into<Blocks>) -> Result<RequestId, ReadError> {
        let (dataset, blocks) = self.checked(budget, blocks.into())?;
        Ok(self.requests.add(Request {
            budget,
            dataset,
            generation: self.datasets[&dataset].generation,
            stalled: None,
            rest: blocks,
            open_blocks: 0,
            open_slots: 0,
            awaited: SmallVec::new(),
            held: Vec::new(),
        }))
    }

    /// Expects that the budget's application reads these blocks after those that are expected
    /// already, as policies [`Policy::Hinted`] and [`Policy::Schedule`] heed. A read ends the first
    /// expectation of its block. Returns how many were noted: a budget keeps about a million.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn expect(&mut self, budget: BudgetId, blocks: impl Into<Blocks>) -> Result<usize, ReadError> {
        let (dataset, blocks) = self.checked(budget, blocks.into())?;
        let generation = self.datasets[&dataset].generation;
        let mut noted = 0;
        for index in blocks {
            if !self.memory.budget_mut(budget).future.expect(index) {
                break;
            }
            noted += 1;
            if let Some(entry) = self.memory.find(&BlockId { dataset, generation, index }) {
                self.memory.update_expectation(entry, budget);
            }
        }
        Ok(noted)
    }

    /// Blocks that the budget's application is expected to want soon: they are fetched, in this
    /// order, while no reader lacks slots and the memory's level allows it. Returns how many were
    /// noted: a budget keeps 4,096 of them.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn prefetch(&mut self, budget: BudgetId, blocks: impl Into<Blocks>) -> Result<usize, ReadError> {
        let (_, blocks) = self.checked(budget, blocks.into())?;
        let ahead = &mut self.memory.budget_mut(budget).ahead;
        let before = ahead.len();
        ahead.extend(blocks.take(MAX_AHEAD - before));
        self.may_speculate = true;
        Ok(ahead.len() - before)
    }

    /// Forgets the blocks that were to be [prefetched](Self::prefetch) and have not been asked for.
    pub fn cancel_prefetch(&mut self, budget: BudgetId) {
        if self.memory.has_budget(budget) {
            self.memory.budget_mut(budget).ahead.clear();
        }
    }

    /// Promises slots to an upstream, which may then push as many slots of blocks of the budget's
    /// dataset. Returns how many of `slots` it may be told of: none while a reader lacks slots,
    /// the memory's level forbids speculation, or a recall is not answered.
    pub fn grant_credit(&mut self, upstream: UpstreamId, budget: BudgetId, slots: u32) -> u32 {
        if !self.memory.has_budget(budget) || self.requests.has_hungry() || self.credits.is_recalled(upstream, budget) {
            return 0;
        }
        // There is room for `granted`, and `excess` are too many, or more than are asked for.
        let (mut granted, mut excess) = (0, slots.min(self.memory.free()) + 1);
        while excess - granted > 1 {
            let middle = granted.midpoint(excess);
            let has_room = self.memory.has_room_ahead(budget, middle, self.reserve());
            *(if has_room { &mut granted } else { &mut excess }) = middle;
        }
        if granted == 0 {
            return 0;
        }
        self.memory.credit(budget, granted);
        self.credits.add(upstream, budget, granted);
        granted
    }

    /// An upstream has pushed a block of a budget's dataset. Returns whether the block is taken:
    /// if so, its bytes go into its [slots](Self::slots) before anything else is asked of the node.
    ///
    /// If the block had been asked for, the push is the answer, and the driver drops the one that
    /// may still come: its bytes must not go into slots that may be another block's by then.
    pub fn pushed(&mut self, upstream: UpstreamId, budget: BudgetId, block: BlockId, now: Instant) -> bool {
        let Some(slots) = self.pushable_slots(budget, &block) else {
            self.stats.pushed_amiss += 1;
            return false;
        };
        if self.credits.of(upstream, budget) < slots && !self.mutations.has(Mutation::PushWithoutCredit) {
            self.stats.pushed_amiss += 1;
            return false;
        }
        let covered = self.credits.end(upstream, budget, slots);
        self.changed();
        let is_other = block.generation != self.datasets[&block.dataset].generation;
        if !is_other && self.in_transit(&block).is_some() {
            self.memory.end_credit(budget, covered);
            self.stats.pushed += 1;
            return self.arrived(block, now);
        }
        if is_other || self.memory.find(&block).is_some() {
            self.memory.end_credit(budget, covered);
            *(if is_other { &mut self.stats.pushed_amiss } else { &mut self.stats.pushed_twice }) += 1;
            return false;
        }
        self.stats.pushed += 1;
        if covered < slots {
            // Only the mutation gets here.
            if self.memory.free() < slots - covered {
                return false;
            }
            self.memory.credit(budget, slots - covered);
        }
        let entry = self.memory.push(block, budget, slots);
        self.settle(entry, now);
        true
    }

    /// An upstream has returned credit that it will not use, whether it was asked to or not, and
    /// has answered the last recall. More than it has is not taken. It is not asked for the rest
    /// until it gets more.
    pub fn return_credit(&mut self, upstream: UpstreamId, budget: BudgetId, slots: u32) {
        let ended = self.credits.end(upstream, budget, slots);
        self.credits.end_recall(upstream, budget);
        if ended > 0 {
            self.memory.end_credit(budget, ended);
            self.changed();
        }
    }

    /// An upstream is gone, and its credit with it. The driver reports each block that it was
    /// asked for as [failed](Self::failed), or asks another one.
    pub fn lose_upstream(&mut self, upstream: UpstreamId) {
        for budget in self.credits.budgets_of(upstream) {
            self.return_credit(upstream, budget, u32::MAX);
        }
    }

    /// A reader gives up. Copies that have begun end with [`copied`](Self::copied) as ever.
    pub fn cancel(&mut self, request: RequestId) {
        if self.requests.remove(request).is_some() {
            self.changed();
        }
    }

    /// The block's bytes are in its slots. Returns `false` if the node does not wait for the
    /// block.
    pub fn arrived(&mut self, block: BlockId, now: Instant) -> bool {
        let Some(entry) = self.in_transit(&block) else { return false };
        self.memory.arrive(entry);
        let waiters = self.requests.take_waiters(entry);
        if waiters.is_empty() || self.mutations.has(Mutation::CollectorTakesWanted) {
            for id in waiters {
                let slots = self.memory.entry(entry).chain.count();
                let request = self.requests.get_mut(id).expect("a request that waits exists");
                request.open_blocks -= 1;
                request.open_slots -= slots;
                request.stalled = Some(block.index);
                self.requests.make_ready(id);
            }
            self.settle(entry, now);
        } else {
            waiters.into_iter().for_each(|id| self.grant(entry, block, id));
        }
        self.changed();
        true
    }

    /// The block cannot be had. Those that wait for it are refused. Returns `false` if the node
    /// does not wait for the block.
    pub fn failed(&mut self, block: BlockId, fault: Fault) -> bool {
        let Some(entry) = self.in_transit(&block) else { return false };
        let waiters = self.requests.take_waiters(entry);
        self.memory.give_up(entry);
        self.stats.failed += 1;
        for request in waiters {
            // One that has asked for the block twice is refused once.
            if self.requests.remove(request).is_some() {
                self.actions.push_back(Action::Refuse { request, refusal: Refusal { block: Some(block), fault } });
            }
        }
        self.changed();
        true
    }

    /// The driver has copied a block to a reader, or has found the reader gone.
    ///
    /// # Panics
    ///
    /// Panics if the driver was not asked to copy the block.
    pub fn copied(&mut self, request: RequestId, block: BlockId, now: Instant) {
        let entry = self.memory.find(&block).expect("a block that is copied is cached");
        let slots = self.memory.entry(entry).chain.count();
        if self.memory.unpin(entry) {
            self.settle(entry, now);
        }
        if let Some(open) = self.requests.get_mut(request) {
            open.open_blocks -= 1;
            open.open_slots -= slots;
            self.requests.make_ready(request);
        }
        self.changed();
    }

    /// The next thing to do, if there is any. A collection that goes on beyond 256 blocks is left
    /// to the next call, so that no pause grows with the cache.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        let mut has_more_to_collect = false;
        loop {
            if let Some(action) = self.actions.pop_front() {
                return Some(action);
            }
            let mut collect = |node: &mut Self| {
                let has_helped = !has_more_to_collect && node.collect(now);
                has_more_to_collect |= has_helped && node.collector.is_due();
                has_helped
            };
            let at_once = self.memory.level() >= MemoryLevel::AT_ONCE;
            let progress = at_once && collect(self) || self.access() || collect(self) || self.speculate();
            // A collector that could not help may have recalled credit.
            if !progress && self.actions.is_empty() {
                return None;
            }
        }
    }

    /// When to call [`poll`](Self::poll) again though nothing has happened. The time is past if
    /// more blocks are to be reclaimed than one call reclaims.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.collector.is_due() {
            return Some(self.start);
        }
        let oldest = collector::oldest_access(&self.memory)?;
        Some(self.start + Duration::from_secs(u64::from(oldest) + 1) + IDLE)
    }

    /// The numbers of the slots that a block holds, in the order of its bytes. None if it holds
    /// none.
    pub fn slots(&self, block: &BlockId) -> impl Iterator<Item = u32> + '_ {
        let chain = self.memory.find(block).map(|entry| self.memory.entry(entry).chain);
        chain.into_iter().flat_map(|chain| self.memory.slots(chain))
    }

    /// What the node has done so far.
    pub fn stats(&self) -> NodeStats {
        self.stats
    }

    /// The slots of the node, by their use.
    pub fn usage(&self) -> MemoryUse {
        self.memory.usage()
    }

    /// How full the memory is.
    pub fn level(&self) -> MemoryLevel {
        self.memory.level()
    }

    #[cfg(feature = "internals")]
    pub(crate) fn pop_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    #[cfg(feature = "internals")]
    pub(crate) fn parts(&self) -> Parts<'_> {
        let Self { memory, requests, collector, credits, may_feed, may_speculate, .. } = self;
        Parts { memory, requests, collector, credits, may_feed: *may_feed, may_speculate: *may_speculate }
    }

    /// One step of one request: a block that it copies, waits for, or lacks the slots of. Returns
    /// whether there was any.
    pub(crate) fn access(&mut self) -> bool {
        // Younger requests, of which there may always be one more, do not keep the hungry waiting.
        let is_hungry_first = !(self.mutations.has(Mutation::HungryLast) && self.requests.has_ready());
        if is_hungry_first && self.feed() {
            return true;
        }
        let Some(id) = self.requests.pop_ready() else { return false };
        self.go_on(id);
        true
    }

    /// A part of a pass of the collector. Returns whether it has done anything for a request.
    pub(crate) fn collect(&mut self, now: Instant) -> bool {
        if self.poll_timeout().is_some_and(|timeout| timeout <= now) {
            self.collector.wake();
        }
        let mut reclaimed = 0;
        while reclaimed < PASS && self.collector.is_due() {
            let stale = self.memory.stale_victim();
            let Some(victim) = stale.or_else(|| self.next_victim(now)) else { break };
            self.count_reclaimed(victim);
            match stale {
                Some(_) => self.memory.reclaim_stale(victim),
                None => self.memory.reclaim(victim),
            }
            reclaimed += 1;
        }
        let is_short = self.collector.is_starving() || self.memory.level() >= MemoryLevel::ANY_GOES;
        if is_short && !self.mutations.has(Mutation::CreditNotRecalled) {
            let recalled = self.credits.recall_all().into_iter();
            self.actions.extend(recalled.map(|(upstream, budget)| Action::Recall { upstream, budget }));
        }
        let has_relieved = self.collector.take_relief();
        let has_helped = reclaimed > 0 || has_relieved;
        self.may_feed |= has_helped;
        self.may_speculate |= has_helped;
        has_helped
    }

    /// The dataset of a budget, and blocks that it has.
    fn checked(&self, budget: BudgetId, blocks: Blocks) -> Result<(DatasetId, Blocks), ReadError> {
        if !self.memory.has_budget(budget) {
            return Err(ReadError::UnknownBudget(budget.0));
        }
        let dataset = self.memory.budget(budget).dataset;
        let check = |index| self.datasets[&dataset].check(index);
        blocks.numbers_to_check().try_for_each(check).map_err(|source| ReadError::NoSuchBlock { dataset, source })?;
        Ok((dataset, blocks))
    }

    fn next_victim(&mut self, now: Instant) -> Option<u32> {
        let idle_limit = now.saturating_duration_since(self.start + IDLE).as_secs();
        let Self { memory, requests, datasets, collector, .. } = self;
        let demands = requests.oldest_hungry().filter_map(|(request, budget, _)| {
            let wanted = requests.get(request).expect("a hungry request exists");
            let index = wanted.stalled.expect("a hungry request lacks a block");
            let block = wanted.block(index);
            let slots = datasets[&block.dataset].slots_of(index);
            let shortage = memory.find(&block).is_none().then(|| memory.room(budget, slots).err()).flatten()?;
            Some(Demand { request, budget, shortage })
        });
        collector.next_victim(memory, demands, u32::try_from(idle_limit).unwrap_or(u32::MAX))
    }

    /// Asks for one block ahead of time. Returns whether there was any to ask for, and room.
    pub(crate) fn speculate(&mut self) -> bool {
        if !self.may_speculate {
            return false;
        }
        let mut budgets = (0..self.memory.budget_count()).map(BudgetId);
        let found = !self.requests.has_hungry() && budgets.any(|budget| self.fetch_ahead(budget));
        self.may_speculate = found;
        found
    }

    fn fetch_ahead(&mut self, budget: BudgetId) -> bool {
        let dataset = self.memory.budget(budget).dataset;
        let generation = self.datasets[&dataset].generation;
        while let Some(index) = self.memory.budget(budget).ahead.front().copied() {
            let block = BlockId { dataset, generation, index };
            let is_there = self.memory.find(&block).is_some();
            let slots = self.slots_of(&block);
            if !is_there && !self.memory.has_room_ahead(budget, slots, self.reserve()) {
                return false;
            }
            self.memory.budget_mut(budget).ahead.pop_front();
            if !is_there {
                let entry = self.memory.take(block, budget, slots);
                self.memory.mark_ahead(entry);
                self.stats.ahead_fetched += 1;
                self.actions.push_back(Action::Fetch { block, purpose: Purpose::Ahead });
                self.collector.wake();
                return true;
            }
        }
        false
    }

    /// The slots that speculation leaves to readers: a twentieth of all, and while one reads a
    /// window, but at most a quarter.
    fn reserve(&self) -> u32 {
        let total = self.memory.total();
        let window = if self.requests.is_empty() { 0 } else { self.config.window_slots };
        window.max(total / 20).min(total / 4)
    }

    /// The slots of a block that may be pushed for a budget.
    fn pushable_slots(&self, budget: BudgetId, block: &BlockId) -> Option<u32> {
        let is_its = self.memory.has_budget(budget) && self.memory.budget(budget).dataset == block.dataset;
        let dataset = self.datasets.get(&block.dataset).filter(|_| is_its)?;
        dataset.check(block.index).ok()?;
        Some(dataset.slots_of(block.index))
    }

    fn go_on(&mut self, id: RequestId) {
        let request = self.requests.get_mut(id).expect("a request that can go on exists");
        let Some(index) = request.next() else {
            if request.open_blocks == 0 {
                self.requests.remove(id);
                self.actions.push_back(Action::Done { request: id });
            }
            return;
        };
        let (block, budget, open_slots) = (request.block(index), request.budget, request.open_slots);
        // One block at a time passes any window.
        if open_slots > 0 && self.slots_of(&block) > self.config.window_slots.saturating_sub(open_slots) {
            self.requests.get_mut(id).expect("it was there").stalled = Some(index);
            return;
        }
        let is_behind = self.requests.is_behind(id, budget);
        match self.try_block(id, budget, block, is_behind) {
            Ok(()) => self.requests.make_ready(id),
            Err(shortage) => {
                self.requests.get_mut(id).expect("it was there").stalled = Some(index);
                self.requests.make_hungry(id, budget, shortage);
                self.collector.wake();
            }
        }
    }

    /// Lets the oldest hungry request go on that can. Returns whether one can.
    fn feed(&mut self) -> bool {
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
            let request = self.requests.get(id).expect("a hungry request exists");
            let index = request.stalled.expect("a hungry request lacks a block");
            let block = request.block(index);
            match self.try_block(id, budget, block, is_behind) {
                Ok(()) => {
                    self.requests.feed(id, budget);
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
    fn try_block(&mut self, id: RequestId, budget: BudgetId, block: BlockId, is_behind: bool) -> Result<(), Shortage> {
        if let Some(entry) = self.memory.find(&block) {
            let Entry { state, is_ahead, is_used, chain, .. } = *self.memory.entry(entry);
            let is_first_use = is_ahead && !is_used;
            if state == State::InTransit {
                self.open(id, chain.count());
                if is_first_use {
                    self.actions.push_back(Action::Raise { block });
                }
                *(if is_first_use { &mut self.stats.late_ahead } else { &mut self.stats.joined }) += 1;
                self.memory.mark_used(entry);
                self.requests.wait(entry, id);
            } else if self.collector.withholds(&self.memory, entry, id) {
                return Err(Shortage::Budget);
            } else {
                *(if is_first_use { &mut self.stats.ahead_hits } else { &mut self.stats.hits }) += 1;
                self.open(id, chain.count());
                self.grant(entry, block, id);
            }
            return Ok(());
        }
        let slots = self.slots_of(&block);
        self.memory.room(budget, slots)?;
        if is_behind {
            return Err(Shortage::Node);
        }
        let entry = self.memory.take(block, budget, slots);
        self.stats.misses += 1;
        self.open(id, slots);
        self.requests.wait(entry, id);
        self.actions.push_back(Action::Fetch { block, purpose: Purpose::Demand });
        self.collector.wake();
        Ok(())
    }

    fn open(&mut self, id: RequestId, slots: u32) {
        let request = self.requests.get_mut(id).expect("a request that goes on exists");
        request.open_blocks += 1;
        request.open_slots += slots;
    }

    /// Pins a cached block for a request that has opened it, and has it copied.
    fn grant(&mut self, entry: u32, block: BlockId, id: RequestId) {
        self.memory.pin(entry);
        let budget = self.requests.get(id).expect("a request that is granted a block exists").budget;
        self.memory.budget_mut(budget).future.used(block.index);
        if self.mutations.has(Mutation::CopyWhenAll) {
            let request = self.requests.get_mut(id).expect("a request that is granted a block exists");
            request.held.push(block);
            if request.is_exhausted() && request.held.len() == request.open_blocks as usize {
                let held = std::mem::take(&mut request.held);
                self.actions.extend(held.into_iter().map(|block| Action::Copy { request: id, block }));
            }
            return;
        }
        self.actions.push_back(Action::Copy { request: id, block });
    }

    /// Gives a cached block that nobody pins its place among those that can be reclaimed.
    fn settle(&mut self, entry: u32, now: Instant) {
        let found = self.memory.entry(entry);
        let (block, budget) = (found.block, found.budget);
        let dataset = &self.datasets[&block.dataset];
        if block.generation != dataset.generation {
            self.count_reclaimed(entry);
            self.memory.discard(entry);
            return;
        }
        let now = now.saturating_duration_since(self.start).as_secs();
        let next_use = self.memory.budget(budget).future.next_use(block.index);
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        self.memory.settle(entry, Touch { partition: dataset.partition_of(block.index), now, next_use });
    }

    fn count_reclaimed(&mut self, entry: u32) {
        let entry = self.memory.entry(entry);
        self.stats.unused += u64::from(entry.is_ahead && !entry.is_used);
        self.stats.reclaimed += 1;
    }

    fn in_transit(&self, block: &BlockId) -> Option<u32> {
        self.memory.find(block).filter(|entry| self.memory.entry(*entry).state == State::InTransit)
    }

    fn slots_of(&self, block: &BlockId) -> u32 {
        self.datasets[&block.dataset].slots_of(block.index)
    }

    /// Something has changed that hungry requests or the collector may make use of.
    fn changed(&mut self) {
        self.may_feed = true;
        self.may_speculate = true;
        self.collector.wake();
    }
}

/// A node's parts, for those who look into it.
#[cfg(feature = "internals")]
pub(crate) struct Parts<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) requests: &'a Requests,
    pub(crate) collector: &'a Collector,
    pub(crate) credits: &'a Credits,
    pub(crate) may_feed: bool,
    pub(crate) may_speculate: bool,
}

/// A partition that was not accessed for this long is idle.
const IDLE: Duration = Duration::from_secs(60);
/// The blocks that a budget keeps to be fetched ahead of time: 1 GiB of blocks of 256 KiB.
const MAX_AHEAD: usize = 4096;
/// The blocks that one part of a collector's pass reclaims at most.
const PASS: u32 = 256;
