//! The datasets of a node, and the memory that holds blocks of them.

use crate::{
    block::{BlockId, BudgetId, Dataset, DatasetId, Generation},
    budget::Limits,
    error::{DeclareError, ReadError},
    losses::Lost,
    memory::Memory,
    mutation::Mutations,
    order::{Policy, Touch},
    request::Blocks,
    stats::BudgetStats,
    table::State,
};
use rails_array::{BlockIndex, BlockRange, Region, Selection};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Datasets, and blocks of them in slots.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    datasets: BTreeMap<DatasetId, Dataset>,
    pub(crate) memory: Memory,
    start: Instant,
}

impl Store {
    pub(crate) fn new(slots: u32, max_block_slots: u32, seed: u64, mutations: Mutations, now: Instant) -> Self {
        let memory = Memory::new(slots, max_block_slots, seed, mutations);
        Self { datasets: BTreeMap::new(), memory, start: now }
    }

    pub(crate) fn add_dataset(&mut self, dataset: DatasetId, declared: Dataset) -> Result<(), DeclareError> {
        self.forget_ended();
        if let Some(there) = self.datasets.get(&dataset) {
            let error = if there.is_ended { DeclareError::DatasetEnding } else { DeclareError::DatasetExists };
            return Err(error(dataset));
        }
        let (slots, max) = (declared.max_slots(), self.memory.max_block_slots());
        if slots > u64::from(max) {
            return Err(DeclareError::BlockTooLarge { dataset, slots, max });
        }
        self.datasets.insert(dataset, declared);
        Ok(())
    }

    pub(crate) fn add_budget(
        &mut self,
        dataset: DatasetId,
        limits: Limits,
        policy: Policy,
    ) -> Result<BudgetId, DeclareError> {
        self.dataset_mut(dataset)?;
        self.memory.declare(dataset, limits, policy)
    }

    pub(crate) fn add_budget_beside(
        &mut self,
        dataset: DatasetId,
        sibling: BudgetId,
        policy: Policy,
    ) -> Result<BudgetId, DeclareError> {
        self.dataset_mut(dataset)?;
        if !self.memory.has_budget(sibling) {
            return Err(DeclareError::UnknownBudget(sibling.0));
        }
        self.memory.declare_beside(dataset, sibling, policy)
    }

    /// The dataset, to be changed.
    pub(crate) fn dataset_mut(&mut self, dataset: DatasetId) -> Result<&mut Dataset, DeclareError> {
        let open = self.datasets.get_mut(&dataset).filter(|declared| !declared.is_ended);
        open.ok_or(DeclareError::UnknownDataset(dataset))
    }

    /// Ends a dataset without readers. Returns its budgets, which have to end.
    pub(crate) fn end_dataset(&mut self, dataset: DatasetId) -> Result<Vec<BudgetId>, DeclareError> {
        self.forget_ended();
        self.dataset_mut(dataset)?.is_ended = true;
        let open = self.memory.budgets().filter(|budget| budget.dataset == dataset && !budget.is_ended);
        Ok(open.map(|budget| budget.id).collect())
    }

    /// Forgets the datasets that have ended and of which no block holds slots.
    fn forget_ended(&mut self) {
        let Self { datasets, memory, .. } = self;
        let is_held =
            |dataset: DatasetId| memory.budgets().any(|budget| budget.dataset == dataset && !budget.is_over());
        datasets.retain(|dataset, declared| !declared.is_ended || is_held(*dataset));
    }

    /// The dataset of a budget that may not exist.
    pub(crate) fn dataset_of(&self, budget: BudgetId) -> Result<DatasetId, ReadError> {
        if !self.memory.has_budget(budget) {
            return Err(ReadError::UnknownBudget(budget.0));
        }
        Ok(self.memory.budget(budget).dataset)
    }

    /// The blocks, if the dataset of the budget has them all.
    pub(crate) fn checked(&self, budget: BudgetId, blocks: Blocks) -> Result<Blocks, ReadError> {
        let dataset = self.dataset_of(budget)?;
        let check = |index| self.datasets[&dataset].check(index);
        blocks.numbers_to_check().try_for_each(check).map_err(|source| ReadError::NoSuchBlock { dataset, source })?;
        Ok(blocks)
    }

    pub(crate) fn blocks_of(&self, budget: BudgetId, region: &Region) -> Result<BlockRange, ReadError> {
        let dataset = self.dataset_of(budget)?;
        self.datasets[&dataset].blocks_of(region).map_err(|source| ReadError::BadRegion { dataset, source })
    }

