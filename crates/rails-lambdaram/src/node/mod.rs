//! A node: the protocol of the cache under one lock, the memory of its slots, and those who wait.
//!
//! - `slots`: the memory of slots; `failure`: blocks that cannot be had;
//! - `grid`: arrays that are divided into blocks, and the trait of the places where blocks come
//!   from;
//! - `pinned`: blocks that are being copied, and the trait of those who get them;
//! - `effects`: what the protocol asks for, done without the lock;
//! - `core`: the state under the lock;
//! - `reading`: one read of an application.

mod core;
mod effects;
mod failure;
mod grid;
mod pinned;
mod reading;
mod slots;

use crate::{
    budgets::{BudgetRule, Budgets},
    wire::{BudgetStatus, GridOf, NodeId, NodeStatus},
};
pub(crate) use core::{BudgetLease, ReaderKey};
use core::{Core, Held};
use effects::Effects;
pub(crate) use failure::Failure;
pub(crate) use grid::{GridKey, Lease, OpenGrid, Upstream};
pub(crate) use pinned::{Outlet, Pinned, Receiver};
use rails_array::{BlockGrid, BlockIndex, Grid, GridError, Region, Selection, Shape};
use rails_bind::memory::MemoryError;
use rails_cache::{
    self as cache, BlockId, BudgetId, DeclareError, DownstreamId, Fault, NodeConfig, Policy, RequestId, UpstreamId,
};
use rails_formats::{data_type::DataType, manifest::ArrayDescription};
use rails_multirail::error::with_causes;
use rails_topo::DataSize;
pub(crate) use reading::ReadingError;
use slots::{BlockBytes, SlotTable};
pub(crate) use slots::{Landing, SlotMemory};
use std::{
    num::NonZeroU64,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::{runtime::Handle, sync::Notify, task::JoinHandle};

/// A node of the cache, and its memory.
#[derive(Debug)]
pub(crate) struct Node {
    id: NodeId,
    memory: SlotMemory,
    max_block_slots: u32,
    budgets: Budgets,
    core: Mutex<Core>,
    /// The protocol's timeout has changed.
    timeout_changed: Arc<Notify>,
    /// Calls the protocol at its timeouts.
    timer: Mutex<Option<JoinHandle<()>>>,
}

/// The size of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeSize {
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u32,
    pub(crate) max_block_slots: u32,
}

/// Why an array cannot be divided into blocks, or not be cached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum OpenGridError {
    #[error(transparent)]
    Grid(#[from] GridError),
    #[error("the array has the shape {shape}, and the region {region} is not within it")]
    Outside { shape: String, region: String },
    #[error(transparent)]
    Declare(#[from] DeclareError),
    #[error("the node caches {max} arrays and views already, and readers use all of them")]
    Full { max: usize },
}

/// Why an application gets no memory for a dataset.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the application `{application}` gets no memory for `{dataset}`{}: {}", self.rule(), self.reason())]
pub(crate) struct NoBudget {
    application: String,
    dataset: String,
    rule: Option<String>,
    slot_bytes: u64,
    error: DeclareError,
}

impl NoBudget {
    fn rule(&self) -> String {
        self.rule.as_ref().map_or_else(String::new, |rule| format!(" by the rule `{rule}`"))
    }

    /// The reason, with sizes in place of slots.
    fn reason(&self) -> String {
        let size = |slots: u64| DataSize::bytes(slots.saturating_mul(self.slot_bytes));
        match self.error {
            DeclareError::Overcommitted { min, others, reserve, total } => {
                let (min, others, reserve) = (size(min.into()), size(others), size(reserve));
                let total = size(total.into());
                format!(
                    "{min} are to be guaranteed; of the memory of {total}, {others} are guaranteed to others, and \
                     {reserve} have to be left to whoever asks"
                )
            }
            ref error => error.to_string(),
        }
    }
}

/// News for an upstream that sends blocks unasked.
#[derive(Debug)]
pub(crate) struct PresendNews {
    pub(crate) lost: cache::Lost,
    pub(crate) granted: u32,
    /// The counters of the budget.
    pub(crate) stats: cache::BudgetStats,
}

/// What came of a block that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Landed {
    /// The node keeps it.
    Taken,
    /// The node does not wait for it.
    Unwanted,
}

impl NodeSize {
    /// The settings of the protocol.
    pub(crate) fn config(self, seed: u64) -> NodeConfig {
        let Self { slots, slot_bytes, max_block_slots } = self;
        NodeConfig { slots, slot_bytes, max_block_slots, window_slots: (slots / 4).max(max_block_slots), seed }
    }
}

