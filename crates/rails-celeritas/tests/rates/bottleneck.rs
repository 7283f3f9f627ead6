//! A bottleneck that several flows share: one queue, one line, and the same delay for all.

use crate::flows::{Flow, Item, Outbox};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::{Duration, Instant},
};

/// The way to the receivers. The way back is as long, and carries everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) bits_per_second: f64,
    /// The longest that a packet waits.
    pub(crate) queue: Duration,
    pub(crate) delay: Duration,
    /// The chance that a packet is lost behind the queue.
    pub(crate) loss: f64,
}

impl Counts {
    /// The share of the packets that the queue dropped.
    pub(crate) fn drops(&self) -> f64 {
        self.dropped as f64 / self.sent.max(1) as f64
    }

    /// The mean time in the queue, in seconds.
    pub(crate) fn wait(&self) -> f64 {
        self.waited / (self.sent - self.dropped).max(1) as f64
    }

    /// In Mbit/s.
    pub(crate) fn mbps(&self, time: Duration) -> f64 {
        self.passed / time.as_secs_f64() / 1e6
    }
}

/// The counts of one flow.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    /// Dropped by the full queue.
    pub(crate) dropped: u64,
    /// The seconds that all others have waited in it.
    pub(crate) waited: f64,
    /// The bits of the IP packets that have passed the line.
    pub(crate) passed: f64,
}

pub(crate) struct Bottleneck {
    pub(crate) line: Line,
    pub(crate) flows: Vec<Box<dyn Flow>>,
    pub(crate) counts: Vec<Counts>,
    now: Instant,
    free_at: Instant,
    due: Vec<Option<Instant>>,
    /// By time and number: the flow, and whether it is for the receiver.
    events: BinaryHeap<Reverse<(Instant, u64, usize, bool)>>,
    items: HashMap<u64, Item>,
    next: u64,
    rng: ChaCha8Rng,
}

impl Bottleneck {
    pub(crate) fn new(seed: u64, line: Line) -> Self {
        let now = Instant::now();
        Self {
            line,
            flows: Vec::new(),
            counts: Vec::new(),
            now,
            free_at: now,
            due: Vec::new(),
            events: BinaryHeap::new(),
            items: HashMap::new(),
            next: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Adds a flow that begins now.
    pub(crate) fn add(&mut self, make: impl FnOnce(Instant, Duration) -> Box<dyn Flow>) -> usize {
        self.flows.push(make(self.now, 2 * self.line.delay));
        self.counts.push(Counts::default());
        self.due.push(None);
        let flow = self.flows.len() - 1;
        self.work(flow);
        flow
    }

    /// The time that a packet would wait now.
    pub(crate) fn queued(&self) -> Duration {
        self.free_at.saturating_duration_since(self.now)
    }

    /// Runs for `time`. Returns the outcome of each flow.
    pub(crate) fn run(&mut self, time: Duration) -> Vec<Counts> {
        let (before, end) = (self.counts.clone(), self.now + time);
        loop {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let due = self.due.iter().enumerate().filter_map(|(flow, at)| at.map(|at| (at, flow))).min();
            let next = event.into_iter().chain(due.map(|(at, _)| at)).min().filter(|at| *at <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            let flow = match due.filter(|(at, _)| event.is_none_or(|event| *at < event)) {
                Some((_, flow)) => {
                    self.flows[flow].timeout(self.now);
                    flow
                }
                None => {
                    let Reverse((_, number, flow, is_forward)) = self.events.pop().expect("it was seen");
                    let item = self.items.remove(&number).expect("it is under way");
                    self.flows[flow].arrive(self.now, is_forward, item);
                    flow
                }
            };
            self.work(flow);
        }
        self.now = end;
        let minus = |(now, then): (&Counts, Counts)| Counts {
            sent: now.sent - then.sent,
            dropped: now.dropped - then.dropped,
            waited: now.waited - then.waited,
            passed: now.passed - then.passed,
        };
        self.counts.iter().zip(before).map(minus).collect()
    }

    fn work(&mut self, flow: usize) {
        let mut outbox = Outbox::default();
        self.flows[flow].work(self.now, &mut outbox);
        for (wire, item) in outbox.forward {
            self.pass(flow, wire, item);
        }
        for (is_forward, item) in outbox.control {
            self.put(self.now + self.line.delay, flow, is_forward, item);
        }
        self.due[flow] = self.flows[flow].due();
    }

    fn pass(&mut self, flow: usize, wire: u64, item: Item) {
        let count = &mut self.counts[flow];
        count.sent += 1;
        let begin = self.free_at.max(self.now);
        if begin - self.now > self.line.queue {
            count.dropped += 1;
            return;
        }
        count.waited += (begin - self.now).as_secs_f64();
        let bits = wire as f64 * 8.0;
        self.free_at = begin + Duration::from_secs_f64(bits / self.line.bits_per_second);
        count.passed += bits;
        if !self.rng.random_bool(self.line.loss) {
            self.put(self.free_at + self.line.delay, flow, true, item);
        }
    }

    fn put(&mut self, at: Instant, flow: usize, is_forward: bool, item: Item) {
        self.events.push(Reverse((at, self.next, flow, is_forward)));
        self.items.insert(self.next, item);
        self.next += 1;
    }
}
