//! The requests of readers, and what each of them waits for.

use crate::{
    block::{BlockId, BudgetId, DatasetId, Generation, RequestId},
    memory::Shortage,
};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rails_array::{BlockIndex, BlockRange};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks that a reader asks for, in the order in which they are asked for.
#[derive(Debug, Clone)]
pub struct Blocks(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Range(BlockRange),
    List(std::vec::IntoIter<BlockIndex>),
}

impl From<BlockRange> for Blocks {
    fn from(range: BlockRange) -> Self {
        Self(Kind::Range(range))
    }
}

impl From<Vec<BlockIndex>> for Blocks {
    fn from(list: Vec<BlockIndex>) -> Self {
        Self(Kind::List(list.into_iter()))
    }
}

impl Blocks {
    /// The blocks whose numbers are not known to be the dataset's: all of a list, and the last of a
    /// range, whose numbers ascend.
    pub(crate) fn numbers_to_check(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        let (last, list) = match &self.0 {
            Kind::Range(range) => (range.max_block(), &[][..]),
            Kind::List(list) => (None, list.as_slice()),
        };
        list.iter().copied().chain(last)
    }
}

impl Iterator for Blocks {
    type Item = BlockIndex;

    fn next(&mut self) -> Option<BlockIndex> {
        match &mut self.0 {
            Kind::Range(range) => range.next(),
            Kind::List(list) => list.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Kind::Range(range) => range.size_hint(),
            Kind::List(list) => list.size_hint(),
        }
    }
}

/// A reader's request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) budget: BudgetId,
    pub(crate) dataset: DatasetId,
    pub(crate) generation: Generation,
    /// The block that comes next, where it could not be had yet.
    pub(crate) stalled: Option<BlockIndex>,
    pub(crate) rest: Blocks,
    /// Blocks that are waited for or being copied, and their slots.
    pub(crate) open_blocks: u32,
    pub(crate) open_slots: u32,
    /// The entries that the request waits for, as often as it asked for each.
    pub(crate) awaited: SmallVec<[u32; 4]>,
    /// Blocks that are there and pinned, and not copied yet. Only a mutation has any.
    pub(crate) held: Vec<BlockId>,
}

impl Request {
    pub(crate) fn new(budget: BudgetId, (dataset, generation): (DatasetId, Generation), rest: Blocks) -> Self {
        Self {
            budget,
            dataset,
            generation,
            stalled: None,
            rest,
            open_blocks: 0,
            open_slots: 0,
            awaited: SmallVec::new(),
            held: Vec::new(),
        }
    }

    /// The request waits for a block of so many slots, or copies it.
    pub(crate) fn open(&mut self, slots: u32) {
        self.open_blocks += 1;
        self.open_slots += slots;
    }

    /// The request does so no longer.
    pub(crate) fn close(&mut self, slots: u32) {
        self.open_blocks -= 1;
        self.open_slots -= slots;
    }

    /// The block that a hungry request lacks the slots of.
    pub(crate) fn lacking(&self) -> BlockId {
        self.block(self.stalled.expect("a hungry request lacks a block"))
    }

    pub(crate) fn next(&mut self) -> Option<BlockIndex> {
        self.stalled.take().or_else(|| self.rest.next())
    }

    /// Whether every block has been asked for.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.stalled.is_none() && self.rest.size_hint().0 == 0
    }

    pub(crate) fn block(&self, index: BlockIndex) -> BlockId {
        BlockId { dataset: self.dataset, generation: self.generation, index }
    }
}

/// Every request, and the sets that say which of them can go on.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    requests: BTreeMap<RequestId, Request>,
    next: u64,
    /// Those that can go on.
    ready: BTreeSet<RequestId>,
    /// Those whose next block has no slots, by budget.
    hungry: BTreeMap<BudgetId, BTreeMap<RequestId, Shortage>>,
    /// Those that wait for a block in transit, by its entry.
    waiters: HashMap<u32, SmallVec<[RequestId; 2]>, FixedState>,
}

