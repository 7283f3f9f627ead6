//! Two nodes: a reader at one of them, and its data in the memory of the other one, which sends
//! them before it is asked.

use crate::job::{ARRAY, Job, Outcome, PATH, ROUND_TRIP, on_link};
use rails_array::{Selection, Shape};
use rails_cache::{
    Action, BlockId, BudgetId, DatasetId, DownstreamId, Generation, Limits, Lost, Node, NodeConfig, Policy, Presender,
    RequestId, UpstreamId,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// What travels, or happens later.
enum Event {
    /// The reader's node asks for a block.
    Get(BlockId),
    Reading(Selection),
    Credit(u32),
    /// The reader's node wants credit back, and gets it.
    Recall,
    Return(u32),
    Lost(Lost),
    Fate {
        used: u64,
        unused: u64,
    },
    /// A block leaves the server by the link.
    Sent(BlockId),
    Block(BlockId),
    Pushed(BlockId),
}

pub(crate) struct Presending {
    client: Node,
    server: Node,
    presender: Presender,
    budget: BudgetId,
    server_budget: BudgetId,
    now: Instant,
    link_free: Instant,
    /// By the time, and the number of the event.
    events: BTreeMap<(Instant, u64), Event>,
    count: u64,
    /// The slots that the server has left of its credit, or may get.
    credit: u32,
    serving: BTreeMap<RequestId, BlockId>,
    /// The fate of pushed blocks that the server was told.
    told: (u64, u64),
    block_bytes: u64,
    blocks: u64,
}

impl Presending {
    /// Runs a job; the server knows the reads of an earlier one, if there are any. Returns its
    /// outcome, and what the server has learned.
    pub(crate) fn run(job: &Job, slots: u32, known: &[Selection]) -> (Outcome, Vec<Selection>) {
        let start = Instant::now();
        let node = |slots| {
            let config =
                NodeConfig { slots, slot_bytes: 65_536, max_block_slots: 16, window_slots: slots / 4, seed: 1 };
            let mut node = Node::new(config, start);
            node.declare_dataset(DatasetId(0), Arc::new(job.grid()), 4, Generation(0)).unwrap();
            let budget = node.declare_budget(DatasetId(0), Limits::default(), Policy::Lru).unwrap();
            (node, budget)
        };
        let (mut client, budget) = node(slots);
        let (server, server_budget) = node(1 << 20);
        client.follow_losses(budget).unwrap();
        let mut run = Self {
            client,
            server,
            presender: Presender::new(CLIENT, server_budget, &Shape::new(ARRAY).unwrap()),
            budget,
            server_budget,
            now: start,
            link_free: start,
            events: BTreeMap::new(),
            count: 0,
            credit: 0,
            serving: BTreeMap::new(),
            told: (0, 0),
            block_bytes: job.block_bytes(),
            blocks: 0,
        };
        run.presender.tell(&mut run.server, known).unwrap();
        // The reader opens the dataset, and says with it how much may come.
        run.act();
        run.run_until(Some(start + ROUND_TRIP));
        let start = run.now;
        let read = |(selection, compute): &(Selection, Duration)| {
            let wait = run.read(selection);
            run.run_until(Some(run.now + *compute));
            wait
        };
        let waits = job.reads.iter().map(read).collect();
        let whole = run.now - start;
        let outcome = Outcome { whole, waits, blocks: run.blocks, stats: run.client.stats(budget) };
        // The server hears of the last reads.
        run.run_until(Some(run.now + ROUND_TRIP));
        (outcome, run.presender.reads().to_vec())
    }

    /// Reads a selection. Returns how long that took.
    fn read(&mut self, selection: &Selection) -> Duration {
        let asked = self.now;
        let blocks = self.client.blocks_of_selection(self.budget, selection).unwrap();
        self.client.read(self.budget, blocks).unwrap();
        let mut has_ended = self.act();
        let stats = self.client.stats(self.budget);
        let (used, unused) = (stats.used - self.told.0, stats.unused - self.told.1);
        self.told = (stats.used, stats.unused);
        self.after(ROUND_TRIP / 2, Event::Fate { used, unused });
        self.after(ROUND_TRIP / 2, Event::Reading(selection.clone()));
        while !has_ended {
            has_ended = self.step(None);
        }
        self.now - asked
    }

    fn run_until(&mut self, end: Option<Instant>) {
        while end.is_some_and(|end| self.now < end) {
            self.step(end);
        }
    }

    /// The next event, unless it comes after the end. Returns whether a request has ended.
    fn step(&mut self, end: Option<Instant>) -> bool {
        let next = self.events.first_key_value().map(|(key, _)| *key);
        let Some(key) = next.filter(|(at, _)| end.is_none_or(|end| *at <= end)) else {
            self.now = end.expect("a request waits for something");
            return false;
        };
        self.now = self.now.max(key.0);
        let event = self.events.remove(&key).unwrap();
        self.take(event);
        self.act()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Get(block) => {
                if !self.server.is_answered_by_push(CLIENT, self.server_budget, block.index) {
                    let request = self.server.read(self.server_budget, vec![block.index]).unwrap();
                    self.serving.insert(request, block);
                }
            }
            Event::Reading(selection) => {
                self.presender.read(&mut self.server, &selection, &PATH, self.now).unwrap();
            }
            Event::Credit(slots) => self.server.credited(CLIENT, self.server_budget, slots).unwrap(),
            Event::Recall => {
                let left = self.server.recalled(CLIENT, self.server_budget);
                self.after(ROUND_TRIP / 2, Event::Return(left));
            }
            Event::Return(slots) => {
                self.credit -= slots;
                self.client.return_credit(SERVER, self.budget, slots);
            }
            Event::Lost(Lost::Blocks(blocks)) => {
                self.server.downstream_holds(CLIENT, self.server_budget, blocks, false).unwrap();
            }
            Event::Lost(Lost::Unknown) => self.server.forget_held(CLIENT, self.server_budget),
            Event::Fate { used, unused } => self.presender.feedback(&mut self.server, used, unused, self.now),
            Event::Sent(block) => self.server.presented(CLIENT, self.server_budget, block, self.now),
            // Otherwise it was pushed meanwhile.
            Event::Block(block) => drop(self.client.arrived(block, self.now)),
            Event::Pushed(block) => {
                self.credit -= 1;
                self.client.pushed(SERVER, self.budget, block, self.now);
                assert_eq!(self.client.pushed_amiss(), 0);
            }
        }
    }

    /// Does what the nodes ask for. Returns whether a request has ended.
    fn act(&mut self) -> bool {
        let (mut has_ended, mut wanted) = (false, Vec::new());
        while let Some(action) = self.client.poll(self.now) {
            match action {
                Action::Fetch { block, .. } => wanted.push(block),
                Action::Copy { request, block } => self.client.copied(request, block, self.now),
                Action::Done { .. } => has_ended = true,
                Action::Recall { .. } => self.after(ROUND_TRIP / 2, Event::Recall),
                other => panic!("nothing fails here: {other:?}"),
            }
        }
        match self.client.take_lost(self.budget) {
            Lost::Blocks(blocks) if blocks.is_empty() => {}
            lost => self.after(ROUND_TRIP / 2, Event::Lost(lost)),
        }
        wanted.into_iter().for_each(|block| self.after(ROUND_TRIP / 2, Event::Get(block)));
        if self.credit < MAX_CREDIT / 2 {
            let granted = self.client.grant_credit(SERVER, self.budget, MAX_CREDIT - self.credit);
            self.credit += granted;
            self.after(ROUND_TRIP / 2, Event::Credit(granted));
        }
        self.serve();
        has_ended
    }

    fn serve(&mut self) {
        while let Some(action) = self.server.poll(self.now) {
            match action {
                Action::Fetch { block, .. } => assert!(self.server.arrived(block, self.now)),
                Action::Copy { request, block } => {
                    self.send(Event::Block(block));
                    self.server.copied(request, block, self.now);
                }
                Action::Present { block, .. } => {
                    let left = self.send(Event::Pushed(block));
                    self.after(left, Event::Sent(block));
                }
                Action::Done { request } => assert!(self.serving.remove(&request).is_some()),
                other => panic!("nothing fails here: {other:?}"),
            }
        }
    }

    /// Puts a block on the link. Returns when it has left.
    fn send(&mut self, arrival: Event) -> Duration {
        self.link_free = self.link_free.max(self.now) + on_link(self.block_bytes);
        let left = self.link_free - self.now;
        self.after(left + ROUND_TRIP / 2, arrival);
        self.blocks += 1;
        left
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.count += 1;
        self.events.insert((self.now + time, self.count), event);
    }
}

const CLIENT: DownstreamId = DownstreamId(0);
const SERVER: UpstreamId = UpstreamId(0);
const MAX_CREDIT: u32 = 1024;
