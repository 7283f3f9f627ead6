//! Random arrays, written in each format and read through the manifest, against `ndarray`.

mod arrays;
mod dataset;
mod manifests;
mod map_binary;
mod netcdf3;
mod netcdf3_writer;
mod raw;
