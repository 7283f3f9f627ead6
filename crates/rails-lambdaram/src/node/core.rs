//! The state under a node's lock.

use super::{
    Failure, GridKey, Landed, Lease, Node, OpenGrid, OpenGridError, Outlet, Pinned, Receiver,
    effects::Effects,
    element_bytes,
    failure::words_of,
    pinned,
    slots::{BlockBytes, SlotTable},
};
use crate::wire::Urgency;
use rails_array::{BlockIndex, Selection};
use rails_cache::{
    self as cache, Action, BlockId, BudgetId, BudgetStats, DatasetId, DeclareError, DownstreamId, Fault, Generation,
    Limits, Policy, Purpose, Refusal, RequestId, UpstreamId, pattern::Path,
};
use std::{collections::HashMap, fmt, sync::Arc, time::Instant};

/// The protocol, and those whom its answers concern.
pub(super) struct Core {
    pub(super) protocol: cache::Node,
    table: SlotTable,
    grids: HashMap<DatasetId, Arc<OpenGrid>>,
    by_key: HashMap<GridKey, DatasetId>,
    next_dataset: u32,
    budgets: HashMap<(DatasetId, Arc<str>), BudgetLease>,
    readers: HashMap<ReaderKey, Reader>,
    next_reader: u64,
    requests: HashMap<RequestId, Request>,
    outlets: HashMap<DownstreamId, Arc<dyn Outlet>>,
    next_downstream: u32,
    /// Grids that have ended.
    closed: Vec<Arc<OpenGrid>>,
    /// The words for the fault that the protocol is being told of.
    fault: Option<(BlockId, Arc<str>)>,
}

/// A reader, and whether anything is fetched ahead of it.
struct Reader {
    reader: cache::Reader,
    prefetches: bool,
}

struct Request {
    receiver: Arc<dyn Receiver>,
    reader: Option<ReaderKey>,
}

/// A budget, and its use: as long as there is one, the node keeps the budget.
pub(crate) type BudgetLease = Arc<BudgetId>;

/// The figures of a budget.
pub(super) struct Held {
    pub(super) slots: u32,
    /// Those of all budgets of the application for the dataset.
    pub(super) limits: Limits,
    pub(super) stats: BudgetStats,
}

/// A reader of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ReaderKey(u64);

impl Core {
    pub(super) fn new(protocol: cache::Node, table: SlotTable) -> Self {
        Self {
            protocol,
            table,
            grids: HashMap::new(),
            by_key: HashMap::new(),
            next_dataset: 0,
            budgets: HashMap::new(),
            readers: HashMap::new(),
            next_reader: 0,
            requests: HashMap::new(),
            outlets: HashMap::new(),
            next_downstream: 0,
            closed: Vec::new(),
            fault: None,
        }
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.protocol.poll_timeout()
    }

    /// Finds a grid, or makes it with a new number.
    pub(super) fn open_grid(
        &mut self,
        key: &GridKey,
        make: impl FnOnce(DatasetId) -> OpenGrid,
    ) -> Result<Lease, OpenGridError> {
        if let Some(grid) = self.by_key.get(key).map(|id| &self.grids[id]) {
            return Ok(Lease::new(grid));
        }
        if self.grids.len() >= MAX_GRIDS && !self.retire_idle() {
            return Err(OpenGridError::Full { max: MAX_GRIDS });
        }
        let id = DatasetId(self.next_dataset);
        let grid = Arc::new(make(id));
        self.protocol.declare_dataset(id, grid.layout.clone(), element_bytes(grid.dtype), Generation(0))?;
        self.next_dataset += 1;
        self.by_key.insert(key.clone(), id);
        let lease = Lease::new(&grid);
        self.grids.insert(id, grid);
        Ok(lease)
    }

    /// Ends the oldest grid that nobody uses. Returns whether there was one.
    fn retire_idle(&mut self) -> bool {
        let idle = self.grids.values().filter(|grid| !grid.is_used()).min_by_key(|grid| grid.id);
        let Some(grid) = idle.map(Arc::clone) else { return false };
        self.end_grid(&grid);
        true
    }