impl Requests {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            requests: BTreeMap::new(),
            next: 0,
            ready: BTreeSet::new(),
            hungry: BTreeMap::new(),
            waiters: HashMap::with_hasher(FixedState::with_seed(seed)),
        }
    }

    pub(crate) fn add(&mut self, request: Request) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.requests.insert(id, request);
        self.ready.insert(id);
        id
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.requests.get_mut(&id)
    }

    /// The requests of which that is true, the oldest first.
    pub(crate) fn matching(&self, is_meant: impl Fn(&Request) -> bool) -> Vec<RequestId> {
        let meant = self.requests.iter().filter(|(_, request)| is_meant(request));
        meant.map(|(id, _)| *id).collect()
    }

    /// Takes the oldest request that can go on out of their set.
    pub(crate) fn pop_ready(&mut self) -> Option<RequestId> {
        self.ready.pop_first()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) fn has_hungry(&self) -> bool {
        !self.hungry.is_empty()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Lets a request go on, unless it is hungry.
    pub(crate) fn make_ready(&mut self, id: RequestId) {
        let budget = self.requests.get(&id).map(|request| request.budget);
        let hungry = budget.and_then(|budget| self.hungry.get(&budget));
        if !hungry.is_some_and(|of_budget| of_budget.contains_key(&id)) {
            self.ready.insert(id);
        }
    }

    /// Keeps a request, which is not ready, until there are slots for its next block.
    pub(crate) fn make_hungry(&mut self, id: RequestId, budget: BudgetId, shortage: Shortage) {
        self.hungry.entry(budget).or_default().insert(id, shortage);
    }

    pub(crate) fn feed(&mut self, id: RequestId, budget: BudgetId) {
        let Some(of_budget) = self.hungry.get_mut(&budget) else { return };
        of_budget.remove(&id);
        if of_budget.is_empty() {
            self.hungry.remove(&budget);
        }
    }

    /// The oldest hungry request of each budget, and what it lacks.
    pub(crate) fn oldest_hungry(&self) -> impl Iterator<Item = (RequestId, BudgetId, Shortage)> + '_ {
        self.hungry.iter().filter_map(|(budget, of_budget)| {
            let (id, shortage) = of_budget.first_key_value()?;
            Some((*id, *budget, *shortage))
        })
    }

    /// The youngest hungry request of each budget.
    pub(crate) fn youngest_hungry(&self) -> impl Iterator<Item = (RequestId, BudgetId, Shortage)> + '_ {
        self.hungry.iter().filter_map(|(budget, of_budget)| {
            let (id, shortage) = of_budget.last_key_value()?;
            Some((*id, *budget, *shortage))
        })
    }

    /// Whether an older request has to get its slots before one of this budget gets any.
    pub(crate) fn is_behind(&self, id: RequestId, budget: BudgetId) -> bool {
        self.oldest_hungry().any(|(older, of, shortage)| older < id && (of == budget || shortage == Shortage::Node))
    }

    pub(crate) fn wait(&mut self, entry: u32, id: RequestId) {
        self.requests.get_mut(&id).expect("a request that waits exists").awaited.push(entry);
        let waiters = self.waiters.entry(entry).or_default();
        let at = waiters.partition_point(|other| *other < id);
        waiters.insert(at, id);
    }

    /// Ends the waiting for a block, and returns those who waited, the oldest first.
    pub(crate) fn take_waiters(&mut self, entry: u32) -> SmallVec<[RequestId; 2]> {
        let waiters = self.waiters.remove(&entry).unwrap_or_default();
        for id in &waiters {
            let awaited = &mut self.requests.get_mut(id).expect("a request that waits exists").awaited;
            let at = awaited.iter().position(|other| *other == entry);
            awaited.swap_remove(at.expect("a request knows what it waits for"));
        }
        waiters
    }

    /// Removes a request from every set. Returns it, if it was there.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Request> {
        let request = self.requests.remove(&id)?;
        self.ready.remove(&id);
        self.feed(id, request.budget);
        for entry in &request.awaited {
            let waiters = self.waiters.get_mut(entry).expect("a block that a request awaits has waiters");
            let at = waiters.binary_search(&id).expect("a request that awaits a block is among its waiters");
            waiters.remove(at);
            if waiters.is_empty() {
                self.waiters.remove(entry);
            }
        }
        Some(request)
    }

    /// The requests that wait for a block, the oldest first.
    #[cfg(feature = "internals")]
    pub(crate) fn waiters(&self, entry: u32) -> &[RequestId] {
        self.waiters.get(&entry).map_or(&[], |waiters| waiters)
    }

    #[cfg(feature = "internals")]
    pub(crate) fn is_ready(&self, id: RequestId) -> bool {
        self.ready.contains(&id)
    }

    #[cfg(feature = "internals")]
    pub(crate) fn shortage(&self, id: RequestId) -> Option<Shortage> {
        self.hungry.values().find_map(|of_budget| of_budget.get(&id).copied())
    }

    #[cfg(feature = "internals")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.requests.iter().map(|(id, request)| (*id, request))
    }
}
