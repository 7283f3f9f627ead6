//! A node, readers and an upstream, as a model whose steps are those of the node itself.

use rails_array::{BlockGrid, BlockIndex, BlockRange, Layout, PartitionIndex, QueryError, Region, Selection, Shape};
use rails_cache::{
    Action, BlockId, BudgetId, DatasetId, Fault, Generation, Limits, Node, NodeConfig, Policy, RequestId, UpstreamId,
    internals::{self, HeldBlock, Mutation, NodeState},
};
use stateright::{Model, Property};
use std::{
    collections::VecDeque,
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

/// The size of a model, and its fault.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) blocks: u64,
    pub(crate) slots: u32,
    /// The blocks with an odd number take as many slots, the others one.
    pub(crate) odd_block_slots: u32,
    /// The guaranteed slots of each budget.
    pub(crate) mins: &'static [u32],
    /// The slots that each budget has at most.
    pub(crate) max: u32,
    /// The slots that a request takes at a time.
    pub(crate) window_slots: u32,
    pub(crate) policy: Policy,
    /// How many neighbouring blocks a request asks for.
    pub(crate) request_blocks: u64,
    /// How many requests are open at a time.
    pub(crate) requests: usize,
    /// Whether the upstream may fail to deliver a block.
    pub(crate) may_fail: bool,
    /// Whether the application prefetches.
    pub(crate) may_prefetch: bool,
    /// Whether a budget's application may be gone at any time, and another one come.
    pub(crate) may_end: bool,
    /// The slots that the upstream may be promised, for blocks that it pushes.
    pub(crate) max_credit: u32,
    pub(crate) mutation: Option<Mutation>,
}

/// The parties that take steps. Each of them goes on being scheduled in a fair run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Module {
    /// Readers ask.
    Application,
    /// Readers finish copying.
    Reader,
    /// The node's access layer.
    Access,
    /// The upstream answers.
    Upstream,
    /// The node's collector.
    Collector,
    /// The node's work ahead of time.
    Ahead,
    /// The upstream returns credit that was recalled.
    Return,
    /// The upstream pushes, if it likes.
    Push,
}

impl Module {
    pub(crate) const ALL: [Self; 8] = [
        Self::Application,
        Self::Reader,
        Self::Access,
        Self::Upstream,
        Self::Collector,
        Self::Ahead,
        Self::Return,
        Self::Push,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// A request of a budget for blocks from this one on; the run may watch over it.
    Ask {
        budget: BudgetId,
        first: u64,
        is_watched: bool,
    },
    Prefetch(u64),
    /// An application is gone, and the next one has the same limits.
    End(BudgetId),
    Copied,
    Access,
    Answer,
    Fail,
    /// The upstream pushes a block into its credit, or without any.
    Push(u64),
    /// The upstream answers a recall.
    Return,
    Collect,
    Speculate,
    /// The node promises slots to the upstream.
    Grant,
    /// The module has nothing to do.
    Idle(Module),
}

/// A state of the model. Only that which decides about the future is compared.
#[derive(Clone)]
pub(crate) struct State {
    node: Node,
    view: View,
    /// The requests whose blocks are being copied, beside `view.copies`.
    copying: VecDeque<RequestId>,
    watched: Option<RequestId>,
    /// Whether the step that led here gave the watched request something.
    pub(crate) is_progress: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) node: NodeState,
    pub(crate) asked: VecDeque<BlockId>,
    /// Whether the upstream was asked to return its credit.
    pub(crate) is_recalled: bool,
    /// The node took a block that no credit covered.
    pub(crate) was_pushed_amiss: bool,
    /// The age of the request, unless it has been refused, and the block.
    pub(crate) copies: Vec<(Option<usize>, BlockId)>,
    /// The age of the request that the run watches over.
    pub(crate) watched: Option<usize>,
    /// Whether anything has happened since the collector found nothing to do.
    pub(crate) has_changed: bool,
    /// A budget at its `min` lost a slot to another in the last step.
    pub(crate) min_was_taken: bool,
    /// A block was copied from slots that it does not hold any more, or that were not filled.
    pub(crate) is_torn: bool,
}

impl Step {
    fn is_push(self) -> bool {
        matches!(self, Self::Push(_))
    }
}

impl Site {
    pub(crate) fn slots_of(&self, index: BlockIndex) -> u32 {
        if index.0 % 2 == 1 { self.odd_block_slots } else { 1 }
    }

