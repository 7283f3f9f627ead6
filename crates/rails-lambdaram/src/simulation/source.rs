//! A source of blocks whose every element says where it is and of which generation.

use crate::{
    description::{ArraySummary, DatasetDescription},
    node::{Node, OpenGrid, Upstream},
    wire::Urgency,
};
use rails_array::{Region, Selection, Shape};
use rails_cache::{BlockId, Fault, pattern::Path};
use rails_formats::{
    data_type::DataType,
    manifest::{ArrayDescription, Attributes},
};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Time, row, column.
pub(super) const SHAPE: [u64; 3] = [12, 20, 24];
pub(super) const BLOCK: [u64; 3] = [1, 7, 9];
pub(super) const DATASET: &str = "numbers";

/// The files that several nodes serve: they have one generation at a time.
#[derive(Debug)]
pub(super) struct SharedFiles {
    pub(super) generation: AtomicU64,
    /// Rows that cannot be read.
    pub(super) broken_rows: Vec<u64>,
}

/// The source of one node.
pub(crate) struct SimulatedSource {
    files: Arc<SharedFiles>,
    upstream: Arc<SimulatedUpstream>,
}

struct SimulatedUpstream {
    node: Weak<Node>,
    files: Arc<SharedFiles>,
    random: Mutex<ChaCha8Rng>,
}

impl SimulatedSource {
    pub(super) fn new(node: &Arc<Node>, files: &Arc<SharedFiles>, seed: u64) -> Arc<Self> {
        let random = Mutex::new(ChaCha8Rng::seed_from_u64(seed));
        let upstream = SimulatedUpstream { node: Arc::downgrade(node), files: Arc::clone(files), random };
        Arc::new(Self { files: Arc::clone(files), upstream: Arc::new(upstream) })
    }

    pub(crate) fn describe(&self) -> Arc<DatasetDescription> {
        let shape = |extents: [u64; 3]| Shape::new(extents).expect("a small shape");
        let description = ArrayDescription {
            name: "numbers".into(),
            dtype: DataType::Uint32,
            shape: shape(SHAPE),
            dimension_names: vec![None; 3],
            fill_value: None,
            attributes: Attributes::new(),
        };
        let generation = self.files.generation.load(Ordering::Relaxed);
        Arc::new(DatasetDescription {
            name: DATASET.into(),
            generation,
            digest: [generation as u8; 32],
            attributes: Attributes::new(),
            arrays: vec![ArraySummary { description, block_shape: shape(BLOCK), views: Vec::new(), inline: None }],
        })
    }

    pub(crate) fn path(&self) -> Path {
        self.upstream.path()
    }

    pub(crate) fn upstream(&self, description: &DatasetDescription) -> Option<Arc<dyn Upstream>> {
        let is_current = self.files.generation.load(Ordering::Relaxed) == description.generation;
        is_current.then(|| self.upstream.clone() as Arc<dyn Upstream>)
    }
}

/// The elements of a selection in a generation.
pub(super) fn elements(selection: &Selection, generation: u64) -> Vec<u8> {
    let (bounds, steps) = (selection.bounds(), selection.steps());
    let axis = |axis: usize| (bounds.start()[axis]..bounds.end(axis)).step_by(steps[axis] as usize);
    let mut bytes = Vec::new();
    for time in axis(0) {
        for row in axis(1) {
            for column in axis(2) {
                let number = (time * SHAPE[1] + row) * SHAPE[2] + column + generation * 1_000_000;
                bytes.extend((number as u32).to_ne_bytes());
            }
        }
    }
    bytes
}

/// Whether a region has a row that cannot be read.
pub(super) fn is_broken(region: &Region, broken_rows: &[u64]) -> bool {
    broken_rows.iter().any(|row| (region.start()[1]..region.end(1)).contains(row))
}

impl Upstream for SimulatedUpstream {
    fn fetch(&self, grid: &Arc<OpenGrid>, blocks: &[BlockId], _: Urgency) {
        for &block in blocks {
            let latency = Duration::from_micros(self.random.lock().unwrap().random_range(0..4_000));
            let (node, files, grid) = (self.node.clone(), Arc::clone(&self.files), Arc::clone(grid));
            tokio::spawn(async move {
                tokio::time::sleep(latency).await;
                let Some(node) = node.upgrade() else { return };
                let region = grid.region(block.index);
                if files.generation.load(Ordering::Relaxed) != grid.key.generation {
                    node.outdate(&grid);
                    return node.fail(block, Fault::Changed, &"the files have changed".into());
                }
                if is_broken(&region, &files.broken_rows) {
                    return node.fail(block, Fault::Corrupt, &format!("{region} is broken").into());
                }
                let bytes = elements(&Selection::from(region), grid.key.generation);
                let _ = node.land(block, &bytes, crate::crc(&bytes)).await;
            });
        }
    }

    fn raise(&self, _: &Arc<OpenGrid>, _: &[BlockId]) {}

    fn recall(&self, _: &Arc<OpenGrid>) {}

    fn reading(&self, _: &Arc<OpenGrid>, _: &Selection) {}

    fn close(&self, _: &Arc<OpenGrid>) {}

    fn path(&self) -> Path {
        Path { round_trip: Duration::ZERO, storage_latency: Duration::from_millis(2), bytes_per_second: 100_000_000 }
    }
}

impl fmt::Debug for SimulatedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedSource")
    }
}

impl fmt::Debug for SimulatedUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedUpstream")
    }
}
