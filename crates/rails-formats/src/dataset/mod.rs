//! Datasets: many files as one array along an axis.
//!
//! A dataset file is TOML. [`DatasetFile::parse`] reads one, [`ArraySource::matches`] says which
//! files an array has, and [`DatasetFile::stitch`] makes one manifest of the files' manifests. None
//! of them does I/O.
//!
//! ```toml
//! [dataset]
//! name = "merra"
//! readers = ["group:climate"]          # beside the owner; the default is nobody
//!
//! [[array]]
//! name = "wind"
//! variable = "U"                       # the name in the files; the default is `name`
//! format = "netcdf3"                   # or "map-binary", "zarr", or "raw" with a table `raw`
//! files = "merra-*.nc"                 # a pattern, or a list of them
//! along = "time"                       # without it the array is one file
//! order = "name"                       # or "listed", or { attribute = "start" }
//! coordinate = { from = "variable" }   # or "attribute", "file-name", "list"
//! block_shape = [1, 1, 91, 135]        # in elements
//! partition_shape = [4, 4, 4, 4]       # in blocks
//! replicas = ["lram://starlight/merra"]
//!
//! [[array.view]]
//! name = "atlantic"
//! start = [0, 0, 100, 200]
//! shape = [1460, 36, 100, 150]
//! ```

mod coordinate;
mod difference;
mod document;
mod error;
mod file;
mod locate;
mod order;
mod pattern;
mod source;
mod stitch;
mod stitch_error;

pub use coordinate::{CoordinateError, CoordinateSource, Gap};
pub use difference::Difference;
pub use document::{Format, Order};
pub use error::{DatasetFileError, DatasetFileProblem};
pub use file::{ArraySource, DatasetFile, Principal, View};
pub use pattern::FilePattern;
pub use source::SourceFile;
pub use stitch::{Stitched, StitchedArray};
pub use stitch_error::StitchError;