    /// The steps that a module can take, or that it idles.
    pub(crate) fn steps(&self, state: &State, module: Module) -> Vec<Step> {
        let node = &state.view.node;
        let steps: Vec<Step> = match module {
            // A reader that was refused asks again once it has finished its copies.
            Module::Application if node.requests.len() + state.view.orphaned_copies() < self.requests => {
                let watch = if state.watched.is_none() { &[false, true][..] } else { &[false] };
                let budgets = open_budgets(&state.node);
                let ends: Vec<Step> = budgets.iter().filter(|_| self.may_end).copied().map(Step::End).collect();
                let first = |budget| (0..self.blocks).map(move |first| (budget, first));
                let of = |(budget, first)| {
                    watch.iter().map(move |is_watched| Step::Ask { budget, first, is_watched: *is_watched })
                };
                let asks = budgets.into_iter().flat_map(first).flat_map(of);
                let may_prefetch = self.may_prefetch && node.budgets[0].ahead.is_empty();
                asks.chain((0..self.blocks).filter(|_| may_prefetch).map(Step::Prefetch)).chain(ends).collect()
            }
            Module::Reader if !state.copying.is_empty() => vec![Step::Copied],
            Module::Access if internals::access_is_due(&state.node) => vec![Step::Access],
            Module::Upstream if !state.view.asked.is_empty() => {
                [Step::Answer].into_iter().chain(self.may_fail.then_some(Step::Fail)).collect()
            }
            Module::Collector if internals::collector_is_due(&state.node) => vec![Step::Collect],
            Module::Ahead => {
                let speculate = internals::speculation_is_due(&state.node).then_some(Step::Speculate);
                let may_grant = node.budgets[0].used[2] < self.max_credit;
                speculate.into_iter().chain(may_grant.then_some(Step::Grant)).collect()
            }
            Module::Return if state.view.is_recalled => vec![Step::Return],
            // Credit or not: the node has to find out.
            Module::Push if self.max_credit > 0 => {
                [Step::Idle(module)].into_iter().chain((0..self.blocks).map(Step::Push)).collect()
            }
            _ => Vec::new(),
        };
        if steps.is_empty() { vec![Step::Idle(module)] } else { steps }
    }

    pub(crate) fn first_state(&self) -> State {
        let config = NodeConfig {
            slots: self.slots,
            slot_bytes: 1,
            max_block_slots: self.odd_block_slots,
            window_slots: self.window_slots,
            seed: 0,
        };
        let now = now();
        let mut node = match self.mutation {
            Some(mutation) => internals::mutated(config, now, mutation),
            None => Node::new(config, now),
        };
        let layout = Line::new(self.blocks, self.odd_block_slots);
        node.declare_dataset(DATASET, Arc::new(layout), 1, Generation(0))
            .expect("the model's dataset is declared once");
        self.mins.iter().for_each(|min| self.open_budget(&mut node, *min));
        let view = View {
            node: internals::state(&node),
            asked: VecDeque::new(),
            is_recalled: false,
            was_pushed_amiss: false,
            copies: Vec::new(),
            watched: None,
            has_changed: false,
            min_was_taken: false,
            is_torn: false,
        };
        State { node, view, copying: VecDeque::new(), watched: None, is_progress: false }
    }

    fn open_budget(&self, node: &mut Node, min: u32) {
        let limits = Limits { min, max: self.max, ..Limits::default() };
        node.declare_budget(DATASET, limits, self.policy).expect("the model's budgets fit");
    }

