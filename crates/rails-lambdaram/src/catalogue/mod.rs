//! The datasets that a node publishes, out of files.
//!
//! [`Catalogue::open`] goes from the arguments of a command line to [`PublishedDataset`]s: dataset
//! files, single files of arrays, Zarr folders, folders of these, and patterns. All calls block.
//!
//! # Map
//! Each file depends only on those above it.
//! - `error`, `limits`: errors and bounds;
//! - `format`, `find`: the format of a path, and the paths that are meant;
//! - `folders`, `content`: open folders, and the manifest of one path;
//! - `block_shape`, `describe`: the shapes of blocks, small arrays, and the digest;
//! - `chunk_files`, `published`: a dataset whose changes are noticed;
//! - `all`, `propose`: the datasets by name, and a dataset file for a folder.

mod all;
mod block_shape;
mod chunk_files;
mod content;
mod describe;
mod error;
mod find;
mod folders;
mod format;
mod limits;
mod propose;
mod published;

pub use all::{Catalogue, Refused};
pub use content::DatasetView;
pub use error::CatalogueError;
pub use format::SourceFormat;
pub use limits::OpenLimits;
pub use propose::{Proposal, propose};
pub use published::PublishedDataset;