impl Node {
    /// A node whose timeouts are kept by a task of that runtime.
    pub(crate) fn new(
        id: NodeId,
        size: NodeSize,
        budgets: Budgets,
        memory: SlotMemory,
        seed: u64,
        runtime: &Handle,
    ) -> Arc<Self> {
        let NodeSize { slots, max_block_slots, .. } = size;
        let core = Core::new(cache::Node::new(size.config(seed), now()), SlotTable::new(slots));
        let timeout_changed = Arc::new(Notify::new());
        let node = Arc::new(Self {
            id,
            memory,
            max_block_slots,
            budgets,
            core: Mutex::new(core),
            timeout_changed: Arc::clone(&timeout_changed),
            timer: Mutex::default(),
        });
        let weak = Arc::downgrade(&node);
        let timer = runtime.spawn(async move {
            loop {
                let Some(node) = weak.upgrade() else { return };
                let timeout = node.core().timeout();
                drop(node);
                match timeout {
                    None => timeout_changed.notified().await,
                    Some(at) => {
                        tokio::select! {
                            () = timeout_changed.notified() => continue,
                            () = tokio::time::sleep_until(at.into()) => {}
                        }
                    }
                }
                let Some(node) = weak.upgrade() else { return };
                node.step(|_, _| {});
                drop(node);
                // A collection that goes on has a timeout that is past.
                tokio::task::yield_now().await;
            }
        });
        *node.timer.lock().unwrap_or_else(PoisonError::into_inner) = Some(timer);
        node
    }

    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    pub(crate) fn slot_bytes(&self) -> NonZeroU64 {
        self.memory.slot_bytes()
    }

    /// The largest block that the node keeps, in bytes.
    pub(crate) fn max_block_bytes(&self) -> u64 {
        self.memory.slot_bytes().get() * u64::from(self.max_block_slots)
    }

    /// Divides an array, or finds the division that is there.
    pub(crate) fn open_grid(
        self: &Arc<Self>,
        key: &GridKey,
        array: &ArrayDescription,
        upstream: &Arc<dyn Upstream>,
    ) -> Result<Lease, OpenGridError> {
        let GridOf { region, block_shape } = &key.grid;
        let whole = Region::whole(&array.shape);
        if let Some(region) = region
            && !region.is_within(&array.shape)
        {
            return Err(OpenGridError::Outside { shape: array.shape.to_string(), region: region.to_string() });
        }
        let blocks = BlockGrid::new(region.clone().unwrap_or(whole), block_shape.clone())?;
        let layout = Arc::new(Grid::new(blocks));
        let name = array.name.as_str().into();
        let (dtype, shape, upstream) = (array.dtype, array.shape.clone(), Arc::clone(upstream));
        self.step(|core, _| {
            core.open_grid(key, |id| OpenGrid::new(id, key.clone(), layout, dtype, shape, name, upstream))
        })
    }

    /// The policy of an application for a dataset.
    pub(crate) fn policy_of(&self, application: &str, dataset: &str) -> Policy {
        self.budgets.of(application, dataset).1
    }

    /// The memory of an application for an array. An application has one budget for each array, and
    /// all of a dataset share limits.
    pub(crate) fn budget(self: &Arc<Self>, grid: &OpenGrid, application: &str) -> Result<BudgetLease, NoBudget> {
        let dataset = &*grid.key.dataset;
        let (limits, policy, rule) = self.budgets.of(application, dataset);
        self.step(|core, _| core.budget(grid, application, limits, policy)).map_err(|error| NoBudget {
            application: application.into(),
            dataset: dataset.into(),
            rule: rule.map(BudgetRule::to_string),
            slot_bytes: self.slot_bytes().get(),
            error,
        })
    }

    /// A reader that watches the regions which one job reads.
    ///
    /// With `before` it goes on where that one is, with another division of the array. Without
    /// `prefetches` nothing is fetched ahead of its reads.
    pub(crate) fn add_reader(
        &self,
        budget: BudgetId,
        shape: &Shape,
        before: Option<ReaderKey>,
        prefetches: bool,
    ) -> ReaderKey {
        let mut core = self.core();
        let reader = match before {
            Some(before) => core.reader_elsewhere(before, budget),
            None => cache::Reader::new(budget, shape),
        };
        core.add_reader(reader, prefetches)
    }

    pub(crate) fn remove_reader(&self, key: ReaderKey) {
        self.core().remove_reader(key);
    }

    /// Announces the regions that a reader will read.
    pub(crate) fn tell(&self, key: ReaderKey, regions: Vec<Region>) -> Result<(), cache::pattern::TellError> {
        self.core().reader(key).tell(regions)
    }

