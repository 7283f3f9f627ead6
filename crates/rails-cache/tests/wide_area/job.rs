//! Jobs that read an array, and how their runs went.

use rails_array::{BlockGrid, Grid, Region, Selection, Shape};
use rails_cache::{BudgetStats, pattern::Path};
use std::time::Duration;

/// 64 steps of 36 levels of the globe, half a degree apart.
pub(crate) const ARRAY: [u64; 4] = [64, 36, 361, 540];
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(19);
pub(crate) const BYTES_PER_SECOND: u64 = 500_000_000 / 8;
pub(crate) const PATH: Path =
    Path { round_trip: ROUND_TRIP, storage_latency: Duration::ZERO, bytes_per_second: BYTES_PER_SECOND };

/// What a job reads, and how long it computes after each read.
pub(crate) struct Job {
    /// The part of the array that has a grid of its own.
    pub(crate) view: Region,
    pub(crate) block_shape: [u64; 4],
    pub(crate) reads: Vec<(Selection, Duration)>,
}

impl Job {
    /// The wind shear of the thesis: `plane` of two levels at each step.
    pub(crate) fn wind_shear(plane: &Region, block_shape: [u64; 4], compute: Duration) -> Self {
        let [first, second] = [0, 1].map(|axis| plane.start()[axis]);
        let [rows, columns] = [0, 1].map(|axis| plane.shape().extents()[axis]);
        let view = region([0, 0, first, second], [ARRAY[0], ARRAY[1], rows, columns]);
        let read = |step, level| region([step, level, first, second], [1, 1, rows, columns]).into();
        let both = |step| [(read(step, 3), Duration::ZERO), (read(step, 30), compute)];
        Self { view, block_shape, reads: (0..ARRAY[0]).flat_map(both).collect() }
    }

    /// Every third level of a column of air, at each fourth step, in one place after another.
    pub(crate) fn ozone(compute: Duration) -> Self {
        let read = |number: u64| {
            let (step, place) = (number % 16 * 4, number / 16);
            let column = region([step, 0, 40 * place, 60 * place], [1, 36, 38, 50]);
            (Selection::new(column, [1, 3, 1, 1]).unwrap(), compute)
        };
        let reads = (0..128).map(read).collect();
        Self { view: Region::whole(&Shape::new(ARRAY).unwrap()), block_shape: [1, 1, 40, 60], reads }
    }

    pub(crate) fn grid(&self) -> Grid {
        Grid::new(BlockGrid::new(self.view.clone(), Shape::new(self.block_shape).unwrap()).unwrap())
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_shape.iter().product::<u64>() * 4
    }

    pub(crate) fn wanted_bytes(&self) -> u64 {
        self.reads.iter().map(|(selection, _)| selection.elements() * 4).sum()
    }

    /// The time that the link alone takes for the bytes.
    pub(crate) fn of_wire(&self) -> Duration {
        Duration::from_secs_f64(self.wanted_bytes() as f64 / BYTES_PER_SECOND as f64)
    }
}

/// How a run went.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) whole: Duration,
    /// How long each read waited.
    pub(crate) waits: Vec<Duration>,
    /// Blocks that came over the link.
    pub(crate) blocks: u64,
    /// Those of the reader's node.
    pub(crate) stats: BudgetStats,
}

impl Outcome {
    pub(crate) fn waited(&self) -> Duration {
        self.waits.iter().sum()
    }

    pub(crate) fn waited_part(&self) -> f64 {
        self.waited().as_secs_f64() / self.whole.as_secs_f64()
    }

    pub(crate) fn mean_wait_ms(&self) -> f64 {
        self.waited().as_secs_f64() * 1000.0 / self.waits.len() as f64
    }

    /// A line for people.
    pub(crate) fn line(&self) -> String {
        let mut long: Vec<(usize, u128)> = self.waits.iter().map(Duration::as_millis).enumerate().collect();
        long.sort_by_key(|(_, wait)| std::cmp::Reverse(*wait));
        long.truncate(12);
        long.sort_unstable();
        format!(
            "{:.2} s, mean wait {:.3} ms, {} blocks came; the longest waits in ms: {long:?}",
            self.whole.as_secs_f64(),
            self.mean_wait_ms(),
            self.blocks,
        )
    }
}

pub(crate) fn region(start: [u64; 4], extents: [u64; 4]) -> Region {
    Region::new(start, Shape::new(extents).unwrap()).unwrap()
}

/// How long the bytes of a block are on the link.
pub(crate) fn on_link(bytes: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND as f64)
}
