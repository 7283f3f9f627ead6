//! A node that reads through another one, over a link on which blocks and control overtake each
//! other, with blocks pushed into credit.

use crate::{AGAIN, seeds};
use rails_array::{BlockGrid, BlockIndex, Grid, Region, Shape};
use rails_cache::{
    Action, BlockId, BudgetId, DatasetId, DownstreamId, Fault, Generation, Limits, Lost, Node, NodeConfig, Policy,
    RequestId, UpstreamId, internals,
};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Instant,
};

#[derive(Debug, Clone)]
enum ToServer {
    /// A block that is wanted beside a budget's credit.
    Get(BudgetId, BlockId),
    /// Credit of a budget of the client, and its recall.
    Credit(BudgetId, u32),
    Recall(BudgetId),
    /// Blocks that the client has given up.
    Lost(Lost),
}

#[derive(Debug, Clone)]
enum ToClient {
    Block(BlockId),
    /// A block that was pushed into the credit of a budget of the client.
    Pushed(BudgetId, BlockId),
    Fault(BlockId),
    Return(BudgetId, u32),
}

struct Site {
    random: ChaCha8Rng,
    now: Instant,
    client: Node,
    server: Node,
    budget: BudgetId,
    /// The client's budgets in the order of their declaration, those among them that have ended.
    opened: Vec<BudgetId>,
    server_budget: BudgetId,
    /// The server's budgets, and the one of the client whose credit each of them uses.
    client_budgets: BTreeMap<BudgetId, BudgetId>,
    to_server: VecDeque<ToServer>,
    to_client: VecDeque<ToClient>,
    reorders: bool,
    /// Blocks that the storage was asked for.
    storage: Vec<BlockId>,
    /// The server's requests, and the blocks that the client wants by them.
    serving: BTreeMap<RequestId, BlockId>,
    /// Blocks that the client's readers copy.
    copying: Vec<(RequestId, BlockId)>,
    open: BTreeSet<RequestId>,
    /// Blocks whose bytes the client has: its contents as an oracle.
    filled: BTreeSet<BlockId>,
    pushed: u64,
}