    pub(crate) fn after(&self, before: &State, step: Step) -> State {
        let mut state = before.clone();
        state.is_progress = false;
        let mut copied = None;
        let budget = open_budgets(&before.node)[0];
        match step {
            Step::Ask { budget, first, is_watched } => {
                let blocks = (0..self.request_blocks).map(|next| BlockIndex((first + next) % self.blocks));
                let request =
                    state.node.read(budget, blocks.collect::<Vec<_>>()).expect("the model's requests are good");
                if is_watched {
                    state.watched = Some(request);
                }
            }
            Step::Copied => {
                let request = state.copying.pop_front().expect("someone copies");
                let (_, block) = state.view.copies.remove(0);
                state.node.copied(request, block, now());
                copied = Some(block);
            }
            Step::Access => {
                internals::access(&mut state.node);
            }
            Step::Answer => {
                let block = state.view.asked.pop_front().expect("the upstream was asked");
                assert!(state.node.arrived(block, now()), "the node waits for {block:?}");
            }
            Step::Fail => {
                let block = state.view.asked.pop_front().expect("the upstream was asked");
                assert!(state.node.failed(block, Fault::Missing), "the node waits for {block:?}");
            }
            Step::Prefetch(index) => {
                let noted = state.node.prefetch(budget, vec![BlockIndex(index)]);
                assert_eq!(noted, Ok(1), "the model's blocks are good");
            }
            Step::End(budget) => {
                let unused = state.node.end_budget(budget);
                assert_eq!(unused, Ok(Vec::new()), "nobody is downstream of the model");
                self.open_budget(&mut state.node, 0);
            }
            Step::Speculate => {
                internals::speculate(&mut state.node);
            }
            Step::Grant => {
                state.node.grant_credit(UPSTREAM, budget, 1);
            }
            Step::Push(index) => {
                let block = BlockId { dataset: DATASET, generation: Generation(0), index: BlockIndex(index) };
                let credit: u32 = before.view.node.credits.iter().map(|(_, _, slots, _)| slots).sum();
                let is_taken = state.node.pushed(UPSTREAM, budget, block, now());
                if is_taken {
                    // The push is the answer, if the upstream was asked.
                    state.view.asked.retain(|asked| *asked != block);
                }
                state.view.was_pushed_amiss = is_taken && credit < self.slots_of(block.index);
            }
            Step::Return => {
                state.node.return_credit(UPSTREAM, budget, u32::MAX);
                state.view.is_recalled = false;
            }
            Step::Collect => {
                internals::collect(&mut state.node, now());
            }
            Step::Idle(_) => {}
        }
        let mut copies: Vec<(RequestId, BlockId)> =
            state.copying.iter().copied().zip(state.view.copies.iter().map(|(_, block)| *block)).collect();
        while let Some(action) = internals::action(&mut state.node) {
            state.act(action, &mut copies);
        }
        state.look(self, before, step, &copies, copied);
        state
    }
}

impl View {
    fn orphaned_copies(&self) -> usize {
        self.copies.iter().filter(|(request, _)| request.is_none()).count()
    }
}

impl State {
    /// Whether the request that the run watches over waits.
    pub(crate) fn is_watching(&self) -> bool {
        self.watched.is_some()
    }

    fn act(&mut self, action: Action, copies: &mut Vec<(RequestId, BlockId)>) {
        match action {
            Action::Fetch { block, .. } => self.view.asked.push_back(block),
            Action::Raise { .. } => {}
            Action::Recall { .. } => self.view.is_recalled = true,
            Action::Present { .. } => unreachable!("nobody is downstream"),
            Action::Copy { request, block } => {
                self.is_progress |= self.watched == Some(request);
                copies.push((request, block));
            }
            Action::Done { request } | Action::Refuse { request, .. } => {
                if self.watched == Some(request) {
                    self.is_progress = true;
                    self.watched = None;
                }
            }
        }
    }

    /// Writes down what is compared.
    fn look(
        &mut self,
        site: &Site,
        before: &Self,
        step: Step,
        copies: &[(RequestId, BlockId)],
        copied: Option<BlockId>,
    ) {
        let node = internals::state(&self.node);
        let age = |request: RequestId| internals::age(&self.node, request);
        let was_held = |block: &BlockId| held(&before.view.node, block).is_some_and(|held| !held.is_in_transit);
        let is_held = |block: &BlockId| held(&node, block).is_some_and(|held| !held.is_in_transit && held.pins > 0);
        let is_torn = copied.is_some_and(|block| !was_held(&block)) || copies.iter().any(|(_, block)| !is_held(block));
        let lost_to_another = |(budget, limits): (usize, &u32)| {
            let used = |state: &NodeState| state.budgets[budget].used.iter().sum::<u32>();
            let is_hungry = before
                .view
                .node
                .requests
                .iter()
                .any(|request| request.budget as usize == budget && request.hunger.is_some());
            step == Step::Collect && used(&node) < used(&before.view.node).min(*limits) && !is_hungry
        };
        let min_was_taken = site.mins.iter().enumerate().any(lost_to_another);
        let has_changed = match step {
            Step::Idle(_) => before.view.has_changed,
            Step::Collect => node.blocks != before.view.node.blocks,
            _ => true,
        };
        self.view = View {
            asked: std::mem::take(&mut self.view.asked),
            is_recalled: self.view.is_recalled,
            was_pushed_amiss: step.is_push() && self.view.was_pushed_amiss,
            copies: copies.iter().map(|(request, block)| (age(*request), *block)).collect(),
            watched: self.watched.and_then(age),
            has_changed,
            min_was_taken,
            is_torn,
            node,
        };
        self.copying = copies.iter().map(|(request, _)| *request).collect();
    }
}

