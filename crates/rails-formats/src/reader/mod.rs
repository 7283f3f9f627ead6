//! Reading: files below a root, whose changes are noticed.
//!
//! All reads block their thread. A [`Source`] is an open file, and all its bytes are of one
//! [`Generation`]: a file that has changed is an error and never other bytes, but for the changes
//! that a generation does not notice. [`read_plan`] carries out a
//! [`RegionPlan`](crate::plan::RegionPlan); [`open_dataset`] goes from a dataset file to its
//! manifest.

mod dataset;
mod error;
mod generation;
mod read;
mod source;

pub use dataset::{OpenError, OpenLimits, OpenedDataset, open_dataset};
pub use error::ReadError;
pub use generation::Generation;
pub use read::{read_header, read_plan};
pub use source::{Root, Source};
