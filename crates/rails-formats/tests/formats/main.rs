//! Random arrays, written in each format and read through the manifest, against `ndarray`.

// The files that are read are written by the tests.
#![allow(clippy::disallowed_methods)]

mod arrays;
mod dataset;
mod decode;
mod manifests;
mod map_binary;
mod netcdf3;
mod netcdf3_writer;
mod netcdf3_written;
mod pool;
mod raw;
mod reader;
mod zarr;
