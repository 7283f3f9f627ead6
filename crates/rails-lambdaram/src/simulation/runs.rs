//! Whole sites, drawn from a seed.

use super::{
    source::{DATASET, SHAPE, SharedFiles, SimulatedSource, elements, is_broken},
    wire::SimulatedNode,
};
use crate::{
    Array, ReadError, Site, SiteAddress, SiteOptions,
    budgets::Budgets,
    library::{Library, Source},
    link::{Dialer, Greeting, Remote, RemotePeer},
    node::{Node, NodeSize, SlotMemory},
    wire::NodeId,
};
use rails_array::{Region, Selection, Shape};
use rails_cache::Fault;
use rand::{Rng, RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, time::timeout};

/// A site, and what may happen to it.
struct World {
    files: Arc<SharedFiles>,
    servers: Vec<SimulatedNode>,
    peers: Vec<SimulatedNode>,
    nodes: Vec<Arc<Node>>,
    site: Site,
    /// Some node may not answer for longer than the reader is patient, or lies.
    may_fail: bool,
}

/// The reads of a run, by their end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    whole: u64,
    changed: u64,
    broken: u64,
    unreachable: u64,
    /// Questions to a node that was down.
    unanswered: u64,
    cancelled: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        let Self { whole, changed, broken, unreachable, unanswered, cancelled } = other;
        self.whole += whole;
        self.changed += changed;
        self.broken += broken;
        self.unreachable += unreachable;
        self.unanswered += unanswered;
        self.cancelled += cancelled;
    }
}

