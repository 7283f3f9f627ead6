//! A node under random readers, upstreams and failures, with the slots' contents as the oracle.

use crate::{AGAIN, seeds};
use rails_array::{BlockGrid, BlockIndex, Grid, Region, Shape};
use rails_cache::{
    Action, BlockId, BudgetId, BudgetStats, DatasetId, DeclareError, Fault, Generation, Limits, Node, NodeConfig,
    Policy, ReadError, RequestId, UpstreamId, internals,
};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng, seq::IndexedRandom};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// A run: a node, and everyone around it.
struct Run {
    random: ChaCha8Rng,
    node: Node,
    now: Instant,
    slots: u32,
    max_block_slots: u32,
    /// The budgets that have not ended.
    budgets: Vec<(BudgetId, DatasetId)>,
    ended: Vec<(BudgetId, DatasetId)>,
    next_dataset: u32,
    /// The slots that each budget has at most, alone or with those that share its limits.
    maxima: BTreeMap<BudgetId, u32>,
    /// Of each budget, the one that was declared with the limits that it has.
    founders: BTreeMap<BudgetId, BudgetId>,
    generations: BTreeMap<DatasetId, Generation>,
    /// What each slot holds: a block, and the number of the slot in it.
    contents: Vec<Option<(BlockId, usize)>>,
    /// Blocks that the upstream was asked for, and the slots that it fills.
    asked: Vec<(BlockId, Vec<u32>)>,
    /// Blocks that readers copy, and the slots that they read.
    copying: Vec<(RequestId, BlockId, Vec<u32>)>,
    /// Requests that are neither done, refused nor cancelled, and the blocks that they have not
    /// got.
    open: BTreeMap<RequestId, Vec<BlockIndex>>,
    cancelled: BTreeSet<RequestId>,
    recalled: BTreeSet<(UpstreamId, BudgetId)>,
    credit: BTreeMap<BudgetId, u32>,
    /// Blocks that readers were given.
    given: u64,
    /// Blocks that readers of budgets that have ended asked for.
    found_before: u64,
    /// Whether a request may have ended before it was given blocks that it waited for.
    has_ended_early: bool,
    /// Everything that the node asked for, to be compared.
    log: Vec<Action>,
}

impl Run {
    fn new(seed: u64, hash_seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let slots = if random.random_bool(0.5) { random.random_range(4..16) } else { random.random_range(16..80) };
        let max_block_slots = random.random_range(1..4);
        let config = NodeConfig {
            slots,
            slot_bytes: 16,
            max_block_slots,
            window_slots: if random.random_bool(0.3) { 1 } else { random.random_range(1..slots) },
            seed: hash_seed,
        };
        let now = Instant::now();
        let node = Node::new(config, now);
        let mut run = Self {
            random,
            node,
            now,
            slots,
            max_block_slots,
            generations: BTreeMap::new(),
            budgets: Vec::new(),
            ended: Vec::new(),
            next_dataset: 0,
            maxima: BTreeMap::new(),
            founders: BTreeMap::new(),
            contents: vec![None; slots as usize],
            asked: Vec::new(),
            copying: Vec::new(),
            open: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            recalled: BTreeSet::new(),
            credit: BTreeMap::new(),
            given: 0,
            found_before: 0,
            has_ended_early: false,
            log: Vec::new(),
        };
        (0..run.random.random_range(1..4)).for_each(|_| run.open_dataset(None));
        run
    }

    /// Declares a dataset with budgets, of a number that has ended, or of a new one.
    fn open_dataset(&mut self, ended: Option<DatasetId>) {
        let random = &mut self.random;
        let shape = Shape::new([random.random_range(8..30), random.random_range(8..30)]).unwrap();
        let block = Shape::new([random.random_range(1..3), u64::from(self.max_block_slots) * 2]).unwrap();
        let grid = Arc::new(Grid::new(BlockGrid::new(Region::whole(&shape), block).unwrap()));
        let is_held = |(block, _): &(BlockId, Vec<u32>)| Some(block.dataset) == ended;
        let again = ended.map(|dataset| self.node.declare_dataset(dataset, grid.clone(), 4, Generation(0)));
        let dataset = match (ended, again) {
            (Some(dataset), Some(Ok(()))) => {
                assert!(!self.asked.iter().any(is_held), "blocks of a past dataset are still to come");
                dataset
            }
            (_, again) => {
                assert!(again.is_none_or(|again| matches!(again, Err(DeclareError::DatasetEnding(_)))));
                let dataset = DatasetId(self.next_dataset);
                self.next_dataset += 1;
                self.node.declare_dataset(dataset, grid, 4, Generation(0)).unwrap();
                dataset
            }
        };
        self.generations.insert(dataset, Generation(0));
        (0..self.random.random_range(1..4)).for_each(|_| self.open_budget(dataset));
    }

