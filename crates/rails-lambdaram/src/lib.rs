//! Nodes that cache N-dimensional arrays, and fetch them before they are asked for.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod description;
pub mod encoding;
pub mod wire;
