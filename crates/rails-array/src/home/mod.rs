//! Homes: which nodes hold which partitions.
//!
//! - `placement`: [`Placement`], the nodes with their weights, and the epoch in which they hold;
//! - `distribution`: [`Distribution`], the trait of all rules;
//! - `cycle`: nodes in turn, as often as they weigh;
//! - `vector`: the choice of a vector for boxes of typical shape;
//! - `cyclic`: [`Cyclic`], homes by arithmetic; `table`: [`Table`], homes one by one.

mod cycle;
mod cyclic;
mod distribution;
mod placement;
mod table;
#[cfg(test)]
mod tests;
mod vector;

pub use cyclic::Cyclic;
pub use distribution::{Distribution, RankList};
pub use placement::{Epoch, MAX_CYCLE, NodeIndex, Placement, PlacementError};
pub use table::Table;