    pub(crate) fn blocks_of_selection(&self, budget: BudgetId, selection: &Selection) -> Result<BlockRange, ReadError> {
        let dataset = self.dataset_of(budget)?;
        let blocks = self.datasets[&dataset].blocks_of_selection(selection);
        blocks.map_err(|source| ReadError::BadRegion { dataset, source })
    }

    pub(crate) fn bytes_of(&self, budget: BudgetId, selection: &Selection) -> u64 {
        self.dataset_of(budget).map_or(0, |dataset| self.datasets[&dataset].bytes_of(selection))
    }

    pub(crate) fn dataset_and_generation(&self, budget: BudgetId) -> (DatasetId, Generation) {
        let dataset = self.memory.budget(budget).dataset;
        (dataset, self.datasets[&dataset].generation)
    }

    /// A block of the current generation of the budget's dataset.
    pub(crate) fn block(&self, budget: BudgetId, index: BlockIndex) -> BlockId {
        let (dataset, generation) = self.dataset_and_generation(budget);
        BlockId { dataset, generation, index }
    }

    /// Whether a block is of the current generation of its dataset.
    pub(crate) fn is_current(&self, block: &BlockId) -> bool {
        block.generation == self.datasets[&block.dataset].generation
    }

    /// The slots of a block, wherever its name comes from. None if the budget's dataset has no such
    /// block. A budget that has ended may still have credit for some.
    pub(crate) fn checked_slots(&self, budget: BudgetId, block: &BlockId) -> Option<u32> {
        let is_of_budget = |budget| self.memory.budget(budget).dataset == block.dataset;
        let is_known = self.memory.knows_budget(budget) && is_of_budget(budget);
        let dataset = is_known.then(|| self.datasets.get(&block.dataset))??;
        dataset.check(block.index).ok()?;
        Some(dataset.slots_of(block.index))
    }

    pub(crate) fn slots_of(&self, block: &BlockId) -> u32 {
        self.datasets[&block.dataset].slots_of(block.index)
    }

    /// The entry of a block in transit.
    pub(crate) fn in_transit(&self, block: &BlockId) -> Option<u32> {
        self.memory.find(block).filter(|entry| self.memory.entry(*entry).state == State::InTransit)
    }

    /// The losses of a budget's dataset since the last call.
    pub(crate) fn take_lost(&mut self, budget: BudgetId) -> Lost {
        if !self.memory.has_budget(budget) {
            return Lost::Blocks(Vec::new());
        }
        let losses = self.memory.budget_mut(budget).losses.as_mut().map(std::mem::take);
        let is_cached = |index| {
            let found = self.memory.find(&self.block(budget, index));
            found.is_some_and(|entry| self.memory.entry(entry).state == State::Cached)
        };
        losses.unwrap_or_default().into_lost(is_cached)
    }

    /// Ends a pin of a cached block. Returns the slots of the block.
    pub(crate) fn unpin(&mut self, block: &BlockId, now: Instant) -> u32 {
        let entry = self.memory.find(block).expect("a pinned block is cached");
        let slots = self.memory.entry(entry).chain.count();
        if self.memory.unpin(entry) {
            self.settle(entry, now);
        }
        slots
    }

    /// Gives a cached block that nobody pins its place among those that can be reclaimed. A block
    /// of a past generation is empty again.
    pub(crate) fn settle(&mut self, entry: u32, now: Instant) {
        let found = self.memory.entry(entry);
        let (block, budget, is_awaited) = (found.block, found.budget, found.is_ahead && !found.is_used);
        if !self.is_current(&block) {
            self.memory.discard(entry);
            return;
        }
        let touch = Touch {
            partition: self.datasets[&block.dataset].partition_of(block.index),
            now: self.seconds(now),
            next_use: self.memory.budget(budget).future.next_use(block.index),
            is_awaited,
        };
        self.memory.settle(entry, touch);
    }

    pub(crate) fn count(&mut self, budget: BudgetId) -> &mut BudgetStats {
        &mut self.memory.budget_mut(budget).stats
    }

    /// The time on the clock that accesses to partitions are noted by.
    pub(crate) fn seconds(&self, now: Instant) -> u32 {
        u32::try_from(now.saturating_duration_since(self.start).as_secs()).unwrap_or(u32::MAX)
    }

    /// A time that is past.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// When the clock has passed these seconds.
    pub(crate) fn after(&self, seconds: u32) -> Instant {
        self.start + Duration::from_secs(u64::from(seconds) + 1)
    }
}