fn open_budgets(node: &Node) -> Vec<BudgetId> {
    let is_open = internals::state(node).budgets.into_iter().map(|budget| !budget.is_ended);
    internals::budgets(node).into_iter().zip(is_open).filter(|(_, is_open)| *is_open).map(|(id, _)| id).collect()
}

fn held<'a>(node: &'a NodeState, block: &BlockId) -> Option<&'a HeldBlock> {
    node.blocks.iter().find(|held| held.block == *block)
}

impl Model for Site {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.first_state()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        let steps = Module::ALL.into_iter().flat_map(|module| self.steps(state, module));
        actions.extend(steps.filter(|step| !matches!(step, Step::Idle(_))));
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        Some(self.after(state, step))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BOUND, |site: &Self, state: &State| {
                let of = |held: &HeldBlock| site.slots_of(held.block.index);
                let promised: u32 = state.view.node.budgets.iter().map(|budget| budget.used[2]).sum();
                state.view.node.blocks.iter().map(of).sum::<u32>() + promised <= site.slots
                    && state.view.node.budgets.iter().all(|budget| budget.used.iter().sum::<u32>() <= site.max)
            }),
            Property::always(NO_LEAK, |site: &Self, state: &State| {
                let node = &state.view.node;
                let promised: u32 = node.credits.iter().map(|(_, _, slots, _)| slots).sum();
                node.blocks.iter().map(|held| held.slots).sum::<u32>() + promised + node.free == site.slots
            }),
            Property::always(WHOLE, |_: &Self, state: &State| !state.view.is_torn),
            Property::always(CREDIT, |_: &Self, state: &State| !state.view.was_pushed_amiss),
            Property::always(MIN, |_: &Self, state: &State| !state.view.min_was_taken),
            Property::always(QUIET, |_: &Self, state: &State| {
                state.view.has_changed || !state.view.node.collector_is_due
            }),
            Property::sometimes(REACHED, |_: &Self, state: &State| state.view.node.free == 0),
        ]
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.view == other.view
    }
}

impl Eq for State {}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.view.hash(hasher);
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view.fmt(f)
    }
}

/// Blocks in a row, each its own partition.
#[derive(Debug)]
struct Line {
    blocks: BlockGrid,
    odd_block_slots: u32,
}

impl Line {
    fn new(blocks: u64, odd_block_slots: u32) -> Self {
        let shape = |extent| Shape::new([extent]).expect("one axis is a shape");
        let blocks = BlockGrid::new(Region::whole(&shape(blocks)), shape(1)).expect("blocks of one element are good");
        Self { blocks, odd_block_slots }
    }
}

impl Layout for Line {
    fn block_count(&self) -> u64 {
        self.blocks.block_count()
    }

    fn elements_of(&self, block: BlockIndex) -> u64 {
        if block.0 % 2 == 1 { u64::from(self.odd_block_slots) } else { 1 }
    }

    fn max_elements(&self) -> u64 {
        u64::from(self.odd_block_slots)
    }

    fn partition_count(&self) -> u64 {
        self.block_count()
    }

    fn partition_of(&self, block: BlockIndex) -> PartitionIndex {
        PartitionIndex(block.0)
    }

    fn blocks_of(&self, region: &Region) -> Result<BlockRange, QueryError> {
        self.blocks.blocks_of(region)
    }

    fn blocks_of_selection(&self, selection: &Selection) -> Result<BlockRange, QueryError> {
        self.blocks.blocks_of_selection(selection)
    }
}

/// S1: blocks in transit and cached hold no more slots than there are.
pub(crate) const BOUND: &str = "bound";
/// S2: a slot is free, or one block holds it.
pub(crate) const NO_LEAK: &str = "no slot is lost";
/// S3: a block is copied from slots that it holds, and that were filled.
pub(crate) const WHOLE: &str = "copies are whole";
/// S4: a budget at its `min` loses no slot to another.
pub(crate) const MIN: &str = "min is kept";
/// S5: a block is pushed into credit alone.
pub(crate) const CREDIT: &str = "pushes have credit";
/// L2: once the collector has found nothing to do, it is off until something happens.
pub(crate) const QUIET: &str = "the collector is quiet";
/// A state that every instance reaches, lest it promise nothing.
pub(crate) const REACHED: &str = "the memory is full";

/// Time stands still: no decision of these models depends on it.
fn now() -> Instant {
    static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
    *NOW + Duration::from_secs(1)
}

const DATASET: DatasetId = DatasetId(0);
const UPSTREAM: UpstreamId = UpstreamId(0);
