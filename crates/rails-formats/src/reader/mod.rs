//! Reading: files below a root, whose changes are noticed.
//!
//! All reads block their thread. A [`Source`] is an open file, and all its bytes are of one
//! [`Generation`]: a file that has changed is an error and never other bytes, but for the changes
//! that a generation does not notice. [`read_plan`] carries out a
//! [`RegionPlan`](crate::plan::RegionPlan), a [`ReadPool`] does so with several threads;
//! [`open_dataset`] goes from a dataset file to its manifest, [`open_zarr`] from a Zarr folder.

mod dataset;
mod error;
mod fetch;
mod generation;
mod limits;
mod pool;
mod read;
mod source;
mod task;
mod zarr;

pub use dataset::{OpenError, OpenedDataset, open_dataset, open_dataset_text};
pub use error::ReadError;
pub use generation::Generation;
pub use limits::OpenLimits;
pub use pool::{NoThread, PoolOptions, QueueFull, ReadPool};
pub use read::{read_header, read_plan, read_plan_below};
pub use source::{Root, Source};
pub use task::{PlanFiles, ReadEvent, ReadFailure, ReadPart, Reading};
pub use zarr::{OpenZarrError, OpenedZarr, open_zarr};
