//! Files of arrays as manifests: where each chunk of an array lies, and ranged reads of it.
//!
//! A format is an indexer: from a file's header to a [`Manifest`](manifest::Manifest), which names
//! each array, its chunks, and each chunk's file, offset and length. One reader executes manifests,
//! so a format has no I/O of its own. Parsers get bytes and sizes, and answer with values or with
//! the number of bytes that they need.
//!
//! # Map
//! Each module depends only on those above it.
//! - [`data_type`]: types of elements, and the order of their bytes;
//! - [`manifest`]: arrays, sections of chunks, and the chunks of a region;
//! - [`decode`]: stored bytes of chunks, decoded within limits;
//! - [`header`]: the errors of headers, and the conversation with their parsers;
//! - [`netcdf3`], [`map_binary`], [`raw`], [`zarr`]: the formats;
//! - [`dataset`]: dataset files, and many files as one array;
//! - [`plan`]: a region as merged reads;
//! - [`reader`]: files whose changes are noticed. It alone does I/O.
//!
//! # Example
//! ```no_run
//! use rails_array::{Region, Shape};
//! use rails_formats::{
//!     manifest::ObjectPath,
//!     plan::{MergeLimits, plan_region},
//!     reader::{OpenLimits, Root, open_dataset, read_plan},
//! };
//!
//! let root = Root::open("/data".as_ref())?;
//! let opened = open_dataset(&root, &ObjectPath::new("merra.toml")?, &OpenLimits::default())?;
//! let manifest = &opened.stitched.manifest;
//! let wind = manifest.array("wind").ok_or("the dataset has no wind")?;
//!
//! let basin = Region::new([0, 3, 100, 200], Shape::new([1, 1, 100, 150])?)?;
//! let plan = plan_region(wind, &basin, &MergeLimits::default().max_gap_bytes(4096))?;
//! let mut elements = vec![0; plan.bytes() as usize];
//! read_plan(&plan, &mut elements, |object| {
//!     // A file that has changed since the dataset was opened is an error.
//!     let source = root.source(&manifest.objects()[object as usize])?;
//!     source.of_generation(opened.generations[object as usize])
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Bounds
//! Bytes of a file never cause a panic. A header takes memory in proportion to the bytes that are
//! there, up to fifteen times as much, and its manifest up to twenty-five times; neither takes any
//! by a count that the header states. Offsets and sizes are checked where they are computed, so a
//! wrong one is an error that names its field. A chunk is decoded to the size of its elements, and
//! no further.
//!
//! # Features
//! `zarr`, off by default: Zarr folders, and compressed chunks. Without it, both are errors that
//! name it.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
// clippy.toml lists them.
#![deny(clippy::disallowed_methods)]

pub mod data_type;
pub mod dataset;
pub mod decode;
pub mod header;
pub mod manifest;
pub mod map_binary;
pub mod netcdf3;
pub mod plan;
pub mod raw;
pub mod reader;
pub mod zarr;
