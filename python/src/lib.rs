//! The compiled part of the Python package `lambdaram`: sites, datasets, arrays and servers.
//!
//! It knows bytes, numbers and texts. The package beside it makes arrays with types, slices and
//! labels of these, and programs import that one.
//!
//! # Map
//! Each file depends only on those above it.
//! - `sys`: the memory of numpy's arrays;
//! - `error`: errors as exceptions;
//! - `process`: the runtime of this process, and values that no fork takes along;
//! - `options`: sizes, rates and times;
//! - `security`: the protection of links;
//! - `array`, `dataset`, `site`, `server`: the classes.

mod array;
mod dataset;
mod error;
mod options;
mod process;
mod security;
mod server;
mod site;
mod sys;

#[pyo3::pymodule]
mod _lambdaram {
    #[pymodule_export]
    use crate::{
        array::Array,
        dataset::Dataset,
        security::Security,
        server::{Server, serve},
        site::{Site, close, open},
    };
}
