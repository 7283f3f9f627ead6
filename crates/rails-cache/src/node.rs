//! A node: what happens, and what has to be done about it.

use crate::{
    access::Access,
    action::Action,
    ahead::{Ahead, Push, Readers},
    block::{BlockId, BudgetId, Dataset, DatasetId, DownstreamId, Generation, RequestId, UpstreamId},
    budget::Limits,
    downstream::{Outlet, UnusedCredit},
    error::{DeclareError, Fault, ReadError},
    level::MemoryLevel,
    losses::Lost,
    mutation::Mutations,
    order::Policy,
    request::Blocks,
    stats::{BudgetStats, MemoryUse},
    store::Store,
};
use rails_array::{BlockIndex, BlockRange, Layout, Region, Selection};
use std::{collections::VecDeque, sync::Arc, time::Instant};

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
/// The driver calls `poll` again at [`poll_timeout`](Self::poll_timeout).
///
/// # Guarantees
///
/// - Blocks in transit and blocks cached never hold more slots than the node has, nor more than
///   their budget's limit, or that of several together. Slots are taken before a block is asked
///   for.
/// - A request that is not cancelled is served or refused with a reason, as long as the driver
///   answers every [`Action::Fetch`], [`Action::Copy`] and [`Action::Recall`], and upstreams push
///   into the credit that they do not return, or are [lost](Self::lose_upstream). Of those that
///   lack slots, older requests get them first.
/// - A budget at its `min` loses no slot to another one, nor do several that share a `min`, but for
///   each other.
/// - The collector does nothing unless something has changed since its last pass.
#[derive(Debug, Clone)]
pub struct Node {
    slot_bytes: u32,
    store: Store,
    access: Access,
    ahead: Ahead,
    actions: VecDeque<Action>,
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
        let NodeConfig { slots, slot_bytes, max_block_slots, window_slots, seed } = config;
        assert!(slot_bytes > 0 && max_block_slots > 0, "slots and blocks have a length");
        assert!(window_slots > 0, "a window has slots");
        assert!(max_block_slots <= slots, "the largest block fits the memory");
        Self {
            slot_bytes,
            store: Store::new(slots, max_block_slots, seed, mutations, now),
            access: Access::new(window_slots, seed, mutations),
            ahead: Ahead::new(window_slots, seed, mutations),
            actions: VecDeque::new(),
        }
    }

    /// Adds a dataset, whose elements have this many bytes in memory.
    ///
    /// # Errors
    ///
    /// [`DeclareError::DatasetExists`], [`DeclareError::BlockTooLarge`], or
    /// [`DeclareError::DatasetEnding`] for the number of a dataset that has
    /// [ended](Self::end_dataset) and holds slots: an owner that gives every opening a number
    /// of its own never meets it.
    pub fn declare_dataset(
        &mut self,
        dataset: DatasetId,
        layout: Arc<dyn Layout>,
        element_bytes: u32,
        generation: Generation,
    ) -> Result<(), DeclareError> {
        let declared = Dataset::new(layout, generation, element_bytes, self.slot_bytes);
        self.store.add_dataset(dataset, declared)
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
        self.store.add_budget(dataset, limits, policy)
    }

    /// Adds the memory of an application for one more dataset, with the limits of another budget:
    /// they hold for both together, and for all that are declared beside either. Of several, a
    /// block goes first that nobody is expected to use again, and else one of the budget of
    /// which a partition was not accessed for longest. The limits hold until the last of the
    /// budgets ends.
    ///
    /// # Errors
    ///
    /// [`DeclareError::UnknownDataset`], [`DeclareError::UnknownBudget`] for a sibling that is none
    /// or has ended, or [`DeclareError::TooManyBudgets`].
    pub fn declare_budget_beside(
        &mut self,
        dataset: DatasetId,
        sibling: BudgetId,
        policy: Policy,
    ) -> Result<BudgetId, DeclareError> {
        self.store.add_budget_beside(dataset, sibling, policy)
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
        let declared = self.store.dataset_mut(dataset)?;
        if generation <= declared.generation {
            return Err(DeclareError::PastGeneration { dataset, generation, current: declared.generation });
        }
        declared.generation = generation;
        for budget in self.store.memory.retire(dataset) {
            self.ahead.forget_blocks(budget);
        }
        self.access.refuse_dataset(dataset, Fault::Changed, &mut self.actions);
        self.changed();
        Ok(())
    }

    /// A budget's application is gone. Its requests are refused with [`Fault::Ended`], its number
    /// is unknown from now on, and its `min` can be guaranteed to others. An owner that expects the
    /// application back keeps the budget, and so its blocks.
    ///
    /// - Cached blocks of the budget go, those that are pinned once they are copied or presented.
    /// - Blocks in transit keep their slots until they have arrived or failed. They go then, unless
    ///   another budget's reader waits for them and copies them first.
    /// - Credit that the budget gave is recalled: its slots are free once it is
    ///   [returned](Self::return_credit) or [lost](Self::lose_upstream), or a block was pushed into
    ///   it, which is dropped.
    /// - Credit for blocks of the budget is returned here, for the driver to give it back to the
    ///   nodes downstream. [`credited`](Self::credited) refuses later credit, and the driver gives
    ///   that back, too.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`], also for a budget that has ended.
    pub fn end_budget(&mut self, budget: BudgetId) -> Result<Vec<UnusedCredit>, ReadError> {
        self.store.dataset_of(budget)?;
        self.access.refuse_budget(budget, Fault::Ended, &mut self.actions);
        self.store.memory.end_budget(budget);
        let unused = self.ahead.end_budget(budget, &mut self.actions);
        self.changed();
        Ok(unused)
    }

    /// Ends a dataset without readers, and its budgets [with it](Self::end_budget). Returns the
    /// credit of nodes downstream that was for its blocks.
    ///
    /// # Errors
    ///
    /// [`DeclareError::UnknownDataset`], also for a dataset that has ended.
    pub fn end_dataset(&mut self, dataset: DatasetId) -> Result<Vec<UnusedCredit>, DeclareError> {
        let budgets = self.store.end_dataset(dataset)?;
        let unused = budgets.into_iter().map(|budget| self.end_budget(budget).expect("the dataset's budget is open"));
        Ok(unused.collect::<Vec<_>>().concat())
    }

    /// A reader asks for blocks of the budget's dataset. They are asked for in this order, and each
    /// is copied as soon as it is there, as often as it is named.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn read(&mut self, budget: BudgetId, blocks: impl Into<Blocks>) -> Result<RequestId, ReadError> {
        let blocks = self.store.checked(budget, blocks.into())?;
        Ok(self.access.add(&self.store, budget, blocks))
    }

    /// A reader gives up. Copies that have begun end with [`copied`](Self::copied) as ever.
    pub fn cancel(&mut self, request: RequestId) {
        if self.access.cancel(request) {
            self.changed();
        }
    }

    /// The driver has copied a block to a reader, or has found the reader gone.
    ///
    /// # Panics
    ///
    /// Panics if the driver was not asked to copy the block.
    pub fn copied(&mut self, request: RequestId, block: BlockId, now: Instant) {
        let slots = self.store.unpin(&block, now);
        self.access.copied(request, slots);
        self.changed();
    }

    /// The block's bytes are in its slots. Returns `false` if the node does not wait for the
    /// block.
    pub fn arrived(&mut self, block: BlockId, now: Instant) -> bool {
        let Some(entry) = self.store.in_transit(&block) else { return false };
        self.access.arrived(&mut self.store, entry, now, &mut self.actions);
        self.changed();
        true
    }

    /// The block cannot be had. Those that wait for it are refused. Returns `false` if the node
    /// does not wait for the block.
    pub fn failed(&mut self, block: BlockId, fault: Fault) -> bool {
        let Some(entry) = self.store.in_transit(&block) else { return false };
        self.access.failed(&mut self.store, entry, fault, &mut self.actions);
        self.ahead.forget_block(&self.store, &block);
        self.changed();
        true
    }

    /// Expects that the budget's application reads these blocks after those that are expected
    /// already, as policies [`Policy::Hinted`] and [`Policy::Schedule`] heed. A read ends the first
    /// expectation of its block. One whose read does not come is forgotten once 1,024 of those
    /// after it have come. Returns how many were noted: a budget keeps about a million.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn expect(&mut self, budget: BudgetId, blocks: impl Into<Blocks>) -> Result<usize, ReadError> {
        let blocks = self.store.checked(budget, blocks.into())?;
        let mut noted = 0;
        for index in blocks {
            if !self.store.memory.budget_mut(budget).future.expect(index) {
                break;
            }
            noted += 1;
            if let Some(entry) = self.store.memory.find(&self.store.block(budget, index)) {
                self.store.memory.update_expectation(entry, budget);
            }
        }
        Ok(noted)
    }

    /// Forgets every use that was [expected](Self::expect) of a budget: its application does
    /// something else. Blocks that were kept for these uses are the first to go.
    pub fn forget_expected(&mut self, budget: BudgetId) {
        if self.store.memory.has_budget(budget) {
            self.store.memory.forget_expected(budget);
            self.changed();
        }
    }

    /// Blocks that a reader of the budget's dataset has used, and that nobody is expected to use
    /// again. They are the first to go, until someone reads them after all.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn pass(&mut self, budget: BudgetId, blocks: impl Into<Blocks>) -> Result<(), ReadError> {
        for index in self.store.checked(budget, blocks.into())? {
            if let Some(entry) = self.store.memory.find(&self.store.block(budget, index)) {
                self.store.memory.pass(entry);
            }
        }
        self.changed();
        Ok(())
    }

    /// Blocks that the budget's application is expected to want soon: they are fetched, in this
    /// order, while no reader lacks slots and the memory's level allows it. Returns how many were
    /// noted: a budget keeps 4,096 of them.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn prefetch(&mut self, budget: BudgetId, blocks: impl Into<Blocks>) -> Result<usize, ReadError> {
        let blocks = self.store.checked(budget, blocks.into())?;
        self.ahead.wake();
        Ok(self.store.memory.fetch_later(budget, blocks, MAX_AHEAD))
    }

    /// Forgets the blocks that were to be [prefetched](Self::prefetch) and have not been asked for.
    pub fn cancel_prefetch(&mut self, budget: BudgetId) {
        if self.store.memory.has_budget(budget) {
            self.store.memory.fetch_none(budget);
        }
    }

    /// Promises slots to an upstream, which may then push as many slots of blocks of the budget's
    /// dataset. Returns how many of `slots` it may be told of: none while a reader lacks slots,
    /// the memory's level forbids speculation, or a recall is not answered.
    pub fn grant_credit(&mut self, upstream: UpstreamId, budget: BudgetId, slots: u32) -> u32 {
        self.ahead.grant(&mut self.store, upstream, budget, slots, readers(&self.access))
    }

    /// An upstream has pushed a block of a budget's dataset. Returns whether the block is taken:
    /// if so, its bytes go into its [slots](Self::slots) before anything else is asked of the node.
    ///
    /// If the block had been asked for, the push is the answer, and the driver drops the one that
    /// may still come: its bytes must not go into slots that may be another block's by then.
    pub fn pushed(&mut self, upstream: UpstreamId, budget: BudgetId, block: BlockId, now: Instant) -> bool {
        let push = self.ahead.push(&mut self.store, upstream, budget, block, now);
        if let Push::Awaited(entry) = push {
            self.access.arrived(&mut self.store, entry, now, &mut self.actions);
        }
        if !matches!(push, Push::Amiss) {
            self.changed();
        }
        matches!(push, Push::Awaited(_) | Push::New)
    }

    /// An upstream has returned credit that it will not use, whether it was asked to or not, and
    /// has answered the last recall. More than it has is not taken. It is not asked for the rest
    /// until it gets more.
    pub fn return_credit(&mut self, upstream: UpstreamId, budget: BudgetId, slots: u32) {
        self.ahead.return_credit(&mut self.store, upstream, budget, slots);
        self.changed();
    }

    /// An upstream is gone, and its credit with it. The driver reports each block that it was
    /// asked for as [failed](Self::failed), or asks another one.
    pub fn lose_upstream(&mut self, upstream: UpstreamId) {
        self.ahead.lose_upstream(&mut self.store, upstream);
        self.changed();
    }

    /// A node downstream is expected to want these blocks soon: as far as its credit goes, they are
    /// fetched like [prefetched](Self::prefetch) ones, and sent to it. Returns how many were noted:
    /// 4,096 are kept.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn presend(
        &mut self,
        downstream: DownstreamId,
        budget: BudgetId,
        blocks: impl Into<Blocks>,
    ) -> Result<usize, ReadError> {
        let blocks = self.store.checked(budget, blocks.into())?;
        self.ahead.wake();
        Ok(self.ahead.outlet(downstream, budget).push_later(blocks))
    }

    /// Forgets the blocks that were to be [presented](Self::presend) to a node and were not yet.
    pub fn cancel_presend(&mut self, downstream: DownstreamId, budget: BudgetId) {
        if let Some(outlet) = self.ahead.known_outlet(downstream, budget) {
            outlet.clear();
        }
    }

    /// A node downstream has promised slots for blocks that are sent before it asks.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`].
    pub fn credited(&mut self, downstream: DownstreamId, budget: BudgetId, slots: u32) -> Result<(), ReadError> {
        self.store.dataset_of(budget)?;
        self.ahead.outlet(downstream, budget).add_credit(slots);
        self.ahead.wake();
        Ok(())
    }

    /// A node downstream wants the credit back that was not used. Returns it.
    pub fn recalled(&mut self, downstream: DownstreamId, budget: BudgetId) -> u32 {
        self.ahead.known_outlet(downstream, budget).map_or(0, Outlet::take_credit)
    }

    /// A node downstream holds these blocks, or has given them up.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn downstream_holds(
        &mut self,
        downstream: DownstreamId,
        budget: BudgetId,
        blocks: impl Into<Blocks>,
        holds: bool,
    ) -> Result<(), ReadError> {
        let blocks = self.store.checked(budget, blocks.into())?;
        let outlet = self.ahead.outlet(downstream, budget);
        blocks.for_each(|index| outlet.note(index, holds));
        Ok(())
    }

    /// A node downstream is gone. The driver cancels its requests.
    pub fn lose_downstream(&mut self, downstream: DownstreamId) {
        self.ahead.lose_downstream(downstream);
    }

    /// A reader at a node downstream reads these blocks, so that it holds them, or asks for them
    /// now. Returns how many it was not known to hold.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`] or [`ReadError::NoSuchBlock`].
    pub fn downstream_reads(
        &mut self,
        downstream: DownstreamId,
        budget: BudgetId,
        blocks: impl Into<Blocks>,
    ) -> Result<u64, ReadError> {
        let blocks = self.store.checked(budget, blocks.into())?;
        let outlet = self.ahead.outlet(downstream, budget);
        let mut missing = 0;
        for index in blocks {
            missing += u64::from(!outlet.holds(index));
            outlet.note(index, true);
        }
        Ok(missing)
    }

    /// A node downstream asks for a block. Returns whether a block that was [sent](Action::Present)
    /// to it before is the answer, because it cannot have come when the node asked: its driver then
    /// has nothing to send. A push answers once, so that a node that asks again is served.
    ///
    /// Blocks that came and were given up since have to be told before they are asked for:
    /// [`follow_losses`](Self::follow_losses).
    pub fn is_answered_by_push(&mut self, downstream: DownstreamId, budget: BudgetId, index: BlockIndex) -> bool {
        self.ahead.known_outlet(downstream, budget).is_some_and(|outlet| outlet.take_pushed(index))
    }

    /// Which blocks a node downstream holds is not known any more: it has lost
    /// [an unknown number](Lost::Unknown).
    pub fn forget_held(&mut self, downstream: DownstreamId, budget: BudgetId) {
        if let Some(outlet) = self.ahead.known_outlet(downstream, budget) {
            outlet.forget_held();
        }
    }

    /// Keeps a record of the blocks of the budget's dataset that this node gives up, for an
    /// upstream that [knows which it holds](Self::downstream_holds). Those of a past generation are
    /// not among them: a new generation empties the record, as the upstream's knowledge.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`].
    pub fn follow_losses(&mut self, budget: BudgetId) -> Result<(), ReadError> {
        self.store.dataset_of(budget)?;
        self.store.memory.follow_losses(budget);
        Ok(())
    }

    /// The blocks that were given up since the last call, without those that are cached again.
    /// None of a budget whose losses are not [followed](Self::follow_losses).
    pub fn take_lost(&mut self, budget: BudgetId) -> Lost {
        self.store.take_lost(budget)
    }

    /// The driver has sent a block that it was to [present](Action::Present), or has found the node
    /// gone.
    ///
    /// # Panics
    ///
    /// Panics if the driver was not asked to present the block.
    pub fn presented(&mut self, downstream: DownstreamId, budget: BudgetId, block: BlockId, now: Instant) {
        let slots = self.store.unpin(&block, now);
        if let Some(outlet) = self.ahead.known_outlet(downstream, budget) {
            outlet.sent(slots);
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
                has_more_to_collect |= has_helped && node.access.is_collector_due();
                has_helped
            };
            let at_once = self.store.memory.level() >= MemoryLevel::AT_ONCE;
            let progress = at_once && collect(self) || self.step_access() || collect(self) || self.step_ahead();
            // A collector that could not help may have recalled credit.
            if !progress && self.actions.is_empty() {
                return None;
            }
        }
    }

    /// When to call [`poll`](Self::poll) again though nothing has happened. The time is past if
    /// more blocks are to be reclaimed than one call reclaims.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.access.timeout(&self.store)
    }

    /// The numbers of the slots that a block holds, in the order of its bytes. None if it holds
    /// none.
    pub fn slots(&self, block: &BlockId) -> impl Iterator<Item = u32> + '_ {
        let memory = &self.store.memory;
        let chain = memory.find(block).map(|entry| memory.entry(entry).chain);
        chain.into_iter().flat_map(|chain| memory.slots(chain))
    }

    /// Whether a block of a budget's dataset is cached or on its way.
    pub fn holds(&self, budget: BudgetId, block: BlockIndex) -> bool {
        self.store.memory.find(&self.store.block(budget, block)).is_some()
    }

    /// Whether the block's bytes are in its slots.
    pub fn is_cached(&self, block: &BlockId) -> bool {
        self.store.memory.find(block).is_some() && self.store.in_transit(block).is_none()
    }

    /// The blocks that hold elements of a region of the budget's dataset.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`], or [`ReadError::BadRegion`] for a region that is none of the
    /// dataset's.
    pub fn blocks_of(&self, budget: BudgetId, region: &Region) -> Result<BlockRange, ReadError> {
        self.store.blocks_of(budget, region)
    }

    /// The blocks that hold selected elements of the budget's dataset: those that the steps leave
    /// out are not among them.
    ///
    /// # Errors
    ///
    /// [`ReadError::UnknownBudget`], or [`ReadError::BadRegion`] for a selection that is none of
    /// the dataset's.
    pub fn blocks_of_selection(&self, budget: BudgetId, selection: &Selection) -> Result<BlockRange, ReadError> {
        self.store.blocks_of_selection(budget, selection)
    }

    /// The bytes of the selected elements. None for a budget that is not the node's.
    pub fn bytes_of(&self, budget: BudgetId, selection: &Selection) -> u64 {
        self.store.bytes_of(budget, selection)
    }

    /// How full the memory of a budget is, or the whole memory, whichever is fuller.
    pub fn level_of(&self, budget: BudgetId) -> MemoryLevel {
        let memory = &self.store.memory;
        let known = memory.has_budget(budget).then(|| memory.share_of(budget).level);
        known.unwrap_or_default().max(memory.level())
    }

    /// How full the memory is.
    pub fn level(&self) -> MemoryLevel {
        self.store.memory.level()
    }

    /// What the node has done for a budget so far. Nothing for a budget that is not its.
    pub fn stats(&self, budget: BudgetId) -> BudgetStats {
        let memory = &self.store.memory;
        if memory.has_budget(budget) { memory.budget(budget).stats } else { BudgetStats::default() }
    }

    /// What a budget may have, alone or together with others; its `max` is at most the node's
    /// slots. None for a budget that is not the node's.
    pub fn limits_of(&self, budget: BudgetId) -> Option<Limits> {
        let memory = &self.store.memory;
        memory.has_budget(budget).then(|| memory.share_of(budget).limits)
    }

    /// The slots that count against a budget itself. None for a budget that is not the node's.
    pub fn used_alone(&self, budget: BudgetId) -> u32 {
        let memory = &self.store.memory;
        if memory.has_budget(budget) { memory.budget(budget).used.total() } else { 0 }
    }

    /// The slots that count against the limits of a budget: its own, and those of the budgets that
    /// share the limits. None for a budget that is not the node's.
    pub fn used_together(&self, budget: BudgetId) -> u32 {
        let memory = &self.store.memory;
        if memory.has_budget(budget) { memory.share_of(budget).used } else { 0 }
    }

    /// Pushed blocks that were dropped: no credit covered them, their generation is not the current
    /// one, or the budget's dataset has no such block.
    pub fn pushed_amiss(&self) -> u64 {
        self.ahead.pushed_amiss()
    }

    /// The slots of the node, by their use.
    pub fn usage(&self) -> MemoryUse {
        self.store.memory.usage()
    }

    pub(crate) fn step_access(&mut self) -> bool {
        self.access.step(&mut self.store, &mut self.actions)
    }

    pub(crate) fn collect(&mut self, now: Instant) -> bool {
        let has_helped = self.access.collect(&mut self.store, now);
        if has_helped {
            self.ahead.wake();
        }
        if self.access.is_starving() || self.store.memory.level() >= MemoryLevel::ANY_GOES {
            self.ahead.recall(&mut self.actions);
        }
        has_helped
    }

    pub(crate) fn step_ahead(&mut self) -> bool {
        let has_asked = self.ahead.step(&mut self.store, readers(&self.access), &mut self.actions);
        if has_asked {
            self.access.wake_collector();
        }
        has_asked
    }

    #[cfg(feature = "internals")]
    pub(crate) fn pop_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    #[cfg(feature = "internals")]
    pub(crate) fn parts(&self) -> (&Store, &Access, &Ahead) {
        (&self.store, &self.access, &self.ahead)
    }

    /// Something has changed that anyone may make use of.
    fn changed(&mut self) {
        self.access.wake();
        self.ahead.wake();
    }
}

fn readers(access: &Access) -> Readers {
    Readers { are_hungry: access.has_hungry(), are_there: access.is_reading() }
}

/// The blocks that a budget keeps to be fetched ahead of time: 1 GiB of blocks of 256 KiB.
const MAX_AHEAD: usize = 4096;
