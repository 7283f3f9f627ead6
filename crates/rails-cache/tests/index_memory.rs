//! The memory that a node takes beside its slots.
#![allow(clippy::disallowed_methods)]

use rails_array::{BlockGrid, BlockIndex, Grid, Region, Shape};
use rails_cache::{Action, DatasetId, Generation, Limits, Node, NodeConfig, Policy};
use std::{hint::black_box, sync::Arc, time::Instant};

#[test]
fn a_cached_block_takes_at_most_120_bytes_of_index() {
    let now = Instant::now();
    // The collector keeps the memory at 78 %.
    let config = NodeConfig { slots: 130_000, slot_bytes: 65_536, max_block_slots: 4, window_slots: 64, seed: 1 };
    let shape = Shape::new([16, 16, 1024, 4096]).unwrap();
    let grid = BlockGrid::new(Region::whole(&shape), Shape::new([1, 1, 128, 128]).unwrap()).unwrap();
    let mut cached = 0;
    let memory = allocation_counter::measure(|| {
        let mut node = Node::new(config, now);
        node.declare_dataset(DatasetId(0), Arc::new(Grid::new(grid)), 4, Generation(0)).unwrap();
        let budget = node.declare_budget(DatasetId(0), Limits::default(), Policy::Lru).unwrap();
        for index in (0..100_000).map(|number| number % 65_536) {
            node.read(budget, vec![BlockIndex(index)]).unwrap();
            while let Some(action) = node.poll(now) {
                match action {
                    Action::Fetch { block, .. } => assert!(node.arrived(block, now)),
                    Action::Copy { request, block } => node.copied(request, block, now),
                    _ => {}
                }
            }
        }
        cached = u64::from(node.usage().cached);
        // What is alive at the end is counted.
        std::mem::forget(black_box(node));
    });
    let each = memory.bytes_current / i64::try_from(cached).unwrap();
    println!("{cached} blocks, {each} bytes each");
    assert_eq!(cached, 65_536);
    assert!(each <= 120, "{each} bytes a block");
}
