//! A reader far from its data, under a simulated clock: the wind shear of the thesis, over 500
//! Mbit/s and 19 ms.
#![allow(clippy::disallowed_methods)]

use rails_array::{BlockGrid, Grid, Region, Selection, Shape};
use rails_cache::{
    Action, BlockId, BudgetId, BudgetStats, DatasetId, Generation, Limits, Node, NodeConfig, Policy, Reader,
    pattern::Path,
};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// 64 steps of 36 levels of the globe, half a degree apart.
const ARRAY: [u64; 4] = [64, 36, 361, 540];
/// Two levels are compared at each step.
const LEVELS: [u64; 2] = [3, 30];
const ROUND_TRIP: Duration = Duration::from_millis(19);
const BYTES_PER_SECOND: u64 = 500_000_000 / 8;

/// How a run went.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    whole: Duration,
    /// The part of `whole` in which the reader waited.
    waited: Duration,
    wanted_bytes: u64,
    stats: BudgetStats,
}

impl Outcome {
    /// The time that the link alone takes for the bytes.
    fn of_wire(&self) -> Duration {
        Duration::from_secs_f64(self.wanted_bytes as f64 / BYTES_PER_SECOND as f64)
    }

    fn waited_part(&self) -> f64 {
        self.waited.as_secs_f64() / self.whole.as_secs_f64()
    }
}

/// A node at the end of a link that carries one block after the other.
struct Site {
    node: Node,
    now: Instant,
    /// When the link is free for the next answer.
    link_free: Instant,
    /// Blocks on their way, by the time of their arrival.
    coming: BTreeMap<(Instant, BlockId), ()>,
    block_bytes: u64,
}

impl Site {
    /// Does what the node asks for. Returns whether a request has ended.
    fn act(&mut self) -> bool {
        let mut has_ended = false;
        while let Some(action) = self.node.poll(self.now) {
            match action {
                Action::Fetch { block, .. } => {
                    let asked = self.now + ROUND_TRIP / 2;
                    let seconds = self.block_bytes as f64 / BYTES_PER_SECOND as f64;
                    self.link_free = self.link_free.max(asked) + Duration::from_secs_f64(seconds);
                    self.coming.insert((self.link_free + ROUND_TRIP / 2, block), ());
                }
                Action::Copy { request, block } => self.node.copied(request, block, self.now),
                Action::Done { .. } => has_ended = true,
                Action::Raise { .. } => {}
                other => panic!("nothing fails here: {other:?}"),
            }
        }
        has_ended
    }

    /// Lets time pass until then, or until a request has ended.
    fn run_until(&mut self, end: Option<Instant>) {
        loop {
            if self.act() && end.is_none() {
                return;
            }
            let next = self.coming.first_key_value().map(|(key, ())| *key);
            match (next, end) {
                (Some((at, block)), end) if end.is_none_or(|end| at <= end) => {
                    self.coming.remove(&(at, block));
                    self.now = self.now.max(at);
                    assert!(self.node.arrived(block, self.now));
                }
                (_, Some(end)) => {
                    self.now = self.now.max(end);
                    return;
                }
                (_, None) => panic!("a request waits for nothing"),
            }
        }
    }
}

/// A reader far from its data.
struct Far {
    site: Site,
    reader: Reader,
    budget: BudgetId,
    prefetches: bool,
    start: Instant,
    waited: Duration,
    wanted_bytes: u64,
}

impl Far {
    /// A reader of a view of the array, which has a grid of its own.
    fn new(view: &Region, block_shape: [u64; 4], slots: u32, prefetches: bool) -> Self {
        let start = Instant::now();
        let grid = BlockGrid::new(view.clone(), Shape::new(block_shape).unwrap()).unwrap();
        let config = NodeConfig { slots, slot_bytes: 65_536, max_block_slots: 16, window_slots: slots / 4, seed: 1 };
        let mut node = Node::new(config, start);
        node.declare_dataset(DatasetId(0), Arc::new(Grid::new(grid)), 4, Generation(0)).unwrap();
        let budget = node.declare_budget(DatasetId(0), Limits::default(), Policy::Lru).unwrap();
        let block_bytes = block_shape.iter().product::<u64>() * 4;
        let site = Site { node, now: start, link_free: start, coming: BTreeMap::new(), block_bytes };
        let reader = Reader::new(budget, &Shape::new(ARRAY).unwrap());
        Self { site, reader, budget, prefetches, start, waited: Duration::ZERO, wanted_bytes: 0 }
    }

    fn read(&mut self, selection: &Selection) {
        let path = Path { round_trip: ROUND_TRIP, storage_latency: Duration::ZERO, bytes_per_second: BYTES_PER_SECOND };
        let asked = self.site.now;
        let request = if self.prefetches {
            self.reader.read(&mut self.site.node, selection, &path, asked).unwrap()
        } else {
            let blocks = self.site.node.blocks_of_selection(self.budget, selection).unwrap();
            self.site.node.read(self.budget, blocks).unwrap()
        };
        self.site.run_until(None);
        self.reader.ended(request, self.site.now);
        self.waited += self.site.now - asked;
        self.wanted_bytes += selection.elements() * 4;
    }