    fn open_budget(&mut self, dataset: DatasetId) {
        let (random, slots) = (&mut self.random, self.slots);
        let policy = *[Policy::Lru, Policy::Mru, Policy::Hinted, Policy::Schedule].choose(random).unwrap();
        if random.random_bool(0.3)
            && let Some((sibling, _)) = self.budgets.choose(random).copied()
        {
            let budget = self.node.declare_budget_beside(dataset, sibling, policy).unwrap();
            assert!(self.maxima.insert(budget, self.maxima[&sibling]).is_none(), "two budgets have the same number");
            self.founders.insert(budget, self.founders[&sibling]);
            self.budgets.push((budget, dataset));
            return;
        }
        let is_tight = random.random_bool(0.3);
        let max = if is_tight { self.max_block_slots } else { random.random_range(self.max_block_slots..=slots) };
        let min = random.random_range(0..=slots / 3).min(max);
        let limits = Limits { min, max, weight: random.random_range(1..4) };
        if let Ok(budget) = self.node.declare_budget(dataset, limits, policy) {
            assert!(self.maxima.insert(budget, max).is_none(), "two budgets have the same number");
            self.founders.insert(budget, budget);
            self.budgets.push((budget, dataset));
        }
    }

    fn end_budget(&mut self, budget: BudgetId) {
        self.found_before += found(&self.node.stats(budget));
        self.ended.extend(self.budgets.extract_if(.., |(open, _)| *open == budget));
        self.has_ended_early = true;
        assert_eq!(self.node.end_budget(budget), Ok(Vec::new()), "nobody is downstream");
    }

    fn end_dataset(&mut self, dataset: DatasetId) {
        let of_dataset = self.budgets.extract_if(.., |(_, of)| *of == dataset).collect::<Vec<_>>();
        let stats = of_dataset.iter().map(|(budget, _)| self.node.stats(*budget));
        self.found_before += stats.map(|stats| found(&stats)).sum::<u64>();
        self.ended.extend(of_dataset);
        self.has_ended_early = true;
        assert_eq!(self.node.end_dataset(dataset), Ok(Vec::new()), "nobody is downstream");
        assert_eq!(self.node.end_dataset(dataset), Err(DeclareError::UnknownDataset(dataset)));
    }

    /// Nothing is known of budgets that have ended.
    fn try_ended(&mut self) {
        let Some((budget, _)) = self.ended.choose(&mut self.random).copied() else { return };
        let unknown = |error: ReadError| matches!(error, ReadError::UnknownBudget(_));
        assert!(self.node.read(budget, vec![BlockIndex(0)]).is_err_and(unknown));
        assert!(self.node.prefetch(budget, vec![BlockIndex(0)]).is_err_and(unknown));
        assert!(self.node.end_budget(budget).is_err_and(unknown));
        assert_eq!(self.node.grant_credit(UPSTREAM, budget, 1), 0);
        assert_eq!(self.node.stats(budget), BudgetStats::default());
    }

    fn go(mut self) -> Vec<Action> {
        for _ in 0..self.random.random_range(50..400) {
            self.event();
            self.act();
            self.check();
        }
        // Readers ask no more: every request comes to its end.
        for _ in 0..100_000 {
            if self.asked.is_empty() && self.copying.is_empty() && self.recalled.is_empty() {
                break;
            }
            self.answer();
            self.finish_copy();
            self.return_credit();
            self.act();
            self.check();
        }
        assert!(self.open.is_empty(), "requests were forgotten: {:?}", self.open);
        assert!(self.asked.is_empty() && self.copying.is_empty(), "the run does not end");
        let state = internals::state(&self.node);
        let held = |budget: &internals::BudgetState| budget.used.iter().sum::<u32>();
        assert!(state.budgets.iter().all(|budget| !budget.is_ended || held(budget) == 0), "slots of the past are held");
        self.log
    }