    /// Ends a budget whose application is gone. Returns whether there was one.
    fn end_unused_budget(&mut self) -> bool {
        let unused = self.budgets.iter().filter(|(_, lease)| Arc::strong_count(lease) == 1);
        let Some((key, budget)) = unused.map(|(key, lease)| (key.clone(), **lease)).min_by_key(|(_, budget)| *budget)
        else {
            return false;
        };
        self.budgets.remove(&key);
        // What a peer has promised for it ends with the peer's handle.
        let _ = self.protocol.end_budget(budget).expect("a budget ends once");
        true
    }

    fn end_grid(&mut self, grid: &Arc<OpenGrid>) {
        if self.by_key.get(&grid.key) == Some(&grid.id) {
            self.by_key.remove(&grid.key);
        }
        if self.grids.remove(&grid.id).is_some() {
            self.budgets.retain(|(dataset, _), _| *dataset != grid.id);
            // Credit for its blocks ends with the handles of those who gave it.
            let _ = self.protocol.end_dataset(grid.id).expect("a grid's dataset ends once");
            self.closed.push(Arc::clone(grid));
        }
    }

    pub(super) fn budget(
        &mut self,
        grid: &OpenGrid,
        application: &str,
        limits: Limits,
        policy: Policy,
    ) -> Result<BudgetLease, DeclareError> {
        let key = (grid.id, Arc::from(application));
        if let Some(budget) = self.budgets.get(&key) {
            return Ok(Arc::clone(budget));
        }
        loop {
            // The arrays of a dataset and their divisions share what the application may have for it.
            let declared = match self.sibling(grid, application) {
                Some(sibling) => self.protocol.declare_budget_beside(grid.id, sibling, policy),
                None => self.protocol.declare_budget(grid.id, limits, policy),
            };
            match declared {
                Ok(budget) => {
                    let lease = Arc::new(budget);
                    self.budgets.insert(key, Arc::clone(&lease));
                    if grid.upstream.presends() {
                        self.protocol.follow_losses(budget).expect("the budget was declared just now");
                    }
                    return Ok(lease);
                }
                Err(error) => {
                    let may_help =
                        matches!(error, DeclareError::Overcommitted { .. } | DeclareError::TooManyBudgets { .. });
                    if !may_help || !(self.retire_idle() || self.end_unused_budget()) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// A budget of the application for the dataset of a grid.
    fn sibling(&self, grid: &OpenGrid, application: &str) -> Option<BudgetId> {
        let is_sibling = |(of, owner): &(DatasetId, Arc<str>)| {
            **owner == *application && self.grids[of].key.dataset == grid.key.dataset
        };
        self.budgets.iter().find(|(key, _)| is_sibling(key)).map(|(_, budget)| **budget)
    }

    /// Each budget with its array, its application and its figures.
    pub(super) fn budgets(&self) -> impl Iterator<Item = (&OpenGrid, &str, Held)> {
        let of = |((dataset, application), budget): (&'_ (DatasetId, Arc<str>), &BudgetLease)| {
            (*dataset, Arc::clone(application), **budget)
        };
        let mut all: Vec<_> = self.budgets.iter().map(of).collect();
        all.sort_unstable_by(|(one, first, _), (other, second, _)| (one, first).cmp(&(other, second)));
        all.into_iter().map(|(dataset, application, budget)| {
            let (key, _) = self.budgets.get_key_value(&(dataset, application)).expect("it is one of them");
            let held = Held {
                slots: self.protocol.used_alone(budget),
                limits: self.protocol.limits_of(budget).unwrap_or_default(),
                stats: self.protocol.stats(budget),
            };
            (&*self.grids[&dataset], &*key.1, held)
        })
    }

    pub(super) fn add_reader(&mut self, reader: cache::Reader, prefetches: bool) -> ReaderKey {
        let key = ReaderKey(self.next_reader);
        self.next_reader += 1;
        self.readers.insert(key, Reader { reader, prefetches });
        key
    }

    pub(super) fn remove_reader(&mut self, key: ReaderKey) {
        self.readers.remove(&key);
    }

    /// A reader that goes on where another one is, with another division of the array. The blocks
    /// that the other one announced are not kept for it any more.
    pub(super) fn reader_elsewhere(&mut self, before: ReaderKey, budget: BudgetId) -> cache::Reader {
        let Self { readers, protocol, .. } = self;
        let reader = &mut readers.get_mut(&before).expect("a reader is removed with its last handle").reader;
        let next = reader.for_budget(budget);
        reader.leave(protocol);
        next
    }

    /// A reader that was added and not removed.
    pub(super) fn reader(&mut self, key: ReaderKey) -> &mut cache::Reader {
        &mut self.readers.get_mut(&key).expect("a reader is removed with its last handle").reader
    }

    pub(super) fn read(
        &mut self,
        key: ReaderKey,
        selection: &Selection,
        path: &Path,
        receiver: &Arc<dyn Receiver>,
        now: Instant,
    ) -> Result<(RequestId, Vec<BlockIndex>), cache::ReadError> {
        let Reader { reader, prefetches } =
            self.readers.get_mut(&key).expect("a reader is removed with its last handle");
        // Over a link without a rate nothing comes ahead of time.
        let path = Path { bytes_per_second: if *prefetches { path.bytes_per_second } else { 0 }, ..*path };
        let request = reader.read(&mut self.protocol, selection, &path, now)?;
        let ready = reader.take_warm();
        self.requests.insert(request, Request { receiver: Arc::clone(receiver), reader: Some(key) });
        Ok((request, ready))
    }

    pub(super) fn read_blocks(
        &mut self,
        budget: BudgetId,
        blocks: Vec<BlockIndex>,
        receiver: &Arc<dyn Receiver>,
    ) -> Result<RequestId, cache::ReadError> {
        let request = self.protocol.read(budget, blocks)?;
        self.requests.insert(request, Request { receiver: Arc::clone(receiver), reader: None });
        Ok(request)
    }

    /// Returns the receiver, which is not to be dropped under the lock.
    pub(super) fn cancel(&mut self, request: RequestId, now: Instant) -> Option<Arc<dyn Receiver>> {
        self.protocol.cancel(request);
        self.end_for_reader(request, now)
    }

    pub(super) fn arrived(&mut self, block: BlockId, bytes: BlockBytes, now: Instant) -> Landed {
        // The buffers of a block that is there already may be in use.
        let mut slots = self.protocol.slots(&block).peekable();
        if slots.peek().is_none() || self.protocol.is_cached(&block) {
            return Landed::Unwanted;
        }
        self.table.install(slots, bytes);
        if self.protocol.arrived(block, now) { Landed::Taken } else { Landed::Unwanted }
    }

    pub(super) fn pushed(
        &mut self,
        upstream: UpstreamId,
        budget: BudgetId,
        block: BlockId,
        bytes: BlockBytes,
        now: Instant,
    ) -> Landed {
        if !self.protocol.pushed(upstream, budget, block, now) {
            return Landed::Unwanted;
        }
        self.table.install(self.protocol.slots(&block), bytes);
        Landed::Taken
    }

    pub(super) fn failed(&mut self, block: BlockId, fault: Fault, text: &Arc<str>) {
        if self.protocol.failed(block, fault) {
            self.fault = Some((block, Arc::clone(text)));
        }
    }

    pub(super) fn outdate(&mut self, grid: &OpenGrid) {
        if let Some(known) = self.grids.get(&grid.id).map(Arc::clone) {
            self.end_grid(&known);
        }
    }

    /// A node downstream, which may get blocks that it does not ask for.
    pub(super) fn add_outlet(&mut self, outlet: Arc<dyn Outlet>) -> DownstreamId {
        let downstream = DownstreamId(self.next_downstream);
        self.next_downstream += 1;
        self.outlets.insert(downstream, outlet);
        downstream
    }

    /// Returns the outlet, which is not to be dropped under the lock.
    pub(super) fn remove_outlet(&mut self, downstream: DownstreamId) -> Option<Arc<dyn Outlet>> {
        self.protocol.lose_downstream(downstream);
        self.outlets.remove(&downstream)
    }

    /// The budget of this process's own application for a grid, if it has one.
    pub(super) fn own_budget(&self, grid: &OpenGrid) -> Option<BudgetId> {
        self.budgets.iter().filter(|((dataset, _), _)| *dataset == grid.id).map(|(_, budget)| **budget).min()
    }

    pub(super) fn copied(&mut self, purpose: pinned::Purpose, block: BlockId, now: Instant) {
        match purpose {
            pinned::Purpose::Request(request) => self.protocol.copied(request, block, now),
            pinned::Purpose::Downstream(downstream, budget) => {
                self.protocol.presented(downstream, budget, block, now);
            }
        }
    }

    pub(super) fn is_cached(&self, grid: &OpenGrid, block: BlockIndex) -> bool {
        let id = BlockId { dataset: grid.id, generation: Generation(0), index: block };
        !grid.is_stale() && self.protocol.is_cached(&id)
    }

    /// Takes all that the protocol asks for.
    pub(super) fn pump(&mut self, node: &Arc<Node>, now: Instant, effects: &mut Effects) {
        while let Some(action) = self.protocol.poll(now) {
            match action {
                Action::Fetch { block, purpose } => {
                    let urgency = match purpose {
                        Purpose::Demand => Urgency::Demand,
                        Purpose::Ahead => Urgency::Ahead,
                    };
                    effects.fetch(&self.grids[&block.dataset], block, urgency);
                }
                Action::Raise { block } => {
                    // A block on its way may be another generation's by now.
                    if let Some(grid) = self.grids.get(&block.dataset) {
                        effects.raise(grid, block);
                    }
                }
                Action::Recall { upstream, budget } => {
                    match self.budgets.iter().find(|(_, own)| ***own == budget) {
                        Some(((dataset, _), _)) => effects.recall(&self.grids[dataset]),
                        // The grid has ended, and the upstream's handle of it.
                        None => self.protocol.return_credit(upstream, budget, u32::MAX),
                    }
                }
                Action::Copy { request, block } => {
                    let bytes = self.table.bytes(self.protocol.slots(&block));
                    let pinned = Pinned::new(node, pinned::Purpose::Request(request), block, bytes);
                    match self.requests.get(&request) {
                        Some(Request { receiver, .. }) => effects.block(receiver, request, pinned),
                        None => effects.unwanted.push(pinned),
                    }
                }
                Action::Present { downstream, budget, block } => {
                    let bytes = self.table.bytes(self.protocol.slots(&block));
                    let pinned = Pinned::new(node, pinned::Purpose::Downstream(downstream, budget), block, bytes);
                    match self.outlets.get(&downstream) {
                        Some(outlet) => effects.present(outlet, budget, pinned),
                        None => effects.unwanted.push(pinned),
                    }
                }
                Action::Done { request } => self.end(request, Ok(()), now, effects),
                Action::Refuse { request, refusal } => {
                    let failure = self.failure(refusal);
                    self.end(request, Err(failure), now, effects);
                }
            }
        }
        self.fault = None;
        self.closed.drain(..).for_each(|grid| effects.close(grid));
    }

    fn end(&mut self, request: RequestId, end: Result<(), Failure>, now: Instant, effects: &mut Effects) {
        if let Some(receiver) = self.end_for_reader(request, now) {
            effects.ended(receiver, request, end);
        }
    }

    fn end_for_reader(&mut self, request: RequestId, now: Instant) -> Option<Arc<dyn Receiver>> {
        let ended = self.requests.remove(&request)?;
        if let Some(reader) = ended.reader.and_then(|key| self.readers.get_mut(&key)) {
            reader.reader.ended(request, now);
        }
        Some(ended.receiver)
    }

    fn failure(&self, Refusal { block, fault }: Refusal) -> Failure {
        // A grid with readers ends because its source has changed.
        let fault = if fault == Fault::Ended { Fault::Changed } else { fault };
        let told = self.fault.as_ref().filter(|(told, _)| Some(*told) == block);
        let text = told.map_or_else(|| words_of(fault).into(), |(_, text)| Arc::clone(text));
        Failure { block, fault, text }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("grids", &self.grids.len()).finish_non_exhaustive()
    }
}

/// The arrays and views that a node caches at the same time.
const MAX_GRIDS: usize = 1024;