    fn compute(&mut self, phase: Duration) {
        self.site.run_until(Some(self.site.now + phase));
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            whole: self.site.now - self.start,
            waited: self.waited,
            wanted_bytes: self.wanted_bytes,
            stats: self.site.node.stats(self.budget),
        }
    }
}

/// Reads `plane` of both levels at each step, and computes in between.
fn wind_shear(plane: &Region, block_shape: [u64; 4], slots: u32, compute: Duration, prefetches: bool) -> Outcome {
    let [first, second] = [0, 1].map(|axis| plane.start()[axis]);
    let [rows, columns] = [0, 1].map(|axis| plane.shape().extents()[axis]);
    let view = Region::new([0, 0, first, second], Shape::new([ARRAY[0], ARRAY[1], rows, columns]).unwrap()).unwrap();
    let mut far = Far::new(&view, block_shape, slots, prefetches);
    for step in 0..ARRAY[0] {
        for level in LEVELS {
            let extents = Shape::new([1, 1, rows, columns]).unwrap();
            far.read(&Region::new([step, level, first, second], extents).unwrap().into());
        }
        far.compute(compute);
    }
    far.outcome()
}

fn globe() -> Region {
    Region::whole(&Shape::new([361, 540]).unwrap())
}

/// The Atlantic basin of the thesis.
fn basin() -> Region {
    Region::new([200, 150], Shape::new([100, 150]).unwrap()).unwrap()
}

const GLOBE_BLOCK: [u64; 4] = [1, 1, 91, 135];
const BASIN_BLOCK: [u64; 4] = [1, 1, 50, 150];
const PHASE: Duration = Duration::from_millis(50);

#[test]
fn globe_fills_the_wire() {
    let alone = wind_shear(&globe(), GLOBE_BLOCK, 4096, Duration::ZERO, false);
    let ahead = wind_shear(&globe(), GLOBE_BLOCK, 4096, Duration::ZERO, true);
    println!("globe: {alone:?}\n{ahead:?}\nwire {:?}", ahead.of_wire());
    assert!(ahead.whole < ahead.of_wire().mul_f64(1.1), "{ahead:?}");
    assert!(alone.whole > ahead.whole.mul_f64(2.0), "{alone:?}");
}

#[test]
fn globe_hides_behind_computation() {
    let ahead = wind_shear(&globe(), GLOBE_BLOCK, 4096, PHASE, true);
    println!("globe, computing: {ahead:?}");
    assert!(ahead.waited_part() <= 0.05, "{ahead:?}");
    assert_eq!(ahead.stats.unused, 0);
}

#[test]
fn basin_hides_behind_computation() {
    let alone = wind_shear(&basin(), BASIN_BLOCK, 4096, PHASE, false);
    let ahead = wind_shear(&basin(), BASIN_BLOCK, 4096, PHASE, true);
    println!("basin, computing: {alone:?}\n{ahead:?}");
    assert!(ahead.waited_part() <= 0.05, "{ahead:?}");
    assert!(alone.whole > ahead.whole.mul_f64(1.5), "{alone:?}");
}

#[test]
fn small_memory_slides_over_the_globe() {
    // Seven planes.
    let alone = wind_shear(&globe(), GLOBE_BLOCK, 112, PHASE, false);
    let ahead = wind_shear(&globe(), GLOBE_BLOCK, 112, PHASE, true);
    println!("globe, small memory: {alone:?}\n{ahead:?}");
    assert!(ahead.waited_part() <= 0.05 && alone.waited_part() > 0.5, "{ahead:?}");
    assert_eq!(ahead.stats.unused, 0, "{ahead:?}");
}

#[test]
fn random_reads_are_no_slower() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let regions: Vec<Region> = (0..300)
        .map(|_| {
            let start = [64, 36, 261, 390].map(|end| random.random_range(0..end));
            Region::new(start, Shape::new([1, 1, 100, 150]).unwrap()).unwrap()
        })
        .collect();
    let [alone, ahead] = [false, true].map(|prefetches| {
        let mut far = Far::new(&Region::whole(&Shape::new(ARRAY).unwrap()), GLOBE_BLOCK, 1024, prefetches);
        regions.iter().for_each(|region| far.read(&region.clone().into()));
        far.outcome()
    });
    println!("random: {alone:?}\n{ahead:?}");
    assert!(ahead.whole <= alone.whole.mul_f64(1.01), "{ahead:?}");
    assert!(ahead.stats.ahead_fetched * 50 <= ahead.stats.misses, "{ahead:?}");
}