    fn event(&mut self) {
        if self.budgets.is_empty() {
            self.open_dataset(None);
        }
        let Some((budget, dataset)) = self.budgets.choose(&mut self.random).copied() else { return };
        match self.random.random_range(0..20) {
            0..5 if self.open.len() < 8 => {
                let blocks = self.blocks();
                if let Ok(request) = self.node.read(budget, blocks.clone()) {
                    self.open.insert(request, blocks);
                }
            }
            5..10 => self.answer(),
            10..15 => self.finish_copy(),
            15 => {
                let blocks = self.blocks();
                let _ = self.node.prefetch(budget, blocks);
            }
            16 => {
                let blocks = self.blocks();
                let _ = self.node.expect(budget, blocks);
            }
            17 => self.push(budget, dataset),
            18 => match self.random.random_range(0..16) {
                0 => self.cancel(),
                1 => {
                    let generation = Generation(self.generations[&dataset].0 + 1);
                    self.generations.insert(dataset, generation);
                    self.has_ended_early = true;
                    self.node.replace(dataset, generation).unwrap();
                }
                2 => {
                    self.node.lose_upstream(UPSTREAM);
                    self.credit.clear();
                    self.recalled.clear();
                }
                3 => self.now += Duration::from_secs(self.random.random_range(1..100)),
                4 => self.node.cancel_prefetch(budget),
                5 => {
                    self.end_budget(budget);
                    self.open_budget(dataset);
                }
                6 => {
                    self.end_dataset(dataset);
                    let again = self.random.random_bool(0.7).then_some(dataset);
                    self.open_dataset(again);
                }
                7 => self.try_ended(),
                _ => self.return_credit(),
            },
            _ => {
                let wanted = self.random.random_range(0..6);
                let granted = self.node.grant_credit(UPSTREAM, budget, wanted);
                assert!(granted <= wanted);
                *self.credit.entry(budget).or_default() += granted;
            }
        }
    }

    /// Blocks of no dataset in particular: some of them may not exist, some may be named twice.
    fn blocks(&mut self) -> Vec<BlockIndex> {
        let first = self.random.random_range(0..60);
        let step = self.random.random_range(1..4);
        let mut blocks: Vec<_> =
            (0..self.random.random_range(0..12)).map(|number| BlockIndex(first + number * step)).collect();
        if self.random.random_bool(0.3) {
            blocks.extend(blocks.clone());
        }
        blocks
    }

    fn answer(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let which = self.random.random_range(0..self.asked.len());
        let (block, slots) = self.asked.swap_remove(which);
        if self.random.random_range(0..12) == 0 {
            self.has_ended_early = true;
            assert!(self.node.failed(block, Fault::Unreachable));
            return;
        }
        self.fill(block, &slots);
        assert!(self.node.arrived(block, self.now));
    }

    fn fill(&mut self, block: BlockId, slots: &[u32]) {
        for (part, slot) in slots.iter().enumerate() {
            self.contents[*slot as usize] = Some((block, part));
        }
    }

    fn finish_copy(&mut self) {
        if self.copying.is_empty() {
            return;
        }
        let which = self.random.random_range(0..self.copying.len());
        let (request, block, slots) = self.copying.swap_remove(which);
        for (part, slot) in slots.iter().enumerate() {
            assert_eq!(self.contents[*slot as usize], Some((block, part)), "a reader copied other bytes than its own");
        }
        self.node.copied(request, block, self.now);
    }

    fn push(&mut self, budget: BudgetId, dataset: DatasetId) {
        // An upstream may not know yet that a budget has ended.
        let late = self.ended.iter().copied().find(|_| self.random.random_bool(0.1));
        let (budget, dataset) = late.unwrap_or((budget, dataset));
        let index = match self.asked.choose(&mut self.random) {
            Some((asked, _)) if self.random.random_bool(0.3) => asked.index,
            _ => BlockIndex(self.random.random_range(0..80)),
        };
        let current = self.generations[&dataset];
        let others = [Generation(current.0.saturating_sub(1)), Generation(current.0 + 1)];
        let is_current = self.random.random_bool(0.8);
        let generation = if is_current { current } else { *others.choose(&mut self.random).unwrap() };
        let block = BlockId { dataset, generation, index };
        let before = self.node.usage();
        let is_taken = self.node.pushed(UPSTREAM, budget, block, self.now);
        let slots: Vec<u32> = self.node.slots(&block).collect();
        let used = before.credited - self.node.usage().credited;
        *self.credit.entry(budget).or_default() -= used;
        if !is_taken {
            return;
        }
        assert_eq!(used as usize, slots.len(), "a block was pushed without credit");
        self.asked.retain(|(asked, _)| *asked != block);
        self.fill(block, &slots);
    }

    fn return_credit(&mut self) {
        for (upstream, budget) in std::mem::take(&mut self.recalled) {
            let left = self.credit.remove(&budget).unwrap_or_default();
            self.node.return_credit(upstream, budget, left);
        }
    }

