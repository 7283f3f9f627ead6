//! The arithmetic of N-dimensional arrays: shapes, regions, selections, block grids, placement and
//! copy plans.
//!
//! Nothing here holds an array, does I/O or knows a type of element. Coordinates are `u64`, and the
//! last axis varies fastest in memory (C order).
//!
//! # Map
//! Each module depends only on those above it.
//! - [`shape`], [`region`]: an array's extents, and a box of its elements;
//! - [`selection`]: elements at regular distances, and the text that names them.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
// clippy.toml lists them.
#![deny(clippy::disallowed_methods)]

pub mod region;
pub mod selection;
pub mod shape;

pub use region::{Region, RegionError};
pub use selection::{ResolveError, Selection, SelectionError, SelectionText, SelectionTextError};
pub use shape::{MAX_RANK, Shape, ShapeError};
