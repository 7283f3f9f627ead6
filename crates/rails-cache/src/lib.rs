//! The protocol of a cache of N-dimensional arrays, as a state machine without a socket, a clock or
//! a task.
//!
//! A [`Node`] keeps blocks of arrays in a fixed number of slots. Its driver tells what happens, and
//! carries out the [`Action`]s that the node answers with.
//!
//! # Map
//! Each module depends only on those above it.
//! - [`block`]: the names of blocks, budgets and requests; [`error`]: refusals; [`action`]: what a
//!   driver has to do; [`stats`]: what was done; `mutation`: faults for the models to find;
//! - `slots`, `list`, `table`: the memory, and the blocks that hold it;
//! - [`level`]: how full it is; `order`: which block goes first; `future`: which is expected to be
//!   used; [`budget`]: what counts against whom;
//! - `memory`: all of these, so that every slot is free or held once; [`stats`]: what was done;
//!   `store`: the datasets, and the memory that holds their blocks;
//! - `request`: who waits for which block; `collector`: which block is reclaimed, and when none;
//!   `access`: both of these, so that the oldest gets slots first;
//! - `credit`: which slots were promised to upstreams; `downstream`: which blocks are sent to nodes
//!   before they ask; `ahead`: both of these, and prefetching;
//! - [`node`]: what happens, and what has to be done about it.
//!
//! Beside them, [`pattern`] knows none of these: it says which regions will be read next, and how
//! far ahead to bring them. [`reader`] stands above both, and has the node prefetch them.
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
mod downstream;
pub mod error;
mod future;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
pub mod level;
mod list;
mod memory;
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub))]
mod mutation;
pub mod node;
pub mod order;
pub mod pattern;
pub mod reader;
mod request;
mod slots;
pub mod stats;
mod store;
mod table;

pub use action::{Action, Purpose};
pub use block::{BlockId, BudgetId, DatasetId, DownstreamId, Generation, RequestId, UpstreamId};
pub use budget::Limits;
pub use error::{DeclareError, Fault, ReadError, Refusal};
pub use level::MemoryLevel;
pub use node::{Node, NodeConfig};
pub use order::Policy;
pub use reader::Reader;
pub use request::Blocks;
pub use stats::{BudgetStats, MemoryUse};