impl World {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let broken_rows = if random.random_bool(0.3) { vec![random.random_range(0..SHAPE[1])] } else { Vec::new() };
        let files = Arc::new(SharedFiles { generation: AtomicU64::new(1), broken_rows });
        let lies = random.random_bool(0.15);
        let (mut servers, mut nodes) = (Vec::new(), Vec::new());
        for number in 0..random.random_range(1..=2_u8) {
            let node = node(number, random);
            let library =
                Library::new(&node, Source::Simulated(SimulatedSource::new(&node, &files, random.next_u64())));
            let lie = (lies && number == 0).then(|| random.next_u64());
            servers.push(SimulatedNode::new(&library, delay(random), lie));
            nodes.push(node);
        }
        let mut peers = Vec::new();
        if random.random_bool(0.3) {
            let node = node(8, random);
            let library = Library::new(&node, Source::Remote(remote(&node, &servers, random.random_bool(0.3))));
            peers.push(SimulatedNode::new(&library, delay(random), None));
            nodes.push(node);
        }
        let near = node(9, random);
        let upstreams = if peers.is_empty() { &servers } else { &peers };
        let library = Library::new(&near, Source::Remote(remote(&near, upstreams, random.random_bool(0.4))));
        nodes.push(near);
        let options = SiteOptions::new().prefetch(random.random_bool(0.8)).views(random.random_bool(0.5));
        let site = Site::of_library(&library, SiteAddress::Files("".into()), options);
        Self { files, servers, peers, nodes, site, may_fail: lies }
    }

    /// Something happens to the site.
    async fn disturb(&mut self, random: &mut ChaCha8Rng) {
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
        let all: Vec<SimulatedNode> = self.servers.iter().chain(&self.peers).cloned().collect();
        let node = &all[random.random_range(0..all.len())];
        match random.random_range(0..10_u8) {
            0..4 => node.cut(),
            // Longer than blocks are kept for a peer that takes nothing.
            4 => node.stall(Duration::from_secs(random.random_range(1..20))),
            5..7 => {
                node.set_down(true);
                tokio::time::sleep(Duration::from_millis(random.random_range(0..500))).await;
                node.set_down(false);
            }
            7 => {
                node.set_down(true);
                self.may_fail = true;
                tokio::time::sleep(PATIENCE * 2).await;
                node.set_down(false);
            }
            _ => drop(self.files.generation.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

fn node(number: u8, random: &mut ChaCha8Rng) -> Arc<Node> {
    // The largest block takes one slot or two.
    let size = NodeSize { slots: random.random_range(24..80), slot_bytes: 256, max_block_slots: 2 };
    let memory = SlotMemory::new(size).unwrap();
    let rules = ["*,policy=lru", "*,max=4KiB,policy=mru", "*,min=1KiB,weight=3", "*:none"];
    let rule = rules[random.random_range(0..rules.len())].parse().unwrap();
    let budgets = Budgets::new(&[rule], size.slots, size.slot_bytes, size.max_block_slots).unwrap();
    Node::new(NodeId([number; 16]), size, budgets, memory, random.next_u64(), &Handle::current())
}

fn remote(node: &Arc<Node>, servers: &[SimulatedNode], presends: bool) -> Arc<Remote> {
    let peers = servers.iter().enumerate().map(|(number, server)| RemotePeer {
        name: format!("server {number}").into(),
        dialer: Dialer::Simulated(server.clone()),
        runtime: Handle::current(),
    });
    let greeting =
        Greeting { path: vec![node.id()], application: "simulation".into(), max_block_bytes: 512, slot_bytes: 256 };
    Remote::new(peers.collect(), &greeting, PATIENCE, presends, node)
}

fn delay(random: &mut ChaCha8Rng) -> Duration {
    Duration::from_micros(random.random_range(0..10_000))
}

/// The reads of one job: steps through time, rows one after the other, or anything.
fn selections(random: &mut ChaCha8Rng) -> Vec<Selection> {
    let extents = [1, random.random_range(1..=SHAPE[1]), random.random_range(1..=SHAPE[2])];
    let corner = [1, 2].map(|axis| random.random_range(0..=SHAPE[axis] - extents[axis]));
    let of = |start: [u64; 3], extents: [u64; 3], steps: [u64; 3]| {
        Selection::new(Region::new(start, Shape::new(extents).unwrap()).unwrap(), steps).unwrap()
    };
    let count = random.random_range(2..12);
    match random.random_range(0..3_u8) {
        0 => (0..count).map(|time| of([time % SHAPE[0], corner[0], corner[1]], extents, [1; 3])).collect(),
        1 => (0..count).map(|time| of([time * 2 % SHAPE[0], corner[0], corner[1]], extents, [1, 1, 2])).collect(),
        _ => {
            let any = |_| {
                let extents = [0, 1, 2].map(|axis| random.random_range(1..=SHAPE[axis]));
                let start = [0, 1, 2].map(|axis| random.random_range(0..=SHAPE[axis] - extents[axis]));
                of(start, extents, [0; 3].map(|_| random.random_range(1..4)))
            };
            (0..count).map(any).collect()
        }
    }
}

/// Reads as a job does, and compares each answer with the array.
async fn job(site: Site, files: Arc<SharedFiles>, mut random: ChaCha8Rng) -> Tally {
    let mut tally = Tally::default();
    let mut array: Option<(Array, u64)> = None;
    for selection in selections(&mut random) {
        if array.is_none() {
            match site.dataset(DATASET).await {
                Err(_) => {
                    tally.unanswered += 1;
                    tokio::time::sleep(PATIENCE / 2).await;
                    continue;
                }
                Ok(dataset) => array = Some((dataset.array("numbers").unwrap(), dataset.description().generation)),
            }
        }
        let (reader, generation) = array.clone().unwrap();
        if random.random_bool(0.05) {
            // Somebody loses patience.
            let limit = Duration::from_millis(random.random_range(0..20));
            tally.cancelled += u64::from(timeout(limit, reader.read_selection(&selection)).await.is_err());
            continue;
        }
        match timeout(PATIENCE * 40, reader.read_selection(&selection)).await.expect("a read ends") {
            Ok(read) => {
                assert!(read == elements(&selection, generation), "{selection} of generation {generation} is wrong");
                tally.whole += 1;
            }
            Err(ReadError::Changed { .. }) => {
                assert!(files.generation.load(Ordering::Relaxed) > generation, "nothing has changed");
                tally.changed += 1;
                array = None;
            }
            Err(ReadError::Failed { fault: Fault::Corrupt, reason, .. }) => {
                // A block of the selection, with all its rows.
                let is_near = is_broken(&Region::whole(&Shape::new(SHAPE).unwrap()), &files.broken_rows);
                assert!(is_near || reason.contains("checksum") || reason.contains("payload"), "{reason}");
                tally.broken += 1;
            }
            // Two nodes whose files changed between their answers.
            Err(ReadError::Failed { fault: Fault::Unreachable, reason, .. })
                if reason.contains("serve different data") =>
            {
                tally.changed += 1;
                array = None;
            }
            Err(ReadError::Failed { fault: Fault::Unreachable, .. }) => tally.unreachable += 1,
            Err(error) => panic!("{selection}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..4))).await;
    }
    tally
}

/// One site. Returns how its reads ended.
async fn run(seed: u64) -> Tally {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::draw(&mut random);
    let jobs: Vec<_> = (0..random.random_range(1..=3_u8))
        .map(|_| {
            let random = ChaCha8Rng::seed_from_u64(random.next_u64());
            tokio::spawn(job(world.site.clone(), Arc::clone(&world.files), random))
        })
        .collect();
    for _ in 0..random.random_range(0..4_u8) {
        world.disturb(&mut random).await;
    }
    let mut all = Tally::default();
    for job in jobs {
        all.add(&job.await.unwrap());
    }
    assert!(world.may_fail || all.unreachable == 0, "a node that comes back in time is waited for: {all:?}");
    // What was asked for ahead of time comes, or fails.
    tokio::time::sleep(PATIENCE * 10).await;
    for node in &world.nodes {
        let status = node.status();
        assert_eq!(status.in_transit, 0, "a slot waits for ever: {status:?}");
        assert_eq!(status.free + status.cached + status.credited, status.slots, "a slot is lost: {status:?}");
    }
    all
}

/// A run by itself, under its own clock.
fn run_alone(seed: u64) -> Tally {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { timeout(Duration::from_secs(3600), run(seed)).await.expect("a run ends") })
}

#[test]
fn sites_read_what_is_there_properties() {
    let seeds = seeds();
    let mut all = Tally::default();
    for seed in seeds.clone() {
        let tally = std::panic::catch_unwind(|| run_alone(seed));
        let tally = tally.unwrap_or_else(|panic| {
            eprintln!("seed {seed}: RAILS_SEEDS={seed}..{} cargo test -p rails-lambdaram simulation", seed + 1);
            std::panic::resume_unwind(panic)
        });
        all.add(&tally);
    }
    println!("{seeds:?}: {all:?}");
    if seeds.end - seeds.start >= 100 {
        let Tally { whole, changed, broken, unreachable, unanswered, cancelled } = all;
        assert!([whole, changed, broken, unreachable, unanswered, cancelled].iter().all(|count| *count > 0), "{all:?}");
    }
}

/// The seeds of the environment, or few.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("RAILS_SEEDS") else { return 0..100 };
    let (begin, end) = text.split_once("..").expect("RAILS_SEEDS is BEGIN..END");
    begin.parse().expect("a number")..end.parse().expect("a number")
}

const PATIENCE: Duration = Duration::from_secs(2);
