//! Random arrays, written in each format and read through the manifest, against `ndarray`.

mod arrays;
mod manifests;
mod netcdf3;
mod netcdf3_writer;