    /// The pattern of a reader.
    pub(crate) fn pattern(&self, key: ReaderKey) -> cache::pattern::Pattern {
        self.core().reader(key).pattern()
    }

    /// Begins a request of a reader, whose blocks go to `receiver`. Returns beside it the blocks
    /// that are expected, and for which the memory here is too full.
    pub(crate) fn read(
        self: &Arc<Self>,
        reader: ReaderKey,
        grid: &OpenGrid,
        selection: &Selection,
        receiver: &Arc<dyn Receiver>,
    ) -> Result<(RequestId, Vec<BlockIndex>), cache::ReadError> {
        let mut path = grid.upstream.path();
        if grid.upstream.presends() {
            // Over a link without a rate nothing is fetched ahead of time.
            path.bytes_per_second = 0;
        }
        self.step(|core, now| core.read(reader, selection, &path, receiver, now))
    }

    /// Begins a request for blocks by their numbers, which go to `receiver`.
    pub(crate) fn read_blocks(
        self: &Arc<Self>,
        budget: BudgetId,
        blocks: Vec<BlockIndex>,
        receiver: &Arc<dyn Receiver>,
    ) -> Result<RequestId, cache::ReadError> {
        self.step(|core, _| core.read_blocks(budget, blocks, receiver))
    }

    /// A request is given up.
    pub(crate) fn cancel(self: &Arc<Self>, request: RequestId) {
        drop(self.step(|core, now| core.cancel(request, now)));
    }

    /// Has blocks fetched that nobody waits for. Returns how many were noted.
    pub(crate) fn prefetch(
        self: &Arc<Self>,
        budget: BudgetId,
        blocks: Vec<BlockIndex>,
    ) -> Result<usize, cache::ReadError> {
        self.step(|core, _| core.protocol.prefetch(budget, blocks))
    }

    /// A block's bytes have come, in this machine's order. The node takes them if somebody waits
    /// for them.
    pub(crate) async fn land(self: &Arc<Self>, block: BlockId, bytes: &[u8], crc: u32) -> Landed {
        match self.landing().await {
            Ok(landing) => self.land_in(&landing, block, bytes, crc),
            Err(error) => {
                self.fail_without_memory(block, &error);
                Landed::Unwanted
            }
        }
    }

    /// As [`land`](Self::land), with buffers that the caller has waited for.
    pub(crate) fn land_in(self: &Arc<Self>, landing: &Landing<'_>, block: BlockId, bytes: &[u8], crc: u32) -> Landed {
        let bytes = self.memory.write(landing, bytes, crc);
        self.step(|core, now| core.arrived(block, bytes, now))
    }

    /// An upstream has sent a block that nobody had asked it for.
    pub(crate) fn land_push(
        self: &Arc<Self>,
        landing: &Landing<'_>,
        upstream: UpstreamId,
        grid: &OpenGrid,
        block: BlockId,
        bytes: &[u8],
        crc: u32,
    ) -> Landed {
        let bytes = self.memory.write(landing, bytes, crc);
        self.step(|core, now| {
            let Some(budget) = core.own_budget(grid) else { return Landed::Unwanted };
            match core.pushed(upstream, budget, block, bytes.clone(), now) {
                Landed::Taken => Landed::Taken,
                // Credit or no credit, it may be what somebody waits for.
                Landed::Unwanted => core.arrived(block, bytes, now),
            }
        })
    }

