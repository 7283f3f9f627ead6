//! The arithmetic of N-dimensional arrays: shapes, regions, selections, block grids, placement and
//! copy plans.
//!
//! Nothing here holds an array, does I/O or knows a type of element. Coordinates are `u64`, and the
//! last axis varies fastest in memory (C order).
//!
//! # Map
//! Each module depends only on those above it.
//! - [`shape`], [`region`]: an array's extents, and a box of its elements;
//! - [`selection`]: elements at regular distances, and the text that names them;
//! - [`block_range`], [`grid`], [`partition`]: a region cut into blocks, and boxes of blocks;
//! - [`layout`]: the trait of such divisions;
//! - [`mod@copy`]: from the memory of blocks into that of a selection's result.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
// clippy.toml lists them.
#![deny(clippy::disallowed_methods)]

pub mod block_range;
pub mod copy;
pub mod grid;
pub mod layout;
pub mod partition;
pub mod region;
pub mod selection;
pub mod shape;

pub use block_range::{BlockIndex, BlockRange};
pub use copy::{CopyError, CopyPlan, PlanError, Run, Runs, SlotRun, SlotRuns, copy, copy_from_slots, copy_into_slots};
pub use grid::{BlockGrid, GridError, QueryError};
pub use layout::{Grid, Layout};
pub use partition::{PartitionIndex, Partitioning};
pub use region::{Region, RegionError};
pub use selection::{ResolveError, Selection, SelectionError, SelectionText, SelectionTextError};
pub use shape::{MAX_RANK, Shape, ShapeError};