impl Site {
    fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let now = Instant::now();
        let node = |slots: u32, window| {
            let config = NodeConfig { slots, slot_bytes: 8, max_block_slots: 3, window_slots: window, seed };
            let mut node = Node::new(config, now);
            let shape = |extent| Shape::new([extent]).unwrap();
            // The last block is shorter.
            let grid = Grid::new(BlockGrid::new(Region::whole(&shape(239)), shape(6)).unwrap());
            node.declare_dataset(DATASET, Arc::new(grid), 4, Generation(0)).unwrap();
            let budget = open(&mut node);
            (node, budget)
        };
        let (mut client, budget) = node(random.random_range(12..60), random.random_range(1..12));
        client.follow_losses(budget).unwrap();
        let (server, server_budget) = node(random.random_range(12..100), random.random_range(1..12));
        Self {
            now,
            client,
            server,
            budget,
            opened: vec![budget],
            server_budget,
            client_budgets: BTreeMap::from([(server_budget, budget)]),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            reorders: random.random_range(0..2) == 0,
            random,
            storage: Vec::new(),
            serving: BTreeMap::new(),
            copying: Vec::new(),
            open: BTreeSet::new(),
            filled: BTreeSet::new(),
            pushed: 0,
        }
    }

    /// Returns how many blocks were pushed.
    fn go(mut self) -> u64 {
        for _ in 0..self.random.random_range(100..600) {
            self.event();
            self.act();
        }
        for _ in 0..100_000 {
            if self.is_still() {
                break;
            }
            self.progress();
            self.act();
        }
        assert!(self.is_still(), "the run does not end");
        assert_eq!(self.open, BTreeSet::new(), "requests were forgotten");
        if self.client_budgets.get(&self.server_budget) == Some(&self.budget) {
            let is_believed =
                |index| internals::is_held_by(&self.server, CLIENT, self.server_budget, BlockIndex(index));
            for index in (0..40).filter(|index| is_believed(*index)) {
                let block = BlockId { dataset: DATASET, generation: Generation(0), index: BlockIndex(index) };
                assert!(self.client.slots(&block).next().is_some(), "the server takes {index} to be there");
            }
        }
        for node in [&self.client, &self.server] {
            let budgets = internals::state(node).budgets;
            let held = |budget: &internals::BudgetState| budget.used.iter().sum::<u32>();
            assert!(budgets.iter().all(|budget| !budget.is_ended || held(budget) == 0), "slots of the past are held");
        }
        self.pushed
    }

    fn is_still(&self) -> bool {
        self.to_server.is_empty() && self.to_client.is_empty() && self.storage.is_empty() && self.copying.is_empty()
    }

    fn event(&mut self) {
        if self.random.random_range(0..50) == 0 {
            self.end_a_budget();
        }
        match self.random.random_range(0..10) {
            0 if self.open.len() < 4 => {
                let first = self.random.random_range(0..36);
                let blocks: Vec<BlockIndex> = (first..first + 4).map(BlockIndex).collect();
                self.open.insert(self.client.read(self.budget, blocks).unwrap());
            }
            1 => {
                let slots = self.client.grant_credit(UPSTREAM, self.budget, 6);
                if slots > 0 {
                    self.to_server.push_back(ToServer::Credit(self.budget, slots));
                }
            }
            2 => {
                let first = self.random.random_range(0..30);
                let blocks: Vec<BlockIndex> = (first..first + 8).map(BlockIndex).collect();
                self.server.presend(CLIENT, self.server_budget, blocks).unwrap();
            }
            3 => {
                let index = BlockIndex(self.random.random_range(0..40));
                self.server.downstream_holds(CLIENT, self.server_budget, vec![index], false).unwrap();
            }
            _ => self.progress(),
        }
    }

    /// The application at one of the nodes begins anew.
    fn end_a_budget(&mut self) {
        if self.random.random_range(0..2) == 0 {
            assert_eq!(self.client.end_budget(self.budget), Ok(Vec::new()), "nobody is below the client");
            self.budget = open(&mut self.client);
            self.client.follow_losses(self.budget).unwrap();
            self.opened.push(self.budget);
        } else {
            self.end_server_budget();
        }
    }

    fn end_server_budget(&mut self) {
        for unused in self.server.end_budget(self.server_budget).unwrap() {
            let budget = self.client_budgets[&unused.budget];
            self.to_client.push_back(ToClient::Return(budget, unused.slots));
        }
        let ended = std::mem::replace(&mut self.server_budget, open(&mut self.server));
        assert!(self.server.credited(CLIENT, ended, 1).is_err());
    }

    fn server_gets_credit(&mut self, budget: BudgetId, slots: u32) {
        let age = |budget: &BudgetId| self.opened.iter().position(|opened| opened == budget);
        let is_late = self.client_budgets.values().any(|other| age(other) > age(&budget));
        if is_late {
            // The client has begun anew since.
            self.to_client.push_back(ToClient::Return(budget, slots));
            return;
        }
        if self.client_budgets.get(&self.server_budget).is_some_and(|other| *other != budget) {
            self.end_server_budget();
        }
        self.client_budgets.insert(self.server_budget, budget);
        self.server.credited(CLIENT, self.server_budget, slots).unwrap();
    }

    /// One of those who have something to do does it.
    fn progress(&mut self) {
        match self.random.random_range(0..4) {
            0 => self.server_receives(),
            1 => self.client_receives(),
            2 => {
                if !self.storage.is_empty() {
                    let which = self.random.random_range(0..self.storage.len());
                    let block = self.storage.swap_remove(which);
                    if self.random.random_range(0..15) == 0 {
                        assert!(self.server.failed(block, Fault::Corrupt));
                    } else {
                        assert!(self.server.arrived(block, self.now));
                    }
                }
            }
            _ => {
                if !self.copying.is_empty() {
                    let which = self.random.random_range(0..self.copying.len());
                    let (request, block) = self.copying.swap_remove(which);
                    assert!(self.filled.contains(&block), "a reader copied what had not come");
                    self.client.copied(request, block, self.now);
                }
            }
        }
    }

    fn next<T>(queue: &mut VecDeque<T>, random: &mut ChaCha8Rng, reorders: bool) -> Option<T> {
        let ahead = if reorders { queue.len().min(4) } else { queue.len().min(1) };
        (ahead > 0).then(|| queue.remove(random.random_range(0..ahead)).unwrap())
    }

    fn server_receives(&mut self) {
        match self.to_server.pop_front() {
            None => {}
            Some(ToServer::Get(budget, block))
                if self.client_budgets.get(&self.server_budget) == Some(&budget)
                    && self.server.is_answered_by_push(CLIENT, self.server_budget, block.index) => {}
            Some(ToServer::Get(_, block)) => {
                let request = self.server.read(self.server_budget, vec![block.index]).unwrap();
                self.serving.insert(request, block);
            }
            Some(ToServer::Credit(budget, slots)) => self.server_gets_credit(budget, slots),
            Some(ToServer::Lost(Lost::Blocks(blocks))) => {
                self.server.downstream_holds(CLIENT, self.server_budget, blocks, false).unwrap();
            }
            Some(ToServer::Lost(Lost::Unknown)) => unreachable!("the array has fewer blocks"),
            Some(ToServer::Recall(budget)) => {
                let is_in_use = self.client_budgets.get(&self.server_budget) == Some(&budget);
                let left = if is_in_use { self.server.recalled(CLIENT, self.server_budget) } else { 0 };
                self.to_client.push_back(ToClient::Return(budget, left));
            }
        }
    }

    fn client_receives(&mut self) {
        match Self::next(&mut self.to_client, &mut self.random, self.reorders) {
            None => {}
            Some(ToClient::Pushed(budget, block)) => {
                self.pushed += 1;
                if self.client.pushed(UPSTREAM, budget, block, self.now) {
                    assert!(self.client.slots(&block).next().is_some());
                    self.filled.insert(block);
                }
                assert_eq!(self.client.pushed_amiss(), 0, "a block was pushed into no credit");
            }
            Some(ToClient::Block(block)) => {
                let is_wanted = self.client.arrived(block, self.now);
                // Otherwise it was pushed meanwhile.
                self.filled.extend(is_wanted.then_some(block));
            }
            Some(ToClient::Fault(block)) => {
                self.client.failed(block, Fault::Corrupt);
            }
            Some(ToClient::Return(budget, slots)) => self.client.return_credit(UPSTREAM, budget, slots),
        }
    }

    fn act(&mut self) {
        let mut wanted = Vec::new();
        while let Some(action) = self.client.poll(self.now) {
            match action {
                Action::Fetch { block, .. } => {
                    self.filled.remove(&block);
                    wanted.push(ToServer::Get(self.budget, block));
                }
                Action::Copy { request, block } => self.copying.push((request, block)),
                Action::Recall { budget, .. } => self.to_server.push_back(ToServer::Recall(budget)),
                Action::Done { request } | Action::Refuse { request, .. } => assert!(self.open.remove(&request)),
                Action::Raise { .. } => {}
                Action::Present { .. } => unreachable!("nobody is below the client"),
            }
        }
        match self.client.take_lost(self.budget) {
            Lost::Blocks(blocks) if blocks.is_empty() => {}
            lost => self.to_server.push_back(ToServer::Lost(lost)),
        }
        self.to_server.extend(wanted);
        while let Some(action) = self.server.poll(self.now) {
            match action {
                Action::Fetch { block, .. } => self.storage.push(block),
                Action::Copy { request, block } => {
                    self.to_client.push_back(ToClient::Block(block));
                    self.server.copied(request, block, self.now);
                }
                Action::Present { downstream, budget, block } => {
                    self.to_client.push_back(ToClient::Pushed(self.client_budgets[&budget], block));
                    self.server.presented(downstream, budget, block, self.now);
                }
                Action::Done { request } => assert!(self.serving.remove(&request).is_some()),
                Action::Refuse { request, .. } => {
                    let block = self.serving.remove(&request).unwrap();
                    self.to_client.push_back(ToClient::Fault(block));
                }
                Action::Raise { .. } => {}
                Action::Recall { .. } => unreachable!("the storage has no credit"),
            }
        }
        for node in [&self.client, &self.server] {
            let usage = node.usage();
            assert_eq!(usage.free + usage.in_transit + usage.cached + usage.credited, usage.slots, "{usage:?}");
        }
    }
}

fn open(node: &mut Node) -> BudgetId {
    node.declare_budget(DATASET, Limits::default(), Policy::Lru).unwrap()
}

#[test]
fn random_runs_of_two_nodes_drop_no_push() {
    let pushed: u64 = seeds()
        .map(|seed| {
            let run = std::panic::catch_unwind(|| Site::new(seed).go());
            run.unwrap_or_else(|_| panic!("again: RAILS_SEEDS={seed}..{} {AGAIN} two_nodes", seed + 1))
        })
        .sum();
    println!("{pushed} blocks were pushed");
    assert!(pushed > 0);
}

const DATASET: DatasetId = DatasetId(0);
const UPSTREAM: UpstreamId = UpstreamId(0);
const CLIENT: DownstreamId = DownstreamId(0);