    /// Waits for buffers for a block.
    ///
    /// # Errors
    /// There is no memory, and no block can be had.
    pub(crate) async fn landing(&self) -> Result<Landing<'_>, Arc<MemoryError>> {
        self.memory.landing().await
    }

    /// A block cannot be had, because there is no memory for any.
    pub(crate) fn fail_without_memory(self: &Arc<Self>, block: BlockId, error: &MemoryError) {
        let text = format!("this process cannot take the memory for blocks: {}", with_causes(error));
        self.fail(block, Fault::Unreachable, &text.into());
    }

    /// A block cannot be had.
    pub(crate) fn fail(self: &Arc<Self>, block: BlockId, fault: Fault, text: &Arc<str>) {
        self.step(|core, _| core.failed(block, fault, text));
    }

    /// The source of a grid has changed: nobody gets its blocks any more.
    pub(crate) fn outdate(self: &Arc<Self>, grid: &OpenGrid) {
        if !grid.is_stale() {
            grid.set_stale();
            self.step(|core, _| core.outdate(grid));
        }
    }

    /// The node's figures.
    pub(crate) fn status(&self) -> NodeStatus {
        let core = self.core();
        let usage = core.protocol.usage();
        NodeStatus {
            slots: usage.slots,
            slot_bytes: self.slot_bytes().get() as u32,
            free: usage.free,
            in_transit: usage.in_transit,
            cached: usage.cached,
            credited: usage.credited,
            level: core.protocol.level().number(),
            links: 0,
            budgets: core.budgets().map(|(grid, application, held)| budget_status(grid, application, held)).collect(),
        }
    }

    /// Of these blocks, those that are in memory.
    pub(crate) fn cached(&self, grid: &OpenGrid, blocks: impl Iterator<Item = BlockIndex>) -> Vec<bool> {
        let core = self.core();
        blocks.map(|block| core.is_cached(grid, block)).collect()
    }

    fn copied(self: &Arc<Self>, copied: &[(pinned::Purpose, BlockId)]) {
        self.step(|core, now| copied.iter().for_each(|(purpose, block)| core.copied(*purpose, *block, now)));
    }

    /// A node downstream, which may get blocks that it does not ask for.
    pub(crate) fn add_outlet(&self, outlet: Arc<dyn Outlet>) -> DownstreamId {
        self.core().add_outlet(outlet)
    }

    pub(crate) fn remove_outlet(self: &Arc<Self>, downstream: DownstreamId) {
        drop(self.step(|core, _| core.remove_outlet(downstream)));
    }

    /// Tells the protocol of something that concerns a node downstream.
    pub(crate) fn about_downstream<T>(self: &Arc<Self>, event: impl FnOnce(&mut cache::Node, Instant) -> T) -> T {
        self.step(|core, now| event(&mut core.protocol, now))
    }

    /// News for an upstream that may send blocks of a grid unasked: the blocks that were given up,
    /// as many slots as it may use beside those that it has, and the fate of the blocks that it
    /// sent. `None` without a reader.
    /// The protocol asks for nothing that has to be carried out, so a caller may hold a lock of
    /// its own.
    pub(crate) fn presend_news(&self, upstream: UpstreamId, grid: &OpenGrid, credit: u32) -> Option<PresendNews> {
        let mut core = self.core();
        let budget = core.own_budget(grid)?;
        let max = core.protocol.usage().slots / 4;
        let granted = if credit < max / 2 { core.protocol.grant_credit(upstream, budget, max - credit) } else { 0 };
        let lost = core.protocol.take_lost(budget);
        Some(PresendNews { lost, granted, stats: core.protocol.stats(budget) })
    }

    /// An upstream has given credit back.
    pub(crate) fn return_credit(self: &Arc<Self>, upstream: UpstreamId, grid: &OpenGrid, slots: u32) {
        self.step(|core, _| {
            if let Some(budget) = core.own_budget(grid) {
                core.protocol.return_credit(upstream, budget, slots);
            }
        });
    }

    /// The link to an upstream is lost, and with it the credit that it had.
    pub(crate) fn lose_upstream(self: &Arc<Self>, upstream: UpstreamId) {
        self.step(|core, _| core.protocol.lose_upstream(upstream));
    }

    /// Tells the protocol of an event, and does what it asks for.
    fn step<T>(self: &Arc<Self>, event: impl FnOnce(&mut Core, Instant) -> T) -> T {
        let now = now();
        let mut effects = Effects::default();
        let result = {
            let mut core = self.core();
            let before = core.timeout();
            let result = event(&mut core, now);
            core.pump(self, now, &mut effects);
            if core.timeout() != before {
                self.timeout_changed.notify_one();
            }
            result
        };
        effects.carry_out();
        result
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("no step of the protocol panics")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            timer.abort();
        }
    }
}

fn budget_status(grid: &OpenGrid, application: &str, held: Held) -> BudgetStatus {
    let Held { slots, limits, stats } = held;
    BudgetStatus {
        application: application.to_owned(),
        dataset: grid.key.dataset.to_string(),
        array: grid.array_name.to_string(),
        slots,
        min_slots: limits.min,
        max_slots: limits.max,
        weight: limits.weight,
        hits: stats.hits,
        ahead_hits: stats.ahead_hits,
        late_ahead: stats.late_ahead,
        misses: stats.misses,
        ahead_fetched: stats.ahead_fetched,
        pushed: stats.pushed,
        used: stats.used,
        unused: stats.unused,
        reclaimed: stats.reclaimed,
        failed: stats.failed,
    }
}

/// The time, which tests may simulate.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The size of an element of that type in bytes, as the protocol counts it.
fn element_bytes(dtype: DataType) -> u32 {
    dtype.bytes() as u32
}