    fn cancel(&mut self) {
        let Some((request, _)) = self.open.pop_first() else { return };
        self.cancelled.insert(request);
        self.has_ended_early = true;
        self.node.cancel(request);
    }

    fn act(&mut self) {
        while let Some(action) = self.node.poll(self.now) {
            self.log.push(action);
            match action {
                Action::Fetch { block, .. } => {
                    let slots: Vec<u32> = self.node.slots(&block).collect();
                    assert!(!slots.is_empty(), "{block:?} was asked for without slots");
                    self.asked.push((block, slots));
                }
                Action::Raise { block } => assert!(self.asked.iter().any(|(asked, _)| *asked == block)),
                Action::Recall { upstream, budget } => {
                    self.recalled.insert((upstream, budget));
                }
                Action::Copy { request, block } => {
                    self.given += 1;
                    assert_eq!(block.generation, self.generations[&block.dataset], "a block of the past was given");
                    if let Some(left) = self.open.get_mut(&request) {
                        let at = left.iter().position(|index| *index == block.index);
                        left.remove(at.expect("a request is given blocks that it asked for, once"));
                    }
                    let slots = self.node.slots(&block).collect();
                    self.copying.push((request, block, slots));
                }
                Action::Present { .. } => unreachable!("nobody is downstream"),
                Action::Done { request } => {
                    let left = self.open.remove(&request).expect("a request is done once");
                    assert_eq!(left, [], "a request is done with blocks left");
                }
                Action::Refuse { request, .. } => {
                    self.open.remove(&request).expect("a request is refused once");
                }
            }
        }
    }

    fn check(&self) {
        let usage = self.node.usage();
        assert_eq!(usage.free + usage.in_transit + usage.cached + usage.credited, usage.slots, "{usage:?}");
        let asked: usize = self.asked.iter().map(|(_, slots)| slots.len()).sum();
        assert_eq!(usage.in_transit as usize, asked);
        assert_eq!(usage.credited, self.credit.values().sum::<u32>());
        let mut used = BTreeMap::<BudgetId, u32>::new();
        for (budget, slots) in internals::budgets(&self.node).iter().zip(internals::used(&self.node)) {
            *used.entry(self.founders[budget]).or_default() += slots;
        }
        for (founder, used) in used {
            assert!(used <= self.maxima[&founder], "{used} of {} slots", self.maxima[&founder]);
        }
        for (budget, _) in &self.budgets {
            let siblings = self.budgets.iter().filter(|(other, _)| self.founders[other] == self.founders[budget]);
            let ended = self.ended.iter().any(|(other, _)| self.founders[other] == self.founders[budget]);
            let held: u32 = siblings.map(|(sibling, _)| self.node.used_alone(*sibling)).sum();
            let counted = self.node.used_together(*budget);
            assert!(held == counted || held < counted && ended, "{held} slots are held, and {counted} count");
        }
        let stats: Vec<_> = self.budgets.iter().map(|(budget, _)| self.node.stats(*budget)).collect();
        let found = self.found_before + stats.iter().map(found).sum::<u64>();
        let counted = self.given + internals::awaited(&self.node) as u64;
        assert!(found == counted || found > counted && self.has_ended_early, "{stats:?} of {counted} blocks");
        if self.asked.is_empty() && self.copying.is_empty() && self.recalled.is_empty() {
            assert!(self.open.is_empty(), "requests wait for nothing: {:?}", self.open);
        }
        assert!(internals::are_budget_sets_right(&self.node), "a set of budgets is wrong");
        let timeout = self.node.poll_timeout();
        assert!(timeout.is_none_or(|timeout| timeout > self.now), "the node has to be polled again at once");
    }
}

/// The blocks that readers of a budget asked for.
fn found(stats: &BudgetStats) -> u64 {
    stats.hits + stats.ahead_hits + stats.late_ahead + stats.joined + stats.misses
}

#[test]
fn random_runs_end_with_every_request_answered() {
    for seed in seeds() {
        let log = |hash_seed| std::panic::catch_unwind(|| Run::new(seed, hash_seed).go());
        let again = || println!("again: RAILS_SEEDS={seed}..{} {AGAIN} one_node", seed + 1);
        let logs = [1, 2].map(log);
        let [Ok(one), Ok(other)] = logs else {
            again();
            panic!("seed {seed} fails");
        };
        if one != other {
            again();
        }
        assert_eq!(one, other, "decisions depend on the seed of hashes");
    }
}

const UPSTREAM: UpstreamId = UpstreamId(0);
