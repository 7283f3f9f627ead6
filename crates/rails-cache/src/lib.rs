//! The protocol of a cache of N-dimensional arrays, as a state machine without a socket, a clock or
//! a task.
//!
//! A [`Node`] keeps blocks of arrays in a fixed number of slots. Its driver tells what happens, and
//! carries out the [`Action`]s that the node answers with.
//!
//! ```
//! use rails_array::{BlockGrid, Grid, Region, Shape};
//! use rails_cache::{Action, DatasetId, Generation, Limits, Node, NodeConfig, Policy};
//! use std::{sync::Arc, time::Instant};
//!
//! let now = Instant::now();
//! let config = NodeConfig { slots: 1024, slot_bytes: 65_536, max_block_slots: 4, window_slots: 64, seed: 7 };
//! let mut node = Node::new(config, now);
//! let array = Region::whole(&Shape::new([64, 361, 540])?);
//! let grid = Grid::new(BlockGrid::new(array, Shape::new([1, 91, 135])?)?);
//! node.declare_dataset(DatasetId(0), Arc::new(grid), 4, Generation(0))?;
//! let budget = node.declare_budget(DatasetId(0), Limits::default(), Policy::Lru)?;
//!
//! let box_of_it = Region::new([3, 100, 200], Shape::new([1, 100, 150])?)?;
//! let request = node.read(budget, node.blocks_of(budget, &box_of_it)?)?;
//! let mut copied = 0;
//! while let Some(action) = node.poll(now) {
//!     match action {
//!         // Here the block's bytes come, into the slots `node.slots(&block)`.
//!         Action::Fetch { block, .. } => assert!(node.arrived(block, now)),
//!         // And from there they go to the reader.
//!         Action::Copy { request, block } => {
//!             node.copied(request, block, now);
//!             copied += 1;
//!         }
//!         Action::Done { request: done } => assert_eq!(done, request),
//!         other => panic!("nothing of this kind was asked for: {other:?}"),
//!     }
//! }
//! assert_eq!(copied, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//! Each module depends only on those above it.
//! - [`block`]: the names of blocks, budgets and requests; [`error`]: refusals; [`action`]: what a
//!   driver has to do; [`stats`]: counters; `mutation`: faults for the models to find;
//! - `slots`, `list`, `table`: the memory, and the blocks that hold it;
//! - [`level`]: how full it is; `order`: which block goes first; `future`: which is expected to be
//!   used; [`losses`]: which was given up; [`budget`]: what counts against whom; `share`: what one
//!   may have, or several together; `givers`: which budgets may have a block to give;
//! - `memory`: all of these, so that every slot is free or held once; `store`: the datasets, and
//!   the memory that holds their blocks;
//! - `request`: who waits for which block; `collector`: which block is reclaimed, and when none;
//!   `access`: both of these, so that the oldest gets slots first;
//! - `credit`: which slots were promised to upstreams; [`downstream`]: which blocks are sent to
//!   nodes before they ask; `ahead`: both of these, and prefetching;
//! - [`node`]: what happens, and what has to be done about it.
//!
//! Beside them, [`pattern`] knows none of these: it says which regions will be read next, and how
//! far ahead to bring them. [`reader`] and [`presender`] stand above both: one has the node
//! prefetch them, the other has it send them to another node. [`rehearsal`] runs a node in virtual
//! time over a path that is a model.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
// clippy.toml lists them. Tests read the clock once, at their start.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod access;
pub mod action;
mod ahead;
pub mod block;
pub mod budget;
mod collector;
mod credit;
pub mod downstream;
pub mod error;
mod future;
mod givers;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
pub mod level;
mod list;
pub mod losses;
mod memory;
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub))]
mod mutation;
pub mod node;
pub mod order;
pub mod pattern;
pub mod presender;
pub mod reader;
pub mod rehearsal;
mod request;
mod share;
mod slots;
pub mod stats;
mod store;
mod table;

pub use action::{Action, Purpose};
pub use block::{BlockId, BudgetId, DatasetId, DownstreamId, Generation, RequestId, UpstreamId};
pub use budget::Limits;
pub use downstream::UnusedCredit;
pub use error::{DeclareError, Fault, ReadError, Refusal};
pub use level::MemoryLevel;
pub use losses::Lost;
pub use node::{Node, NodeConfig};
pub use order::{ParsePolicyError, Policy};
pub use presender::Presender;
pub use reader::Reader;
pub use request::Blocks;
pub use stats::{BudgetStats, MemoryUse};
