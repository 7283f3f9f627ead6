//! NetCDF-3: the variants CDF-1, CDF-2 and CDF-5.
//!
//! A file is a header, then the variables without the record dimension, each in one piece, and then
//! the records. A record has one slab of each record variable, each padded to 4 bytes. A single
//! record variable is the exception: its slabs are not padded. In the manifest a variable without
//! records is one chunk, and each slab of a record variable is one. [`Writer`] writes files without
//! records.
//!
//! # References
//! "The NetCDF Classic Format Specification", appendix B of the NetCDF User's Guide
//! (`docs/file_format_specifications.md` of netcdf-c).

mod header;
mod index;
mod writer;

pub use header::{Dimension, Header, MAX_HEADER_BYTES, Variable, Version};
pub use writer::{WriteError, Writer};
