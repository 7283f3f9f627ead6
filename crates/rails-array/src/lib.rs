//! The arithmetic of N-dimensional arrays: shapes, regions, selections, block grids, placement and
//! copy plans.
//!
//! Nothing here holds an array, does I/O or knows a type of element. Coordinates are `u64`, and the
//! last axis varies fastest in memory (C order).
//!
//! ```
//! use rails_array::{BlockGrid, CopyPlan, Region, SelectionText, Shape, copy};
//!
//! // The array is kept in blocks of one plane each, and somebody asks for a box.
//! let array = Shape::new([64, 361, 540])?;
//! let grid = BlockGrid::new(Region::whole(&array), Shape::new([1, 361, 540])?)?;
//! let text: SelectionText = "ozone[10:12, 100:200, 200:350]".parse()?;
//! let selection = text.resolve(&array)?;
//! let mut answer = vec![0; selection.elements() as usize * 4];
//! for block in grid.blocks_of_selection(&selection)? {
//!     let region = grid.block_region(block);
//!     let memory = vec![block.0 as u8; region.elements() as usize * 4];
//!     copy(&CopyPlan::new(&region, &selection, 4)?, &memory, &mut answer)?;
//! }
//! assert_eq!(answer, [[10; 60_000], [11; 60_000]].concat());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//! Each module depends only on those above it.
//! - [`shape`], [`region`]: an array's extents, and a box of its elements;
//! - [`selection`]: elements at regular distances, and the text that names them;
//! - [`block_range`], [`grid`], [`partition`]: a region cut into blocks, and boxes of blocks;
//! - [`layout`]: the trait of such divisions;
//! - [`home`]: the nodes on which partitions live;
//! - [`mod@copy`]: from the memory of blocks into that of a selection's result.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
// clippy.toml lists them.
#![deny(clippy::disallowed_methods)]

pub mod block_range;
pub mod copy;
pub mod grid;
pub mod home;
pub mod layout;
pub mod partition;
pub mod region;
pub mod selection;
pub mod shape;

pub use block_range::{BlockIndex, BlockRange};
pub use copy::{CopyError, CopyPlan, PlanError, Run, Runs, SlotRun, SlotRuns, copy, copy_from_slots, copy_into_slots};
pub use grid::{BlockGrid, GridError, QueryError};
pub use home::{Cyclic, Distribution, Epoch, MAX_CYCLE, NodeIndex, Placement, PlacementError, RankList, Table};
pub use layout::{Grid, Layout};
pub use partition::{PartitionIndex, Partitioning};
pub use region::{Region, RegionError};
pub use selection::{ResolveError, Selection, SelectionError, SelectionText, SelectionTextError};
pub use shape::{MAX_RANK, Shape, ShapeError};
